"""Paths of MRC as described (OCP, 2026): values of good, suspect and lost paths, in turn at each plane; probes bring them back.

And which packets count as lost: those that were sent longer than a bound before another one that has come.  Written from the
description, with sets and lists, beside the simulator's scheme.
"""


class Paths:
    """What a sender knows of its paths.  Times in any unit."""

    def __init__(self, values, planes, suspect, probe):
        self.share = max(values // planes, 1)
        self.order = {plane: [(plane, i) for i in range(self.share)] for plane in range(planes)}
        for order in self.order.values():
            order.append(order.pop(0))  # the first one has its turn last
        self.suspect, self.probe = suspect, probe
        self.suspects = {}  # value -> when it is good again
        self.out = {}  # value -> when it is probed next
        self.carried_by = {}  # packet -> its value

    def number(self, value):
        return value[0] * self.share + value[1]

    def value(self, number):
        return divmod(number, self.share)

    def send(self, now, plane, packet):
        """-> the number of the value that the packet takes: a good one, else a suspect one, else any; the one longest waiting."""
        self.suspects = {value: end for value, end in self.suspects.items() if now < end}
        order = self.order[plane]
        usable = [value for value in order if value not in self.out]
        good = [value for value in usable if value not in self.suspects]
        taken = (good or usable or order)[0]
        place = order.index(taken)
        self.order[plane] = order[place + 1 :] + order[: place + 1]
        self.carried_by[packet] = taken
        return self.number(taken)

    def marked(self, now, number):
        value = self.value(number)
        if value not in self.out:
            self.suspects[value] = now + self.suspect

    def lost(self, now, packet):
        value = self.carried_by.get(packet)
        if value is not None and value not in self.out:
            self.suspects.pop(value, None)
            self.out[value] = now + self.probe

    def due(self, now):
        """-> the numbers that are probed now, and when the next ones are; None: none is out."""
        probed = sorted(value for value, at in self.out.items() if at <= now)
        self.out.update(dict.fromkeys(probed, now + self.probe))
        return [self.number(value) for value in probed], min(self.out.values(), default=None)

    def answered(self, number):
        self.out.pop(self.value(number), None)

    def dead_planes(self):
        return {plane for plane, order in self.order.items() if all(value in self.out for value in order)}


class Gaps:
    """Which packets are lost: copies in the order in which they were sent, of those of which nothing has been heard."""

    def __init__(self, bound):
        self.bound, self.copies, self.newest = bound, [], 0

    def send(self, now, packet):
        self.copies = [(at, other) for at, other in self.copies if other != packet] + [(now, packet)]

    def heard(self, packets):
        """They have come, or were cut."""
        self.copies = [(at, packet) for at, packet in self.copies if packet not in packets]

    def came(self, sent):
        """A packet that was sent then has come -> those that are lost, in the order of their numbers."""
        self.newest = max(self.newest, sent)
        lost = sorted(packet for at, packet in self.copies if self.newest - at > self.bound)
        self.heard(lost)
        return lost
