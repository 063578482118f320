"""`penstock advise`: settings with their reasons, files, laws; from a site.toml and from a config_db.json."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from advise_configs import SHIPPED, applied, clean
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.advise.checks import check
from penstock_net.advise.export import fragment, merged, rollback
from penstock_net.advise.platform import ByHand, all_platforms
from penstock_net.advise.settings import K_MAX, K_MIN, Advice, advise, detection_ms, rows, share, why_not
from penstock_net.advise.site import Ports, Switch, read_site, sharing
from penstock_net.advise.sonic import Config, parse, platform_of, switch_of
from penstock_net.advise.study import contents, markdown, study
from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.sim.headroom import headroom
from penstock_net.sim.settings import Settings
from penstock_net.spec import load_spec
from penstock_net.spec.toml import write_toml
from penstock_net.workload import Flows

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


SIMULATION = ("spec.toml", "network.txt")


def written(tmp_path, text, name="site.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def advice_of(tmp_path, text):
    return [advise(switch) for switch in read_site(written(tmp_path, text))]


# ---- What is printed and written ----


def test_a_shipped_pool_is_accepted(tmp_path):
    """Z9864f: 64 and 32 headrooms of two priorities are 2.4 times its pool of 33.4 MB; what that means is said."""
    (found,) = study(written(tmp_path, SITE))
    budget = found.advice.budget
    assert budget.promised == 64 * 393_192 + 64 * 835_406 and budget.headroom == 33_374_584
    assert budget.pool == 162_539_680 - 33_374_584 - 128 * 18_796 and not found.findings
    text = "\n".join(markdown(found))
    assert "2.36 : 1" in text
    assert "400G, 5 m: the pool of headroom is full when 85 of 64" not in text
    assert "800G, 40 m: the pool of headroom is full when 40 of 64 priorities of ports fill theirs at once" in text
    assert "400G, 5 m: the pool of headroom holds all 64 at once" in text
    longest = max(m for m in range(1, 2000) if 16 * all_platforms()["Z9864f"].headroom(800, m).total <= 33_374_584)
    assert f"800G, 40 m: 16 senders at once fill it with cables above {longest} m" in text


def test_every_setting_has_a_reason_and_a_source(tmp_path):
    (advice,) = advice_of(tmp_path, SITE)
    found = rows(advice)
    assert {row.setting for row in found} >= {"xoff", "xon", "size", "pool", "dynamic_th", "K_min", "K_max", "P_max", "watchdog"}
    assert all(row.value and row.reason and row.source for row in found)
    assert [row.value for row in found if row.setting == "watchdog"] == ["400 ms, drop"]


def test_the_command_writes_all_or_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("site.toml").write_text(SITE)
    Path("c.json").write_text(json.dumps(clean("Z9864f", 2)))
    assert main(["advise", "site.toml", "--out", "site"]) == 0
    assert {path.name for path in Path("site").iterdir()} == {
        "advice.json",
        "report.md",
        "config_db.json",
        "report.html",
        "headroom.png",
        *SIMULATION,
    }
    assert main(["advise", "c.json", "--out", "config"]) == 0
    assert "no findings\nnot read, and left as they are: VLAN\n" in capsys.readouterr().out
    names = {
        "advice.json",
        "report.md",
        "config_db.json",
        "merged.json",
        "rollback.json",
        "report.html",
        "headroom.png",
        *SIMULATION,
    }
    assert {path.name for path in Path("config").iterdir()} == names
    assert main(["advise", "config/merged.json"]) == 0
    said = json.loads(Path("config/advice.json").read_text())
    assert said["unread"] == ["VLAN"] and said["headroom"][0]["parts"]["response"] == 107_000
    Path("file").write_text("mine")
    assert main(["advise", "c.json", "--out", "file"]) == 2
    assert "cannot be written (a file is in the place of its folder)" in capsys.readouterr().err
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize("name", [*SHIPPED, "by hand"])
def test_the_settings_can_be_simulated(name, tmp_path):
    """The spec has a host at each port, and its scheme the headroom, pool and thresholds of the advice."""
    if name == "by hand":
        text = SITE.replace('platform = "Z9864f"', 'response = "2us"\ncell = 254\nbuffer = "90MB"')
        (found,) = study(written(tmp_path, text.replace("32", "4")))
    else:
        (found,) = study(written(tmp_path, json.dumps(clean(name, 3)), "c.json"))
    advice = found.advice
    for file, content in contents(found).items():
        (tmp_path / file).write_text(content)
    spec = load_spec(tmp_path / "spec.toml")
    topo, scheme = spec.build_topology(), spec.build_scheme(spec.schemes[0])
    assert topo.hosts == advice.switch.count and topo.buffer_bytes.tolist() == [advice.switch.buffer]
    part = headroom(Settings(topo, Flows.none(), scheme, host=spec.host), "pfc")
    assert part.lossless == list(advice.switch.lossless)
    alphas = {part.thresholds[i] for i in part.lossless}
    assert {alpha for alpha, _ in alphas} == {2.0**advice.dynamic_th}
    assert part.pool == (advice.budget.headroom if advice.switch.shares else 0)
    largest = {kind.gbps: max(one.xoff for one in advice.classes if one.ports.gbps == kind.gbps) for kind in advice.switch.ports}
    by_rate = {round(8000 / rate): int(size) for rate, size in zip(topo.links["ps_per_byte"], part.given.max(axis=0))}
    assert by_rate == largest
    flows = spec.build_flows(topo)
    run = spec.simulate(spec.schemes[0], topo, flows)
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == len(flows)


def test_several_switches_have_a_folder_each(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other = SITE.split("[traffic]")[0].replace('"leaf"', '"spine"').replace("Z9864f", "SN5640").replace("800G", "200G")
    Path("site.toml").write_text(SITE.split("[traffic]")[0] + other)
    assert main(["advise", "site.toml", "--out", "out"]) == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["leaf", "spine"]
    assert "SN5640 (Spectrum-5)" in capsys.readouterr().out


def test_a_configuration_with_errors_has_status_1(tmp_path, capsys):
    tables = clean("Z9864f", 2)
    tables["PFC_WD"]["GLOBAL"]["POLL_INTERVAL"] = "300"
    assert main(["advise", str(written(tmp_path, json.dumps(tables), "c.json"))]) == 1
    assert "error: PFC_WD|Ethernet0 detection_time and 7 more: 200 ms is shorter than POLL_INTERVAL" in capsys.readouterr().out


def test_an_unknown_platform(tmp_path, capsys):
    tables = clean("Z9864f", 2)
    tables["DEVICE_METADATA"]["localhost"]["hwsku"] = "nothing"
    path = str(written(tmp_path, json.dumps(tables), "c.json"))
    assert main(["advise", path]) == 0
    assert 'its platform, "nothing", is not known' in (said := capsys.readouterr().out) and "give --platform" in said
    assert main(["advise", path, "--platform", "Z9864f"]) == 0 and "393192 B" in capsys.readouterr().out
    assert main(["advise", path, "--platform", "Z9864"]) == 2 and 'did you mean "Z9864f"?' in capsys.readouterr().err


def test_headroom_that_does_not_fit_is_explained(tmp_path, capsys):
    """Without a shared pool 128 x 800G at 300 m want more than the buffer: why, and which ratio helps."""
    text = (
        SITE.replace("40m", "300m")
        .replace("32", "64")
        .replace("lossless = [3, 4]", 'lossless = [3, 4]\nshared_headroom = "none"')
    )
    path = written(tmp_path, text)
    assert main(["advise", str(path), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out
    assert "leave nothing of the buffer, 162.54MB" in said and 'shared_headroom = "' in said
    assert not (tmp_path / "out/config_db.json").exists() and (tmp_path / "out/report.md").exists()
    ratio = said.partition('shared_headroom = "')[2].partition(":1")[0]
    assert main(["advise", str(written(tmp_path, text.replace('"none"', f'"{ratio}:1"')))]) == 0


# ---- Laws ----

SPEEDS = (100, 200, 400, 800)
KINDS = st.builds(
    lambda n, gbps, metres: (n, gbps, metres),
    st.integers(1, 4),
    st.sampled_from(SPEEDS),
    st.sampled_from([1, 5, 40, 41, 300, 777]),
)
PLATFORMS = {name: p for name, p in all_platforms().items() if p.formula}


def made(platform, kinds, lossless, buffer, ratio=0.0, pool=0, fan_in=1):
    unique = list({(gbps, metres): n for n, gbps, metres in kinds}.items())
    ports, first = [], 0
    for (gbps, metres), n in unique:
        ports.append(Ports(tuple(f"Ethernet{8 * (first + i)}" for i in range(n)), gbps, metres, 8 if gbps == 800 else 4))
        first += n
    return sharing(Switch("leaf", platform, tuple(ports), lossless, buffer, ratio, pool, fan_in))


SWITCHES = st.builds(
    made,
    st.sampled_from(list(PLATFORMS.values()))
    | st.builds(
        lambda r, c: replace(all_platforms()["Z9864f"], formula=ByHand(4096, r, c), xoff={}),
        st.integers(0, 9000),
        st.sampled_from([0, 192, 254]),
    ),
    st.lists(KINDS, min_size=1, max_size=4),
    st.sets(st.integers(0, 7), min_size=1, max_size=4).map(lambda found: tuple(sorted(found))),
    st.integers(150_000_000, 300_000_000),
    st.sampled_from([0.0, 1.0, 1.5, 3.0]),
    st.sampled_from([0, 33_374_584]),
    st.integers(1, 16),
)


@examples(30)
@given(SWITCHES)
def test_the_buffer_adds_up_to_the_byte(switch):
    """Added up from the profiles that are written."""
    advice = advise(switch)
    tables = fragment(advice, Config({}))
    pool = tables["BUFFER_POOL"]["ingress_lossless_pool"]
    total = int(pool["size"]) + int(pool.get("xoff", 0))
    for key, row in tables["BUFFER_PG"].items():
        first, _, last = key.rpartition("|")[2].partition("-")
        total += int(tables["BUFFER_PROFILE"][row["profile"]]["size"]) * (int(last or first) - int(first) + 1)
    assert total == switch.buffer == advice.budget.pool + advice.budget.headroom + advice.budget.reserve


@pytest.mark.parametrize("name", sorted(all_platforms()))
@examples(20)
@given(st.data())
def test_headroom_is_monotone(name, data):
    """In length and speed, rows and formula together; as far as the vendor's rows are."""
    of = all_platforms()[name]
    if name == "NH-5010":
        assert of.xoff[400, 30] > of.xoff[800, 30]
        return
    most = max(gbps for gbps, _ in of.xoff)
    speeds = [gbps for gbps in SPEEDS if gbps <= most or of.formula]
    longest = 3000 if of.formula else min(max(m for g, m in of.xoff if g == speed) for speed in {g for g, _ in of.xoff})
    slow, fast = sorted((data.draw(st.sampled_from(speeds)), data.draw(st.sampled_from(speeds))))
    short, long = sorted((data.draw(st.integers(1, longest)), data.draw(st.integers(1, longest))))
    assert of.headroom(slow, short).total <= of.headroom(fast, long).total


