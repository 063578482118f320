"""Numbers with units: what is read, what is written, what is refused and with which words."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_net import units
from penstock_net.errors import SpecError
from penstock_net.spec import files, parse_spec
from penstock_net.topology import behind_vswitches, from_file, star
from penstock_net.units import (
    bits_per_second,
    format_rate,
    format_size,
    format_time,
    parse_delay,
    parse_rate,
    parse_size,
    parse_time,
    ps_per_byte,
)


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("1ps", 1),
        ("1ns", 10**3),
        ("1us", 10**6),
        ("1µs", 10**6),
        ("2 ms", 2 * 10**9),
        (" 0.5s ", 5 * 10**11),
        ("1e3ps", 1000),
    ],
)
def test_time(text, ps):
    assert parse_time(text) == ps


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("12MB", 12 * 10**6),
        ("12MiB", 12 * 2**20),
        ("1KB", 1000),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("1.5GB", 15 * 10**8),
        ("0B", 0),
    ],
)
def test_size(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "ps"), [("100Gbps", 80), ("400Gbps", 20), ("40Gbps", 200), ("1Tbps", 8), ("10Mbps", 800_000)])
def test_ps_per_byte(text, ps):
    assert ps_per_byte(text) == ps


def test_bare_numbers_have_the_base_unit():
    assert parse_time(5e-6) == 5 * 10**6  # seconds, as written: not the nearest binary fraction
    assert parse_time(0.1) == 10**11
    assert parse_size(1500) == 1500
    assert parse_rate(1e11) == parse_rate(10**11) == 10**11


@pytest.mark.parametrize("table", [units.TIME, units.SIZE, units.RATE])
@given(data=st.data())
def test_any_number_with_any_unit(table, data):
    parse = {"ps": parse_time, "B": parse_size, "bps": parse_rate}[next(iter(table))]
    unit = data.draw(st.sampled_from(sorted(table)))
    tenths = data.draw(st.integers(1, 10**9)) * (1 if table[unit] > 1 and table[unit] % 10 == 0 else 10)
    assert parse(f"{tenths // 10}.{tenths % 10}{unit}") == Fraction(tenths, 10) * table[unit]


@given(digits=st.integers(1, 999_999), zeros=st.integers(0, 9))
def test_six_digits_survive_writing_and_reading(digits, zeros):
    value = digits * 10**zeros
    assert parse_time(format_time(value)) == value
    assert parse_size(format_size(value)) == value
    assert parse_rate(format_rate(value)) == value


@given(i=st.integers(0, 15), j=st.integers(0, 12))
def test_a_rate_that_divides_the_clock_is_taken(i, j):
    rate = 2**i * 5**j
    assert ps_per_byte(rate) * rate == 8 * 10**12


@given(rate=st.integers(1, 10**13))
def test_every_rate_is_taken_and_comes_back(rate):
    found = ps_per_byte(rate)
    assert abs(Fraction(found) * rate / (8 * 10**12) - 1) < 1e-15
    assert bits_per_second(found) == rate


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: parse_time("1 fortnight"),
            'time = "1 fortnight": unknown unit "fortnight"; known: ps, ns, us, µs, ms, s',
        ),
        (
            lambda: parse_time("10", "delay"),
            'delay = "10": the unit is missing; write it as "1us" (ps, ns, us, µs, ms, s)',
        ),
        (lambda: parse_time("soon"), 'time = "soon": must be a number with a unit, such as "1us"'),
        (lambda: parse_time(""), 'time = "": must be a number with a unit, such as "1us"'),
        (lambda: parse_time(None), 'time = None: must be a number with a unit, such as "1us"'),
        (lambda: parse_time(True), 'time = true: must be a number with a unit, such as "1us"'),
        (lambda: parse_time(math.nan), 'time = nan: must be a finite number, such as "1us"'),
        (lambda: parse_time(math.inf), 'time = inf: must be a finite number, such as "1us"'),
        (lambda: parse_time("-1us"), 'time = "-1us": must be zero or more'),
        (lambda: parse_time("0us", positive=True), 'time = "0us": must be greater than zero'),
        (lambda: parse_time("0.5ps"), 'time = "0.5ps": is not a whole number of ps; the smallest is 1 ps'),
        (lambda: parse_time("2.5ps"), 'time = "2.5ps": is not a whole number of ps; nearest: 2 ps'),
        (lambda: parse_size(0.2), "size = 0.2: is not a whole number of B; the smallest is 1 B"),
        (lambda: parse_size("1.7B", "buffer"), 'buffer = "1.7B": is not a whole number of B; nearest: 2 B'),
        (lambda: parse_size("12Mb"), 'size = "12Mb": unknown unit "Mb"; known: B, KB, kB, MB, GB, TB, KiB, MiB, GiB'),
        (lambda: parse_size("0B", positive=True), 'size = "0B": must be greater than zero'),
        (lambda: parse_rate("0Gbps"), 'rate = "0Gbps": must be greater than zero'),
        (lambda: parse_rate("100 GB"), 'rate = "100 GB": unknown unit "GB"; known: bps, Kbps, kbps, Mbps, Gbps, Tbps'),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(SpecError) as refused:
        call()
    assert str(refused.value) == message
    assert refused.value.exit_status == 2


def test_formats():
    assert format_time(0) == "0ps"
    assert [format_time(10**i) for i in (0, 3, 6, 9, 12)] == ["1ps", "1ns", "1us", "1ms", "1s"]
    assert format_time(999) == "999ps" and format_size(1000) == "1KB" and format_rate(10**6) == "1Mbps"
    assert format_time(8_354_560) == "8.35456us"
    assert format_size(12 * 10**6) == "12MB"
    assert format_rate(10**11) == "100Gbps"
    assert format_rate(5 * 10**12) == "5000Gbps"
    assert format_size(999_960_000_000, " ", digits=3) == "1000 GB", "no exponent, also when rounding adds a digit"


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("40m", 202_021),
        ("1m", 5_051),
        ("198m", 1_000_000),
        ("2km", 10_101_011),
        ("0.5m", 2_526),
        ("1us", 1_000_000),
        (1e-6, 1_000_000),
    ],
)
def test_a_delay_may_be_a_length_of_fibre(text, ps):
    """198 000 km/s; never less than what it takes."""
    assert parse_delay(text) == ps


@pytest.mark.parametrize("text", ["5ft", "m", "-1m", "0m", "40 mm", "1 mile"])
def test_what_is_no_length_is_refused(text):
    with pytest.raises(SpecError) as caught:
        parse_delay(text, positive=True)
    assert "unknown unit" not in str(caught.value) or str(caught.value).endswith("known: ps, ns, us, µs, ms, s, m, km")


def test_a_length_wherever_a_delay_is(tmp_path):
    """Shapes, files, virtual switches: the same network as with the time."""
    (tmp_path / "net.txt").write_text("h0 s0 100Gbps 40m\nh1 s0 100Gbps 2km\n")
    links = from_file(tmp_path / "net.txt").links["delay_ps"].tolist()
    assert links == [202_021, 10_101_011]
    assert (star(delay="40m").links == star(delay="202021ps").links).all()
    one, other = (behind_vswitches(star(hosts=2), apps=1, delay=delay).links for delay in ("1m", "5051ps"))
    assert (one == other).all()


def test_a_delay_is_checked_with_the_spec():
    """Before anything is built; and what is written back is what was given."""
    tables = {"run": {"duration": "1us"}, "topology": {"kind": "star", "delay": "40m"}, "workload": {"kind": "incast"}}
    assert parse_spec(tables).to_dict()["topology"]["delay"] == "40m"
    with pytest.raises(SpecError, match=r'topology.delay = "5ft": unknown unit "ft"; known: .*, m, km'):
        parse_spec({**tables, "topology": {"kind": "star", "delay": "5ft"}})


def test_texts_that_are_repeated_are_parsed_once(monkeypatch):
    """Lists of flows repeat sizes and times; wrong ones name the place of each."""
    parsed = []
    parse = units._parse
    monkeypatch.setattr(units, "_parse", lambda value, *rest: parsed.append(value) or parse(value, *rest))
    for i in range(1000):
        assert (parse_size("123457B"), parse_time("123457ps"), parse_rate("123457bps")) == (123457, 123457, 123457)
        with pytest.raises(SpecError) as wrong:
            parse_size("0B", f"row {i}", positive=True)
        assert wrong.value.path == f"row {i}"
    assert len(parsed) - parsed.count("0B") == 3
    assert parse_size("0B") == 0, "zero is a size where none is asked to be positive"


def test_a_list_of_flows_is_not_searched_for_names_of_files():
    class Rows(list):
        def __iter__(self):
            raise AssertionError("searched")

    rows = Rows([[0, 1, "1MB", "0s"]])
    content = {"workload": [{"kind": "list", "flows": rows, "file": None}, {"kind": "flows", "file": "a.csv"}]}
    assert files.named(content) == ["a.csv"]
    assert files.without_none(content)["workload"][0] == {"kind": "list", "flows": rows}
