"""Early resume, which is ours (docs/early-resume.md): BFC whose queues are resumed while a few marked packets are left.

Written from the page's text. A switch remembers which queues upstream it has asked to pause. A marked packet whose queue is not
among them pauses it, whatever the counter says. When a marked packet has left and those of its queue that remain are, as full
frames, at most `resume_at` one-hop bandwidth-delay products divided by N_active of the port that it left from, the queue is
resumed. N_active counts the unpaused queues with packets after the departure, and is one at least.
"""

from fractions import Fraction

from paper import bfc


class _Asked:
    """What both switches have in common: the queues upstream that have been asked to pause, and when to resume them."""

    def __init__(self, *args, resume_at, full_frame, **more):
        super().__init__(*args, **more)
        self.resume_at, self.full_frame, self.asked = Fraction(resume_at), full_frame, set()

    def pauses(self, packet):
        """-> the frame of a packet that has been marked, if there is one."""
        key = packet.ingress_port, packet.upstream_q
        if not packet.counter_incr or key in self.asked:
            return []
        self.asked.add(key)
        return [bfc.Frame("pause", *key)]

    def resumes(self, packet, n_active):
        """-> the frame of a marked packet whose counter has been decremented, if there is one."""
        key = packet.ingress_port, packet.upstream_q
        left = self.pause_counter[key] * self.full_frame
        bdp = Fraction(self.hrtt) / Fraction(self.ps_per_byte[packet.egress_port])
        if key not in self.asked or left > self.resume_at * bdp / max(n_active, 1):
            return []
        self.asked.discard(key)
        return [bfc.Frame("resume", *key)]


def early(reading):
    """A switch of queue_assignment.py with early resume."""

    class Early(_Asked, reading):
        def on_enqueue(self, now_ps, packet, random_queue=None):
            q, _ = super().on_enqueue(now_ps, packet, random_queue)
            return q, self.pauses(packet)

        def on_dequeue(self, now_ps, packet):
            super().on_dequeue(now_ps, packet)
            return self.resumes(packet, len(self.eligible(packet.egress_port))) if packet.counter_incr else []

    return Early


def early_tofino2(switch):
    """The same of bfc_tofino2.py: counters are decremented as headers come back, N_active is that of the last update."""

    class Early(_Asked, switch):
        def finish(self, pipeline, now_ps):
            _, packet = pipeline.headers[0]
            super().finish(pipeline, now_ps)
            if not packet.counter_incr:
                return []
            n_active = self.known_active[packet.egress_port]
            if not self.update_ps or now_ps // self.update_ps > self.updates:
                n_active = len(self.eligible(packet.egress_port))
            return [(now_ps, frame) for frame in self.resumes(packet, n_active)]

        def on_enqueue(self, now_ps, packet, random_queue=None):
            q, frames = super().on_enqueue(now_ps, packet, random_queue)
            resumed = [frame for frame in frames if frame[1].kind == "resume"]
            return q, resumed + [(now_ps, frame) for frame in self.pauses(packet)]

    return Early