def test_a_row_is_offered_as_it_is():
    for name, of in all_platforms().items():
        for at, size in of.xoff.items():
            found = of.headroom(*at)
            assert found.total == size and found.reason.startswith("row of its table"), name
            if found.parts:
                parts = found.parts
                assert parts.cable + parts.response + parts.frames + parts.cells + parts.rounding == pytest.approx(size)


@given(
    st.integers(0, 9000),
    st.integers(0, 600),
    st.integers(64, 9000),
    st.floats(0, 1),
    st.integers(0, 500),
    st.sampled_from(SPEEDS),
)
def test_headroom_by_hand_is_monotone_in_response_mtu_and_small_packets(response, cell, mtu, small, more, gbps):
    of = ByHand(mtu, response, cell, small)
    size = of.xoff(gbps, 40).total
    assert ByHand(mtu, response + more, cell, small).xoff(gbps, 40).total >= size
    assert replace(of, small=min(1.0, small + 0.1)).xoff(gbps, 40).total >= size
    if cell == 0 or small == 1:  # a longer packet may waste a smaller part of its cells
        assert replace(of, mtu=mtu + more).xoff(gbps, 40).total >= size


@examples(30)
@given(st.integers(1, 128), st.integers(-8, 7), st.integers(10**6, 10**9))
def test_ecn_comes_before_pfc(n, threshold, pool):
    switch = replace(made(all_platforms()["Z9864f"], [(1, 400, 5)], (3,), pool + 10**6), fan_in=n)
    of = replace(switch.platform, table={**switch.platform.table, "dynamic_th": threshold})
    advice = advise(replace(switch, platform=of))
    held = share(advice.budget.pool, 2.0**threshold, n)
    assert advice.k_min <= advice.k_max <= max(held, 2) or held < 2
    assert (advice.k_min, advice.k_max) == (K_MIN, K_MAX) or held < K_MAX


