"""Trimming and marks at a switch's port: each decision, by hand."""

from types import SimpleNamespace

import pytest

from penstock_net.composition import FOLDER, parse

DROPPED, ADMITTED, TRIM = 0, 1, 2
WIRE, TRIMMED = 4150, 32


class Port(dict):
    """The file as plain Python, at a port with so many bytes of headers and data, and a packet on the line until `until`."""

    def __init__(self, text, headers=0, data=0, until=0, draws=0, bdp=116_856, **parameters):
        super().__init__(DATA=0, ADMITTED=ADMITTED, DROPPED=DROPPED, TRIM=TRIM, TRIMMED=TRIMMED, CONTROL_SIZE=64)
        self.update(RANDOM_QUEUE=0, RANDOM_MARK=1, whole=int, draw=lambda *_: draws, my_port=lambda *_: self.mine)
        self.mine, self.exchanged = SimpleNamespace(size=WIRE, until=until), 0
        self.queues = [
            SimpleNamespace(index=i, bytes=n, length=n // 64 if i == 0 else n // WIRE) for i, n in enumerate((headers, data))
        ]
        self.update(queue_at=lambda _, i: self.queues[i], exchange_with_tail=self.exchange)
        exec(text, self)
        self.me = SimpleNamespace(**parse("trim", parameters).values("trim"))
        self.me.at = SimpleNamespace(world=SimpleNamespace(quantum=WIRE, bdp=bdp))
        self["set_up"](self.me)
        self.node = SimpleNamespace(now=1000)

    def exchange(self, *_):
        self.exchanged += 1

    def admit(self, size=WIRE, kind=0, flags=0):
        return self["admit"](self.me, self.node, None, SimpleNamespace(kind=kind, flags=flags, size=size)), self.exchanged

    def marks(self, queue=1, kind=0):
        pkt, port = SimpleNamespace(kind=kind, size=WIRE, ecn=0), SimpleNamespace(ps_per_byte=80, ecn_marks=0)
        self["on_dequeue"](self.me, self.node, port, self.queues[queue], pkt)
        return pkt.ecn


def check(text):
    for bdp, expected in ((116_856, (120_350, 24_900, 99_600)), (175_284, (178_450, 37_350, 145_250))):
        me = Port(text, bdp=bdp).me
        assert (me.limit, me.from_bytes, me.to_bytes) == expected
    three = {"depth": 3}
    assert Port(text, **three).admit() == (ADMITTED, 0)
    assert Port(text, data=2 * WIRE, **three).admit() == (ADMITTED, 0)
    assert Port(text, data=2 * WIRE, until=1000, **three).admit() == (ADMITTED, 0)  # it has just left
    assert Port(text, data=2 * WIRE, until=1001, **three).admit() == (TRIM, 0)
    assert Port(text, data=2 * WIRE, until=1001, draws=3, **three).admit() == (TRIM, 1)
    assert Port(text, data=2 * WIRE, until=1001, **three).admit(64 + 100) == (TRIM, 0)
    assert Port(text, until=1001, draws=3, depth=1).admit() == (TRIM, 0)  # there is no last one
    full = 6 * WIRE
    assert Port(text, headers=full - 64, data=3 * WIRE, **three).admit() == (TRIM, 0)
    assert Port(text, headers=full - 63, data=3 * WIRE, **three).admit() == (DROPPED, 0)
    assert Port(text, headers=full - 64, data=3 * WIRE, **three).admit(64, flags=TRIMMED) == (ADMITTED, 0)
    assert Port(text, headers=full - 63, **three).admit(64, flags=TRIMMED) == (DROPPED, 0)
    assert Port(text, headers=full, data=3 * WIRE, **three).admit(64, kind=1) == (ADMITTED, 0)
    ten = {"depth": 10}  # marks from 2 to 8
    assert not Port(text, data=2 * WIRE, **ten).marks() and Port(text, data=8 * WIRE + 1, draws=2**31 - 1, **ten).marks()
    half = 2**30
    assert Port(text, data=5 * WIRE, draws=half - 1, **ten).marks() and not Port(text, data=5 * WIRE, draws=half, **ten).marks()
    assert not Port(text, data=9 * WIRE, marks=False, **ten).marks() and not Port(text, headers=99_999, **ten).marks(queue=0)
    low = {"depth": 100, "unmarked": 6, "marked": 6}
    assert not Port(text, data=6 * WIRE, **low).marks() and Port(text, data=6 * WIRE + 1, draws=2**31 - 1, **low).marks()
    sent = Port(text, data=WIRE)
    sent.marks()
    assert sent.mine.until == 1000 + 80 * WIRE


MISTAKES = {
    "the packet on the line": ("data.bytes + (mine.size if mine.until > node.now else 0)", "data.bytes"),
    "always the one that comes": ("if data.length > 0 and draw(node, RANDOM_QUEUE) & 1:", "if False:"),
    "always the last one": ("if data.length > 0 and draw(node, RANDOM_QUEUE) & 1:", "if data.length > 0:"),
    "no last one": ("if data.length > 0 and draw", "if draw"),
    "half the headers": (
        "return TRIM if headers.bytes + CONTROL_SIZE <= 2 * trim.limit",
        "return TRIM if headers.bytes + CONTROL_SIZE <= trim.limit",
    ),
    "any number of headers": ("return ADMITTED if headers.bytes + pkt.size <= 2 * trim.limit else DROPPED", "return ADMITTED"),
    "fewer packets": ("(trim.at.world.bdp + quantum - 1) // quantum", "trim.at.world.bdp // quantum"),
    "marks begin later": ("(depth + 4) // 5", "(depth + 9) // 5"),
    "all are marked later": ("(4 * depth + 4) // 5", "depth"),
    "a mark at the threshold": ("left <= trim.from_bytes", "left <= 2 * trim.from_bytes"),
    "all or none": ("chance = ALWAYS * (left - trim.from_bytes) / (trim.to_bytes - trim.from_bytes)", "chance = 0.0"),
    "acknowledgements, too": ("    if pkt.kind != DATA:\n        return ADMITTED\n", ""),
}


def test_each_decision():
    check((FOLDER / "trim.py").read_text())


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake):
    text = (FOLDER / "trim.py").read_text()
    right, wrong = MISTAKES[mistake]
    assert text.count(right) == 1
    with pytest.raises(AssertionError):
        check(text.replace(right, wrong))
