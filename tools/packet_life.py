"""Draws docs/images/packet-life.svg and docs/images/hooks.svg from the steps below: python tools/packet_life.py.

Both show a packet from its sender to its receiver and its ACK on the way back. The first has the function of each step and
is for docs/design.md; the second, for docs/writing-schemes.md, has the hooks only.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
SENDER, RECEIVER, LIFETIMES = "sim/core/sender.py", "sim/core/receiver.py", "sim/core/lifetimes.py"
ARRIVALS, SWITCH, LINE = "sim/core/arrivals.py", "fabric/switch.py", "fabric/line.py"


@dataclass(frozen=True)
class Step:
    """What happens, by which functions of which file, and the hooks that are called in it."""

    text: str
    file: str
    functions: tuple[str, ...]
    hooks: tuple[str, ...] = ()


COLUMNS = {
    "sending host": [
        Step("A flow starts", LIFETIMES, ("run_starts", "admit_flow"), ("on_start",)),
        Step("The NIC is free: the next flow", SENDER, ("transmit_host", "next_flow"), ("next_queue",)),
        Step("New data, or data sent again", SENDER, ("serve", "resent_offset"), ("choose_packet",)),
        Step("A packet is made", SENDER, ("make_packet",), ("on_send",)),
        Step("It is put on the link", LINE, ("send",)),
    ],
    "every switch on the path": [
        Step("It arrives, unless the link loses it", ARRIVALS, ("arrive", "accept"), ("on_drop",)),
        Step("The next hop", SWITCH, ("receive",), ("choose_port", "choose_path")),
        Step("Stored, trimmed, returned or dropped", SWITCH, ("enqueue", "admitted"), ("admit", "on_drop")),
        Step("Held back, or not", SWITCH, ("enqueue_voq", "release"), ("choose_voq",)),
        Step("Into an egress queue", SWITCH, ("enqueue_egress",), ("choose_queue", "rank_packet", "on_enqueue")),
        Step("The port is free: the next queue", SWITCH, ("transmit", "dequeue"), ("next_queue", "on_dequeue")),
        Step("It is put on the link", LINE, ("send",)),
    ],
    "receiving host": [
        Step("It arrives, unless the link loses it", ARRIVALS, ("arrive", "accept"), ("on_drop", "on_arrival")),
        Step("Data is accepted", RECEIVER, ("receive_data",), ("on_data",)),
        Step("The last byte: the flow is received", RECEIVER, ("record_arrival",)),
        Step("The packet becomes its own ACK", RECEIVER, ("acknowledge",)),
        Step("It is put on the link", LINE, ("send",)),
    ],
}
BACK = [
    Step("All is acknowledged", LIFETIMES, ("finish_flow",), ("on_finish",)),
    Step("An ACK arrives", SENDER, ("receive_ack",), ("on_ack",)),
    Step("Routed; ahead of data, never paused", SWITCH, ("receive", "enqueue", "transmit"), ("choose_port", "choose_path")),
]
BESIDE = [
    Step("A control frame arrives", LINE, ("receive_control",), ("on_control",)),
    Step("A scheme's timer", LINE, ("run_timers",), ("on_timer",)),
    Step("A receiver's timer of a flow", RECEIVER, ("run_flow_timers",), ("on_flow_timer",)),
    Step("Retransmission timeout", SENDER, ("run_tick",), ("on_expiry", "on_timeout")),
    Step("A transport reports a loss", "fabric/pacing.py", ("report_loss",), ("on_loss",)),
    Step("A returned packet", SENDER, ("receive_returned",), ("on_return",)),
    Step("A link goes down, or comes back", "sim/core/nodes.py", ("go_on",), ("on_link_change",)),
]
FABRIC, FABRIC_LINE, CHIP, CHIP_LINE = "#f4f6f8", "#8a97a5", "#fde9d0", "#b8762a"
WIDTH, MARGIN, GAP, WIDE, PITCH, BESIDES = 1000, 14, 40, 297, 12, 4
STYLE = (
    ".head{font-weight:bold;font-size:15px}.what{font-size:13px}.code{font-size:10.5px;font-family:monospace;fill:#55606b}"
    ".hook{font-size:11.5px;font-family:monospace}.note{font-size:12px;font-style:italic}"
)


def all_steps() -> list[Step]:
    return [step for steps in COLUMNS.values() for step in steps] + BACK + BESIDE


class Picture:
    """One of the two pictures; `functions` says whether it names them."""

    def __init__(self, functions: bool) -> None:
        self.functions = functions
        self.height = 62 if functions else 46
        self.out: list[str] = []

    def text(self, x: float, y: float, kind: str, text: str, anchor: str = "start") -> None:
        self.out.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float, bend: float | None = None) -> None:
        """A line with a head at its end; with `bend`, along the vertical line there."""
        path = f"M{x:.0f} {y:.0f} " + (f"H{bend:.0f} V{to_y:.0f} H{to_x:.0f}" if bend else f"L{to_x:.0f} {to_y:.0f}")
        self.out.append(f'<path d="{path}" fill="none" stroke="#55606b" stroke-width="1.5" marker-end="url(#head)"/>')

    def box(self, x: float, y: float, width: float, step: Step) -> None:
        place = f'x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{self.height}"'
        self.out.append(f'<rect {place} rx="5" fill="{FABRIC}" stroke="{FABRIC_LINE}"/>')
        self.text(x + 8, y + 17, "what", step.text)
        at = x + 8
        for hook in step.hooks:
            size = 7.2 * len(hook) + 10
            self.out.append(
                f'<rect x="{at:.0f}" y="{y + 23:.0f}" width="{size:.0f}" height="17" rx="8" fill="{CHIP}" stroke="{CHIP_LINE}"/>'
            )
            self.text(at + size / 2, y + 35, "hook", hook, "middle")
            at += size + 5
        if self.functions:
            names = ", ".join(step.functions)
            self.text(x + 8, y + self.height - 8, "code", f"{step.file}: {names}" if width > 250 else names)

    def column(self, x: float, y: float, steps: list[Step]) -> None:
        for i, step in enumerate(steps):
            self.box(x, y + i * (self.height + PITCH), WIDE, step)
            if i:
                self.arrow(x + WIDE / 2, y + i * (self.height + PITCH) - PITCH, x + WIDE / 2, y + i * (self.height + PITCH) - 2)

    def svg(self) -> str:
        """The whole picture."""
        pitch = self.height + PITCH
        xs = [MARGIN + i * (WIDE + GAP) for i in range(3)]
        top = 34
        for x, (name, steps) in zip(xs, COLUMNS.items(), strict=True):
            self.text(x, 22, "head", name)
            self.column(x, top, steps)
        for i, steps in enumerate(list(COLUMNS.values())[:2]):  # from a column's last step to the first of the next column
            end, middle = top + (len(steps) - 1) * pitch + self.height / 2, xs[i] + WIDE + GAP / 2
            self.arrow(xs[i] + WIDE, end, xs[i + 1] - 2, top + self.height / 2, middle)
        back = top + 7 * pitch + 22
        self.text(xs[0], back - 8, "head", "and back")
        self.box(xs[0], back, WIDE / 2 - 6, BACK[0])
        self.box(xs[0] + WIDE / 2 + 6, back, WIDE / 2 - 6, BACK[1])
        self.box(xs[1], back, WIDE, BACK[2])
        middle = back + self.height / 2
        self.arrow(xs[0] + WIDE / 2 + 6, middle, xs[0] + WIDE / 2 - 4, middle)
        self.arrow(xs[1], middle, xs[0] + WIDE + 2, middle)
        last = top + 4 * pitch + self.height
        self.out.append(
            f'<path d="M{xs[2] + WIDE / 2:.0f} {last:.0f} V{middle:.0f}" fill="none" stroke="#55606b" stroke-width="1.5"/>'
        )
        self.arrow(xs[2] + WIDE / 2, middle, xs[1] + WIDE + 2, middle)
        self.text(xs[2] + WIDE / 2 + 8, middle - 26, "note", "the ACK")
        again = xs[0] + WIDE * 3 / 4
        self.arrow(again, back, again, top + 5 * pitch - PITCH + 4)
        self.text(again - 8, top + 5 * pitch + 26, "note", "the flow may send again", "end")
        beside = back + self.height + 34
        self.text(xs[0], beside - 8, "head", "beside packets")
        wide, rows = (WIDTH - 2 * MARGIN - (BESIDES - 1) * 8) / BESIDES, -(-len(BESIDE) // BESIDES)
        for i, step in enumerate(BESIDE):
            self.box(MARGIN + i % BESIDES * (wide + 8), beside + i // BESIDES * pitch, wide, step)
        height = beside + rows * pitch - PITCH + 34
        y = height - 12
        self.out.append(f'<rect x="{MARGIN}" y="{y - 12}" width="30" height="15" rx="7" fill="{CHIP}" stroke="{CHIP_LINE}"/>')
        self.text(MARGIN + 38, y, "note", "a hook; where no scheme defines it, nothing is called")
        title = "The life of a packet" if self.functions else "Where the hooks of a scheme are called"
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"',
                ' font-family="sans-serif" role="img">',
                f"<title>{title}</title>",
                f"<style>{STYLE}</style>",
                '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                '<path d="M0 0 L8 4 L0 8 z" fill="#55606b"/></marker></defs>',
                f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>',
                *self.out,
                "</svg>\n",
            ]
        )


def pictures() -> dict[Path, str]:
    """File -> what is in it."""
    return {IMAGES / "packet-life.svg": Picture(True).svg(), IMAGES / "hooks.svg": Picture(False).svg()}


def main() -> int:
    for path, text in pictures().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