@pytest.mark.parametrize(("ports", "time"), [(1, 200), (32, 200), (33, 400), (64, 400), (256, 1600), (4096, 5000)])
def test_the_watchdog_is_that_of_sonic(ports, time):
    assert detection_ms(ports) == time


def ports_table(switch):
    return {
        name: {"speed": str(kind.gbps * 1000), "lanes": ",".join("1" * kind.lanes)}
        for kind in switch.ports
        for name in kind.names
    }


@examples(40)
@given(SWITCHES)
def test_advice_on_what_was_advised_is_the_same_and_finds_nothing(switch):
    """What is written is read as the switch that it was made for, and checked without a finding."""
    advice = advise(switch)
    if not advice.fits:
        return
    before = Config({"PORT": ports_table(switch)})
    after = parse(merged(before, fragment(advice, before)).text(), "x")
    again = switch_of(after, switch.platform)
    assert again is not None
    assert again.buffer == switch.buffer
    second = advise(again)
    assert fragment(second, after) == fragment(advice, before)
    loose = {finding for finding in check(after, replace(switch.platform, table={})) if finding.check != "pool"}
    assert not loose, loose


@examples(20)
@given(st.sampled_from(sorted(SHIPPED)), st.randoms(use_true_random=False))
def test_a_rollback_is_exact(name, random):
    """Of any shipped configuration of which some rows are gone."""
    tables = clean(name, 2)
    for table in ("BUFFER_PG", "QUEUE", "WRED_PROFILE", "PFC_WD", "BUFFER_PROFILE"):
        for key in sorted(tables[table]):
            if random.random() < 0.3:
                del tables[table][key]
        if random.random() < 0.2:
            del tables[table]
    before = Config(tables)
    new = fragment(advise(switch_of(before, platform_of(before))), before)
    assert applied(rollback(before, new), merged(before, new).tables) == before.tables


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_advice_on_a_shipped_configuration(name, tmp_path):
    """It can be given; with it nothing is found, and the headroom stays as it was shipped."""
    tables = clean(name, 8)
    (found,) = study(written(tmp_path, json.dumps(tables), "c.json"))
    assert found.advice and found.advice.fits and not found.findings
    after = merged(found.config, fragment(found.advice, found.config))
    (again,) = study(written(tmp_path, after.text(), "after.json"))
    assert not again.findings
    for key, row in tables["BUFFER_PROFILE"].items():
        if "xoff" in row:
            assert after.rows("BUFFER_PROFILE")[key]["xoff"] == row["xoff"]
            assert after.rows("BUFFER_PROFILE")[key]["xon"] == row["xon"]


