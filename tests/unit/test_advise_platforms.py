"""`penstock advise`: platforms and their names, what their headroom is for, the MTU of ports; and the width of a terminal."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from advise_configs import SHIPPED, clean
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.advise.checks import check
from penstock_net.advise.export import fragment, merged
from penstock_net.advise.platform import ByHand, all_platforms, platform
from penstock_net.advise.screen import fitted
from penstock_net.advise.settings import advise, assumed
from penstock_net.advise.site import Ports, Switch, sharing
from penstock_net.advise.sonic import Config, own_platform, parse, platform_of, switch_of
from penstock_net.advise.study import study, text
from penstock_net.advise.values import advised, now
from penstock_net.cli import main
from penstock_net.errors import SpecError

SITE = """
[[switch]]
name = "leaf"
platform = "Z9864f"
ports = [
    { count = 32, rate = "400Gbps", cable = "5m" },
    { count = 32, rate = "800Gbps", cable = "40m" },
]
lossless = [3, 4]

[traffic]
incast = { fan_in = 16 }
"""


def written(tmp_path, text, name="site.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def made(platform, kinds, lossless, buffer, ratio=0.0, pool=0, fan_in=1):
    unique = list({(gbps, metres): n for n, gbps, metres in kinds}.items())
    ports, first = [], 0
    for (gbps, metres), n in unique:
        ports.append(Ports(tuple(f"Ethernet{8 * (first + i)}" for i in range(n)), gbps, metres, 8 if gbps == 800 else 4))
        first += n
    return sharing(Switch("leaf", platform, tuple(ports), lossless, buffer, ratio, pool, fan_in))


# ---- Platforms ----

# Rows that an architect has asked for, KB of 1000 bytes: platform, Gbit/s, metres, xoff.
ASKED = """
SN5640 100 40 49.2
SN5640 400 5 86.0
SN5640 400 40 104.4
SN5640 400 300 243.7
SN5600 100 5 113.7
SN5600 400 5 231.4
SN5600 400 40 283.6
SN5600 400 300 677.9
SN5600 800 40 362.5
SN5600 800 300 1151.0
Z9864f 100 300 258.6
Z9864f 400 40 446.0
Z9864f 800 5 729.5
Z9864f 800 40 835.4
Z9864f 800 300 1621.5
IXR7220-H6 400 40 491.0
IXR7220-H6 800 300 1239.8
Z9332f 400 5 178.6
Z9332f 400 2000 1498.1
d64p512t 400 40 147.1
d64p512t 800 300 550.5
7800R3 400 2000 1445.9
AS9516 400 40 35.8
MSN4700 400 40 77.8
7260CX3 100 40 59.7
"""


@pytest.mark.parametrize("asked", ASKED.strip().splitlines())
def test_the_rows_of_an_architect(asked, tmp_path, capsys):
    name, gbps, metres, size = asked.split()
    ports = f'ports = [{{ count = 2, rate = "{gbps}Gbps", cable = "{metres}m" }}]'
    assert main(["advise", str(written(tmp_path, f'[[switch]]\nplatform = "{name}"\n{ports}\n'))]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("xoff")]
    assert f"{int(line.split()[-2]) / 1000:.1f}" == size


@pytest.mark.parametrize(
    ("gbps", "metres", "xoff", "size"),
    [
        (100, 5, 18432, 36864),
        (400, 5, 18432, 36864),
        (100, 40, 35840, 54272),
        (400, 40, 35840, 54272),
        (400, 300, 165888, 184320),
    ],
)
def test_tofino_2_is_that_of_its_table(gbps, metres, xoff, size):
    """To the byte; without a shared pool size has xoff in it, as shipped, and with one xon alone."""
    of = all_platforms()["AS9516"]
    found = of.headroom(gbps, metres)
    assert found.total == xoff and of.profile(found, 8, False) == {"xon": 18432, "size": size}
    assert of.profile(found, 8, True) == {"xon": 18432, "size": 18432}
    advice = advise(made(of, [(32, gbps, metres)], (3, 4), of.table["buffer"], pool=of.table["headroom_pool"]))
    assert advice.dynamic_th == 7 and advice.budget.headroom == 3_153_920
    assert advice.budget.pool == 46_749_824 - 3_153_920 - 64 * 18432


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("7260CX3", "7260CX3"),
        ("7260", "7260CX3"),
        ("arista 7260cx3", "7260CX3"),
        ("Arista-7260CX3-D108C8", "7260CX3"),
        ("x86_64-arista_7260cx3_64", "7260CX3"),
        ("z9864F", "Z9864f"),
        ("x86_64-dell_z9864f-r0", "Z9864f"),
        ("DellEMC-Z9332f-M-O16C64", "Z9332f"),
        ("x86_64-dellemc_z9332f_d1508-r0", "Z9332f"),
        ("sn-5640", "SN5640"),
        ("x86_64-nvidia_sn5640-r0", "SN5640"),
        ("Mellanox-SN4700-O28", "MSN4700"),
        ("x86_64-mlnx_msn4600c-r0", "MSN4700"),
        ("NH4210", "NH-4210"),
        ("x86_64-nexthop_4210-r0021", "NH-4210"),
        ("x86_64-nexthop_5010-r0", "NH-5010"),
        ("Nokia-IXR7220-H6-O256", "IXR7220-H6"),
        ("x86_64-nokia_ixr7220_h6_128-r0", "IXR7220-H6"),
        ("Nokia-IXR7220-H6-64", "IXR7220-H5"),
        ("x86_64-nokia_ixr7220_h5_64o-r0", "IXR7220-H5"),
        ("Arista-7060X6-64PE-B-O128", "7060X6"),
        ("x86_64-arista_7060x6_64pe_b", "7060X6"),
        ("x86_64-arista_7800r3_48cq2_lc", "7800R3"),
        ("d64p512t_128x400G-2x10G", "d64p512t"),
        ("SSE-T7132S", "sse_t7132s"),
        ("x86_64-accton_as9516_32d-r0", "AS9516"),
        ("Accton AS9516-32D", "AS9516"),
        ("x86_64-mlnx_msn2700-r0", "MSN2700"),
        ("ACS-MSN3700", "MSN3700"),
        ("ACS-SN5600", "SN5600"),
        ("Z9664F-O64", "Z9664f"),
    ],
)
def test_a_platform_by_another_name(text, name):
    assert platform(text).name == name


def test_each_platform_is_understood_by_each_of_its_names():
    for name, one in all_platforms().items():
        for alias in (name, *one.names, *one.holds):
            for called in (alias, alias.lower(), alias.upper(), f"vendor-{alias}-r0", f"x86_64-vendor_{alias.replace('-', '_')}"):
                assert platform(called).name == name, called


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Z9864", 'did you mean "Z9864f"?'),
        ("7260CX4", 'did you mean "7260CX3"?'),
        ("AS9515", 'did you mean "AS9516"?'),
        ("tomahawk5", "is a chip, and platforms with it differ; name one: 7060X6, IXR7220-H5, Z9864f"),
        ("TH5", "name one: 7060X6, IXR7220-H5, Z9864f"),
        ("Spectrum-4", "name one: SN5600"),
        ("", "known: 7060X6, 7260CX3"),
        ("no such thing", "known: 7060X6, 7260CX3"),
    ],
)
def test_what_is_no_platform(text, words):
    with pytest.raises(SpecError) as error:
        platform(text)
    assert words in str(error.value)


def test_rows_are_said_to_be_those_of_others(tmp_path, capsys):
    """The rows of 7060X6 are those of O128; others of that name have another table."""
    tables = clean("7060X6", 2)
    assert main(["advise", str(written(tmp_path, json.dumps(tables), "c.json"))]) == 0
    said = capsys.readouterr().out
    assert "table of 7060X6-64PE-B-O128, 7060X6-64PE-O128" in said and "may have others" not in said
    tables["DEVICE_METADATA"]["localhost"]["hwsku"] = "Arista-7060X6-64PE-B-C512S2"
    assert main(["advise", str(written(tmp_path, json.dumps(tables), "c.json"))]) == 0
    assert "Arista-7060X6-64PE-B-C512S2 may have others" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        ('platform = "SN5640"', "lossless MTU 4096 B, port MTU 9216 B, 50 % packets of 64 B, in cells of 192 B"),
        ('platform = "Z9864f"', "MTU not known (21185 B of frames), 100 % packets of 64 B, in cells of 254 B"),
        ('platform = "7260"', "MTU and share of small packets not known, cells not known"),
        ('platform = "AS9516"', "MTU and share of small packets not known, in cells of 176 B"),
        ('response = "2us"\ncell = 254\nbuffer = "64MB"', "lossless MTU 9000 B, 25 % smallest packets, in cells of 254 B"),
    ],
)
def test_what_headroom_is_for_is_said(switch, words, tmp_path, capsys):
    ports = 'ports = [{ count = 4, rate = "100Gbps", cable = "40m" }]'
    traffic = "[traffic]\nmtu = 9000\nsmall_packets = 0.25\n" if "response" in switch else ""
    path = written(tmp_path, f"[[switch]]\n{switch}\n{ports}\n{traffic}")
    assert main(["advise", str(path), "--out", str(tmp_path / "out")]) == 0
    assert f"headroom is for: {words}" in capsys.readouterr().out
    assert f"headroom is for: {words}" in (tmp_path / "out/report.md").read_text()
    assert words in (tmp_path / "out/report.html").read_text()
    assert json.loads((tmp_path / "out/advice.json").read_text())["assumes"] == words


# ---- A buffer that is not known ----


@pytest.mark.parametrize("by_hand", [True, False])
def test_headroom_without_a_buffer(by_hand, tmp_path, capsys, monkeypatch):
    """It is said; the pool is not, no rows are written, and a job is refused."""
    monkeypatch.chdir(tmp_path)
    if by_hand:
        text = 'response = "2us"\ncell = 254'
    else:
        of = all_platforms()["7800R3"]
        table = {key: value for key, value in of.table.items() if key not in ("buffer", "pool", "headroom_pool")}
        monkeypatch.setattr("penstock_net.advise.site.platform", lambda name: replace(of, table=table))
        text = 'platform = "7800R3"'
    path = written(tmp_path, SITE.replace('platform = "Z9864f"', text))
    assert main(["advise", str(path), "--out", "out"]) == 0
    said = capsys.readouterr().out
    assert "the buffer is not known" in said and "\npool  " not in said and "no findings" in said
    assert len([line for line in said.splitlines() if line.startswith("xoff")]) == 2
    assert not Path("out/config_db.json").exists() and Path("out/report.html").exists()
    Path("job.toml").write_text('[[workload]]\nkind = "poisson"\nload = 0.3\nload_on = "host"\n')
    assert main(["advise", str(path), "--out", "out", "--job", "job.toml"]) == 2
    assert "the buffer of leaf is not known" in capsys.readouterr().err


# ---- The MTU of ports ----


def dynamic(mtu, metres="40m"):
    """SN5640, whose headroom SONiC computes; mtu: of all ports, or None."""
    tables = clean("SN5640", 4)
    for name, row in tables["PORT"].items():
        del row["mtu"]
        row |= {"mtu": str(mtu)} if mtu else {}
        tables["BUFFER_PG"][f"{name}|3-4"] = {"profile": "NULL"}
        tables["CABLE_LENGTH"]["AZURE"][name] = metres
    tables["BUFFER_PROFILE"] = {k: row for k, row in tables["BUFFER_PROFILE"].items() if "xoff" not in row}
    return Config(tables)


def test_the_mtu_of_a_port_counts_where_sonic_computes_headroom():
    of = all_platforms()["SN5640"]
    sizes = []
    for mtu in (1500, 4096, None, 9216):
        config = dynamic(mtu)
        (one,) = advise(switch_of(config, of)).classes
        assert one.xoff == replace(of.formula, port_mtu=mtu or 9100).xoff(200, 40).total
        assert f"with PORT mtu {mtu or 9100} B" in one.reason
        assert f"port MTU {mtu or 9100} B" in assumed(switch_of(config, of))
        sizes.append(one.xoff)
    assert sizes == sorted(set(sizes)) and sizes[-1] == of.xoff[200, 40]


@given(st.integers(68, 9216), st.integers(0, 500))
def test_headroom_is_monotone_in_the_mtu_of_a_port(mtu, more):
    of = all_platforms()["SN5640"]
    less, most = (advise(switch_of(dynamic(size), of)).classes[0].xoff for size in (mtu, min(mtu + more, 9216)))
    assert less <= most


def test_a_row_is_for_any_mtu():
    """A table is by speed and cable: SONiC takes the row whatever the MTU of the port is."""
    tables = clean("SN5640", 4)
    for row in tables["PORT"].values():
        row["mtu"] = "1500"
    (one,) = advise(switch_of(Config(tables), all_platforms()["SN5640"])).classes
    assert one.xoff == 50176


def test_by_hand_the_largest_packet_is_that_of_the_ports():
    """If neither --mtu nor LOSSLESS_TRAFFIC_PATTERN says it."""
    sizes = []
    for mtu in ("1500", "9100"):
        tables = clean("Z9864f", 2)
        for row in tables["PORT"].values():
            row["mtu"] = mtu
        config = Config(tables)
        sizes.append(advise(switch_of(config, own_platform(config, ByHand(0, 2140, 254)))).classes[0].xoff)
        assert own_platform(config, ByHand(4096, 2140, 254)).formula.mtu == 4096
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("mtu", [1500, 9100, 9216])
@pytest.mark.parametrize("sized", [True, False])
def test_advice_where_sonic_computes_headroom_is_stable(mtu, sized):
    """Groups keep "NULL", no profile is written for them, and advice on it is the same."""
    before = dynamic(mtu)
    if not sized:
        del before.tables["BUFFER_POOL"]["ingress_lossless_pool"]["size"]
    switch = switch_of(before, platform_of(before))
    advice = advise(switch)
    rows_of = fragment(advice, before)
    assert not rows_of["BUFFER_PROFILE"] and {row["profile"] for row in rows_of["BUFFER_PG"].values()} == {"NULL"}
    assert ("size" in rows_of["BUFFER_POOL"]["ingress_lossless_pool"]) == sized
    after = parse(merged(before, rows_of).text(), "x")
    again = advise(switch_of(after, platform_of(after)))
    assert again.budget == advice.budget and fragment(again, after) == rows_of
    assert check(after, platform_of(after)) == []
    assert now(after, again) == advised(again)


# ---- The width of a terminal ----

WIDE = [
    ["K_min", "K_max", "short", "long", "buffer", "drops", "spec"],
    *[
        [f"{i}KB", f"{2 * i}KB", f"{i}.1 (1.5 to 9.5)", f"{i}.2 (1.5 to 9.5)", f"{i} +- 1 MB", "0", f"ecn-{i}.toml"]
        for i in (1, 2)
    ],
]


@pytest.mark.parametrize(
    ("width", "words", "missing"),
    [
        (None, ["ecn-1.toml", "1.5 to 9.5"], ["in all rows"]),
        (85, ["ecn-1.toml", "1.5 to 9.5"], ["in all rows"]),
        (75, ["specs are named by what is varied: ecn-1.toml, ...", "drops"], ["in all rows", "ecn-2.toml"]),
        (65, ["in all rows: drops 0", "1.5 to 9.5"], ["not shown"]),
        (58, ["1.5-9.5", "1 +- 1 MB"], ["1.5 to 9.5", "not shown"]),
        (45, ["1.5-9.5", "not shown, for lack of width: buffer"], ["+- 1"]),
        (20, ["not shown, for lack"], []),
    ],
)
def test_a_table_fits_a_terminal(width, words, missing):
    found = list(fitted(WIDE, 2, width))
    whole = " ".join(line.strip() for line in found)
    assert all(word in whole for word in words) and not any(word in whole for word in missing), found
    assert width is None or width < 40 or all(len(line) <= width for line in found)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", [*SHIPPED])
def test_advice_fits_a_terminal(name, width, tmp_path):
    tables = clean(name, 3)
    tables["PFC_WD"]["GLOBAL"]["POLL_INTERVAL"] = "1000"
    (found,) = study(written(tmp_path, json.dumps(tables), "c.json"))
    lines = list(text(found, width=width))
    assert max(map(len, lines)) <= width and len(lines) > 20
    plain = [line for line in text(found)]
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(plain).split())


@pytest.mark.parametrize("content", ["", '{"PORT": {', "\n"])
def test_a_cut_configuration(content, tmp_path, capsys):
    assert main(["advise", str(written(tmp_path, content, "c.json"))]) == 2
    assert "not valid JSON" in (said := capsys.readouterr().err) and "config save writes it whole" in said


def test_the_list_of_platforms(capsys):
    """Each with the packets that its headroom is for, what has its rows, and its buffer."""
    assert main(["advise", "--platforms"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name, of in all_platforms().items():
        assert f"{name}: {of.asic}" in said and of.assumes in said and all(one in said for one in of.holds)


def test_a_configuration_that_names_no_platform(tmp_path, capsys):
    tables = clean("Z9864f", 2)
    del tables["DEVICE_METADATA"]["localhost"]["hwsku"]
    assert main(["advise", str(written(tmp_path, json.dumps(tables), "c.json"))]) == 0
    assert "no hwsku says what its platform is" in capsys.readouterr().out
