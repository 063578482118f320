"""Variants of BFC (NSDI 2022): traffic classes (appendix A.3), the incast label (A.7).

Each is the transcription of a switch as one class of queue_assignment.py has it (`reading`), with one of them changed.

* A.3: "The switch performs dynamic queue assignment for each class independently": a switch of its own for every class, with its
  part of the queues. N_active and the pause counter are those of the port, since the paper says nothing else.
* A.7: "assigns all the incast flows at an egress port to the same queue": the last one, which no other flow gets.
"""

from paper import bfc


def labelled(reading):
    """A.7: labelled packets in the last queue, all others in the rest."""

    class Labelled(reading):
        def entry(self, packet):
            if packet.incast:
                return bfc.Entry(q_assignment=self.queues - 1, size=1)
            return super().entry(packet)

        def candidates(self, now_ps, packet):
            return [q for q in super().candidates(now_ps, packet) if q != self.queues - 1]

        def shared(self):
            return super().shared()[:-1]

    return Labelled


def one_class(reading):
    """A.3: a class among `siblings`, which share a port and its pause counters."""

    class OneClass(reading):
        siblings = ()

        def n_active(self, egress, arriving_q):
            others = [other for other in self.siblings if other is not self]
            return super().n_active(egress, arriving_q) + sum(len(other.eligible(egress)) for other in others)

    return OneClass


class Classes:
    """A.3: one switch per class, highest priority first. A packet's class is its priority; queues are numbered class by class."""

    def __init__(self, classes):
        self.classes = classes
        for one in classes:
            one.siblings, one.pause_counter = classes, classes[0].pause_counter
            if hasattr(one, "start"):  # section 4: a pipeline has one for all classes, counted from the first queue of each
                one.start = classes[0].start

    def place(self, queue):
        """-> (class, queue among its own)."""
        for one in self.classes:
            if queue < one.queues:
                return one, queue
            queue -= one.queues
        raise IndexError

    def on_enqueue(self, now_ps, packet, random_queue=None):
        mine = min(packet.priority, len(self.classes) - 1)
        q, frames = self.classes[mine].on_enqueue(now_ps, packet)
        return sum(one.queues for one in self.classes[:mine]) + q, frames

    def on_dequeue(self, now_ps, packet):
        return self.classes[min(packet.priority, len(self.classes) - 1)].on_dequeue(now_ps, packet)

    def on_pause(self, egress, queue):
        one, q = self.place(queue)
        one.on_pause(egress, q)

    def on_resume(self, egress, queue):
        one, q = self.place(queue)
        one.on_resume(egress, q)