def test_names_of_ports_change_nothing(tmp_path):
    tables = clean("Z9864f", 4)
    config = Config(tables)
    text = json.dumps(tables)
    for number in range(63, -1, -1):  # Ethernet8 before Ethernet0 of Ethernet80 would be no name
        text = text.replace(f'"Ethernet{8 * number}"', f'"xe{number}"').replace(f'"Ethernet{8 * number}|', f'"xe{number}|')
    renamed = parse(text, "x")
    assert "Ethernet" not in text
    platform = all_platforms()["Z9864f"]
    one, other = (advise(switch_of(each, platform)) for each in (config, renamed))

    def plain(advice: Advice):
        return [replace(each, ports=replace(each.ports, names=())) for each in advice.classes], advice.budget, rows(advice)

    assert plain(one) == plain(other) and check(renamed, platform) == []


# ---- Bad input ----


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Z9864f", "Z9864", 'site.toml:4: switch.0.platform = "Z9864": no such platform; did you mean "Z9864f"?'),
        ("Z9864f", "7260", 'site.toml: leaf.platform = "7260CX3": its table has no row for 400 Gbit/s and 5 m or more'),
        ("Z9864f", "7260", "at most 100 Gbit/s, or give response and cell instead of platform"),
        ('"leaf"', '"../leaf"', "switch.0.name"),
        ("lossless = [3, 4]", "lossless = [3, 3]", "names a priority twice"),
        ("lossless = [3, 4]", "lossless = []", "must be a list of priorities"),
        ("lossless = [3, 4]", "lossless = [8]", "must be between 0 and 7"),
        ("lossless", "losless", 'did you mean "lossless"?'),
        ("5m", "5ft", 'unknown unit "ft"; known: m, km'),
        ("5m", "0m", 'cable = "0m": must be whole metres, 1m to 100km\n'),
        ("5m", "-5m", 'cable = "-5m": must be whole metres, 1m to 100km\n'),
        ("5m", "2.5m", "must be whole metres, 1m to 100km; round it up"),
        ("400Gbps", "400.5Gbps", "must be whole Gbit/s"),
        ('count = 32, rate = "4', 'count = 0, rate = "4', "switch.0.ports.0.count = 0: must be between 1 and 4096"),
        ("fan_in = 16", "fan_in = 0", "traffic.incast.fan_in = 0"),
        ('platform = "Z9864f"', "", "switch.0.response: is missing; give platform"),
        ('platform = "Z9864f"', 'platform = "Z9864f"\ncell = 254', "belongs to a switch without a platform"),
        ('platform = "Z9864f"', 'platform = "Z9864f"\nbuffer = 0', "switch.0.buffer = 0: must be greater than zero"),
        ("lossless = [3, 4]", 'shared_headroom = "0:1"', 'must be a ratio such as "3:1"'),
        ("[[switch]]", "[switch]", "must be a list of tables"),
        ("[[switch]]", "[[switch", "not valid TOML"),
        ("[traffic]", "[trafic]", 'did you mean "traffic"?'),
    ],
)
def test_a_bad_site(old, new, words, tmp_path, capsys):
    assert main(["advise", str(written(tmp_path, SITE.replace(old, new, 1)))]) == 2
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) <= 2


