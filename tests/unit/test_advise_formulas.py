"""Headroom by vendors' formulas: rows of shipped tables, and laws."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.advise.formulas import QUANTA, Fit, Sonic, platforms
from penstock_net.advise.platform import all_platforms
from penstock_net.errors import SpecError

# platform: Gbit/s: metres: xoff, bytes; from the tables named in platforms.toml.
EXACT = {
    "SN5640": {
        100: {5: 44032, 40: 49152, 300: 83968, 1000: 177152},
        200: {5: 50176, 40: 60416, 300: 130048, 1000: 317440},
        400: {5: 86016, 40: 104448, 300: 243712, 1000: 619520},
    },
    "SN5600": {
        100: {5: 113664, 40: 126976, 300: 225280},
        400: {5: 231424, 40: 283648, 300: 677888},
        800: {5: 257024, 40: 362496, 300: 1150976},
    },
    "MSN4700": {100: {5: 33792, 40: 44032, 300: 117760}, 400: {5: 38912, 40: 77824, 300: 373760}},
}
FITTED = {
    "Z9864f": {
        100: {5: 147066, 40: 160274, 300: 258572},
        400: {5: 393192, 40: 446024, 300: 839216},
        800: {5: 729488, 40: 835406, 300: 1621536},
    },
    "Z9664f": {400: {5: 371348, 40: 424434, 300: 817372}},
    "Z9332f": {
        100: {5: 68580, 40: 74422, 300: 117348, 2000: 398526},
        400: {5: 178562, 40: 201930, 300: 373888, 1000: 836676, 2000: 1498092},
    },
    "NH-4210": {
        400: {5: 650160, 40: 737940, 300: 1387680, 500: 1887900},
        800: {5: 1249080, 40: 1424220, 300: 2724120, 500: 3724140},
    },
    "d64p512t": {400: {1: 127360, 5: 129920, 40: 147072, 300: 280960}, 800: {5: 247424, 40: 285312, 300: 550528}},
    "sse_t7132s": {400: {5: 117536, 40: 135520, 300: 268640}},
    "7800R3": {400: {300: 315392, 1000: 778240, 2000: 1445888}},
}


def rows(tables):
    return [
        (name, speed, length, size)
        for name, speeds in tables.items()
        for speed, row in speeds.items()
        for length, size in row.items()
    ]


@pytest.mark.parametrize(("name", "speed", "length", "size"), rows(EXACT))
def test_sonic_is_exact(name, speed, length, size):
    assert platforms()[name].xoff(speed, length).total == size


@pytest.mark.parametrize(("name", "speed", "length", "size"), rows(FITTED))
def test_fits_are_within_two_percent(name, speed, length, size):
    assert platforms()[name].xoff(speed, length).total == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize(
    ("name", "count"), [("SN5640", 42), ("SN5600", 24), ("MSN4700", 21), ("MSN3700", 18), ("MSN2700", 15)], ids=str
)
def test_sonic_is_exact_on_every_row(name, count):
    """SN5640: C512X2, with all rows of C448O16 and C512S2, 36 each; MSN4700: SN4280's simulator has the same table."""
    table = all_platforms()[name].xoff
    assert len(table) == count and {at: platforms()[name].xoff(*at).total for at in table} == table


def test_fits_are_within_two_percent_on_all_93_rows():
    fitted = {name: formula for name, formula in platforms().items() if isinstance(formula, Fit)}
    table = [
        (formula.xoff(*at).total, size)
        for name, formula in fitted.items()
        for at, size in all_platforms()[name].xoff.items()
        if at[0] >= 100 and at[1] <= 2000
    ]
    assert len(table) == 93 and all(found == pytest.approx(size, rel=0.02) for found, size in table)


def test_rows_are_those_of_the_formulas():
    for table in (EXACT, FITTED):
        for name, speed, length, size in rows(table):
            assert all_platforms()[name].xoff[speed, length] == size
    assert set(platforms()) == set(EXACT) | set(FITTED) | {"MSN3700", "MSN2700"}


@pytest.mark.parametrize("change", [{"older": True}, {"tile_ns": 0}, {"port_mtu": 9100}, {"cell": 144, "small_percent": 49}])
def test_rows_catch_a_wrong_term(change):
    wrong = replace(platforms()["SN5640"], **change)
    assert any(wrong.xoff(speed, length).total != size for name, speed, length, size in rows(EXACT) if name == "SN5640")


SONIC = st.builds(
    Sonic,
    cell=st.integers(32, 512),
    small_percent=st.integers(0, 100),
    lossless_mtu=st.integers(256, 9000),
    port_mtu=st.integers(1500, 9216),
    tile_ns=st.integers(0, 200),
    older=st.booleans(),
)
FIT = st.builds(Fit, blow_up=st.floats(1, 5), response_ns=st.floats(0, 5000), frames=st.floats(64, 50_000))
SPEEDS = sorted(QUANTA)


@given(SONIC | FIT, st.integers(0, len(SPEEDS) - 2), st.integers(1, 3000), st.integers(1, 3000))
def test_monotone_in_length_and_rate(formula, index, length, more):
    size = formula.xoff(SPEEDS[index], length).total
    assert formula.xoff(SPEEDS[index], length + more).total >= size
    assert formula.xoff(SPEEDS[index + 1], length).total >= size


@given(SONIC, st.sampled_from(["cell", "port_mtu", "peer_response", "mac_phy_delay", "tile_ns"]), st.integers(1, 500))
def test_sonic_is_monotone_in_cell_mtu_and_response(formula, key, more):
    assert replace(formula, **{key: getattr(formula, key) + more}).xoff(400, 40).total >= formula.xoff(400, 40).total


@given(FIT, st.sampled_from(["blow_up", "response_ns", "frames"]), st.floats(0.1, 500))
def test_fits_are_monotone_in_cell_frames_and_response(formula, key, more):
    assert replace(formula, **{key: getattr(formula, key) + more}).xoff(400, 40).total >= formula.xoff(400, 40).total


@given(SONIC | FIT, st.sampled_from(SPEEDS), st.integers(1, 3000))
def test_parts_add_up(formula, speed, length):
    parts = formula.xoff(speed, length)
    assert parts.cable + parts.response + parts.frames + parts.cells + parts.rounding == pytest.approx(parts.total)


@pytest.mark.parametrize(("speed", "length", "name"), [(0, 40, "speed"), (400, -1, "length")])
def test_nonsense_is_refused(speed, length, name):
    with pytest.raises(SpecError, match=name):
        platforms()["SN5640"].xoff(speed, length)
