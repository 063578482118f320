"""What runs of an operator's configuration were like, per port: what came, what was lost and why, how long it was paused."""

from collections import Counter
from collections.abc import Sequence

from penstock_net.vswitch.simulation.run import Found


def lines_of(tried: Sequence[Found]) -> list[str]:
    """A line for each stand-in and for each port, and for each reason for which frames were lost there."""
    simulated = sum(found.simulated_ns for found in tried) / 1e9
    lines = [f"not as given: {said}" for said in tried[0].stand_ins]
    lines.append(f"{len(tried)} runs, {simulated:.1f} s simulated")
    lines.append(f"{'port':<12}{'sent':>9}{'came':>9}{'lost':>9}{'pauses':>9}{'paused':>12}")
    for i, row in enumerate(tried[0].ports):
        rows = [found.ports[i] for found in tried]
        lost: Counter[str] = Counter()
        for each in rows:
            lost.update(each.lost)
        sent, came = sum(each.sent for each in rows), sum(each.came for each in rows)
        pauses, paused = sum(each.pauses for each in rows), sum(each.paused_ns for each in rows) / 1e6
        lines.append(f"{row.port:<12}{sent:>9,}{came:>9,}{lost.total():>9,}{pauses:>9,}{paused:>9,.1f} ms")
        lines += [f"{'':<12}{frames:>27,} {reason}" for reason, frames in lost.most_common()]
    return lines