@pytest.mark.parametrize("arguments", [["nope.toml"], ["."], ["nope.json"], ["/dev/null"]])
def test_no_site(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["advise", *arguments]) == 2
    assert capsys.readouterr().err.startswith("error: ")


VALUES = st.sampled_from(
    ["", "x", "5m", "1e999m", "400Gbps", "-1", 0, -1, 3, 10**30, 0.5, float("nan"), float("inf"), True, [], [3], {}]
)
PLACES = [
    ("switch", 0, key) for key in ("name", "platform", "cell", "response", "buffer", "ports", "lossless", "shared_headroom", "x")
]
PLACES += [("switch", 0, "ports", 0, key) for key in ("count", "rate", "cable", "lanes", "x")]
PLACES += [
    ("traffic",),
    ("switch",),
    ("traffic", "mtu"),
    ("traffic", "small_packets"),
    ("traffic", "incast"),
    ("traffic", "incast", "fan_in"),
]


@examples(50)
@given(st.dictionaries(st.sampled_from(PLACES), VALUES, max_size=3), st.booleans())
def test_whatever_a_site_says(tmp_path_factory, changes, by_hand):
    """It is advised, or refused in at most two lines."""
    table = tomllib.loads(SITE)
    if by_hand:
        table["switch"][0] |= {"response": "2us", "cell": 254, "buffer": "100MB"}
        del table["switch"][0]["platform"]
    for path, value in sorted(changes.items(), key=lambda item: -len(item[0])):
        place = table
        for part in path[:-1]:
            place = place[part]
        if isinstance(place, dict):
            place[path[-1]] = value
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(write_toml(table))
    try:
        for found in study(path):
            assert found.advice and list(markdown(found)) and (found.advice.fits or why_not(found.advice))
    except SpecError as error:
        assert len(str(error).splitlines()) <= 2
