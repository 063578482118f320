"""`penstock advise --job`: what-ifs, their numbers and specs; before and after; the page; a platform by hand."""

import json
import math
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from advise_configs import SHIPPED, clean
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.advise import repeat, what_ifs
from penstock_net.advise.checks import check
from penstock_net.advise.export import fragment, merged
from penstock_net.advise.job import read_job
from penstock_net.advise.network import Fabric, leaf_spine, star
from penstock_net.advise.platform import ByHand, all_platforms
from penstock_net.advise.settings import K_MAX, advise, rows
from penstock_net.advise.site import Ports, Switch, read_site, sharing
from penstock_net.advise.sonic import Config, parse, platform_of, switch_of
from penstock_net.advise.study import changes, notes, study, text, with_what_ifs
from penstock_net.advise.values import NO_HEADROOM, advised, not_simulated, now, scheme, watchdog
from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.report.board import page
from penstock_net.report.plots.what_ifs import figure_of
from penstock_net.spec import load_spec
from penstock_net.sweeps.what_ifs import simulate

SITE = """
[[switch]]
name = "leaf"
platform = "Z9864f"
ports = [{ count = 4, rate = "400Gbps", cable = "5m" }, { count = 2, rate = "800Gbps", cable = "40m" }]
lossless = [3]
"""
JOB = """
[fabric]
uplinks = { rate = "800Gbps" }
leaves = 2

[run]
duration = "20us"

[[workload]]
kind = "poisson"
sizes = "google"
load = 0.2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("site.toml").write_text(SITE)
    Path("job.toml").write_text(JOB)
    return tmp_path


def advice_of(name="site.toml"):
    return advise(read_site(Path(name))[0])


def faulty(count=4):
    """A configuration of which the ports of 800 Gbit/s have too little headroom."""
    tables = clean("Z9864f", count)
    tables["BUFFER_PROFILE"]["pg_lossless_800000_40m_profile"]["xoff"] = "60000"
    return tables


# ---- Numbers and specs ----


def test_a_spec_repeats_its_number(folder):
    """Each file, simulated by itself, has the numbers of its row; and what is there is not simulated again."""
    made = simulate(advice_of(), read_job(Path("job.toml")), None, folder / "out", (1, 2), 1, ("incast", "failures"))
    assert len(made.of("incast")) == 3 and len(made.of("failures")) == 12
    for one in [made.of("incast")[-1], made.of("failures")[1], made.of("failures")[-1]]:
        for number, seed in enumerate(made.seeds):
            spec = load_spec(folder / f"out/specs/{one.case.name}.toml", seed=seed)
            topo = spec.build_topology()
            run = spec.simulate(spec.schemes[0], topo, spec.build_flows(topo))
            again = what_ifs.measured(one.case.what, run)
            assert again == {name: values[number] for name, values in one.values.items()}
            assert again["drops"] == run.summary["drops"]


def test_the_command_goes_on_where_it_was(folder, capsys):
    command = ["advise", "site.toml", "--job", "job.toml", "--out", "out", "--workers", "1", "--seeds", "1"]
    assert main([*command, "--what-if", "failures"]) == 0
    first = capsys.readouterr()
    assert "12 runs, 0 of them finished before" in first.err and "a row again: penstock run out/specs/FILE --seeds 1" in first.out
    assert main([*command, "--what-if", "failures"]) == 0
    second = capsys.readouterr()
    assert "12 runs, 12 of them finished before" in second.err and second.out == first.out
    files = {path.name for path in Path("out").iterdir()}
    assert files >= {"report.html", "report.md", "failures.png", "headroom.png", "specs", "what-ifs", "advice.json"}
    said = json.loads(Path("out/advice.json").read_text())["what_ifs"]
    assert all((Path("out") / one["spec"]).is_file() for one in said) and len(said) == 12
    assert "failures.png" in Path("out/report.md").read_text()


def test_too_little_headroom_loses_packets_before_and_none_after(folder):
    """Of a lossless priority; so what is advised can be seen to help."""
    Path("c.json").write_text(json.dumps(faulty(12)))
    (found,) = study(Path("c.json"))
    job = replace(read_job(Path("job.toml")), fabric=Fabric(800, None, 4))
    made = simulate(found.advice, job, found.config, folder / "out", (1,), 1, ("incast",))
    drops = {name: 0 for name in (what_ifs.BEFORE, what_ifs.AFTER)}
    for one in made.results:
        drops[one.case.settings] += one.numbers["drops"].mean
    assert drops[what_ifs.AFTER] == 0 < drops[what_ifs.BEFORE]


def test_a_watchdog_acts_in_a_storm(folder):
    made = simulate(advice_of(), read_job(Path("job.toml")), None, folder / "out", (1,), 1, ("storm",))
    found = {tuple(one.case.varied.values()): one.numbers for one in made.results}
    assert found["server pauses", "none"]["storms"].mean == 0 < found["server pauses", "200us, drop"]["storms"].mean
    assert found["server pauses", "none"]["drops"].mean == 0 < found["server pauses", "200us, drop"]["drops"].mean


# ---- The distance of sprayed packets ----


def sprayed(soon, late, again=(3.0, 0.0), left=0.0):
    """Results of failures with these p99 by seed, without and with a distance where nothing fails; of other cases it is 1."""
    cases, _ = what_ifs.cases(advice_of(), read_job(Path("job.toml")), None, ("failures",))
    out = []
    for case in cases:
        paths = case.varied["paths"]
        at = [what_ifs.SPRAYED, what_ifs.WAITING].index(paths) if paths != what_ifs.BY_FLOW else 2
        p99 = (soon, late, [1.0] * len(soon))[at] if case.varied["fails"] == "nothing" else [1.0] * len(soon)
        values = {**dict.fromkeys(what_ifs.COLUMNS["failures"], 1.0), "again": (*again, 0.0)[at], "not done": left}
        out.append(what_ifs.result(case, [{**values, "p99": value} for value in p99]))
    return out


def test_sprayed_packets_are_simulated_without_and_with_a_distance(folder):
    """Of the scheme with selective repeat, which otherwise takes the first packet that was overtaken for lost."""
    cases, _ = what_ifs.cases(advice_of(), read_job(Path("job.toml")), None, ("failures",))
    schemes = {case.varied["paths"]: tomllib.loads(case.spec)["scheme"] for case in cases}
    assert list(schemes) == [what_ifs.BY_FLOW, what_ifs.SPRAYED, what_ifs.WAITING]
    assert "spray" not in schemes[what_ifs.BY_FLOW]["name"] and "recovery" not in schemes[what_ifs.SPRAYED]
    assert schemes[what_ifs.WAITING] == {**schemes[what_ifs.SPRAYED], "recovery": {"distance": what_ifs.DISTANCE}}
    fails = [[case.varied["fails"] for case in cases if case.varied["paths"] == paths] for paths in schemes]
    assert fails[0] == fails[1] == fails[2] and len(cases) == len({case.name for case in cases}) == 12


def test_fewer_packets_are_sent_twice_with_the_distance(folder):
    made = simulate(advice_of(), read_job(Path("job.toml")), None, folder / "out", (1,), 1, ("failures",))
    again = {one.case.varied["paths"]: one.numbers["again"].mean for one in made.results if one.case.varied["fails"] == "nothing"}
    assert again[what_ifs.WAITING] < again[what_ifs.SPRAYED] and again[what_ifs.BY_FLOW] == 0
    assert "whether the distance is better takes more seeds" in what_ifs.concluded(made, "failures")


@pytest.mark.parametrize(
    ("late", "words"),
    [
        ([8.0, 9.0, 10], "with it the p99 is better (without / with: 1.26,"),
        ([13.0, 14, 15], "with it the p99 is worse"),
        ([10, 9.0, 14], "with it the p99 is not different beyond chance"),
    ],
)
def test_what_is_said_of_the_distance(late, words, folder):
    results = sprayed([10.0, 11, 13], late)
    line = what_ifs.concluded(what_ifs.WhatIfs(tuple(results), (), (1, 2, 3)), "failures")
    assert line.startswith("by packet, without and with recovery.distance = 32, 3 % and 0 % of the bytes are sent again; ")
    assert words in line
    (found,) = study(Path("site.toml"))
    assert line in list(text(with_what_ifs(found, what_ifs.WhatIfs(tuple(results), (), (1, 2, 3)))))


def test_nothing_is_said_of_the_distance_where_flows_have_not_ended(folder):
    line = what_ifs.concluded(what_ifs.WhatIfs(tuple(sprayed([10.0, 11, 13], [8.0, 9, 10], left=1.0)), (), (1, 2, 3)), "failures")
    assert line.endswith("flows have not ended, so that the p99 are not of the same ones")


# ---- The ECN point ----


def grid(scores):
    """Results of the ECN grid with these scores by seed; the first is the default."""
    advice = advice_of()
    job = read_job(Path("job.toml"))
    cases, _ = what_ifs.cases(advice, job, None, ("ecn",))
    out = []
    for case, of_seeds in zip(cases, scores):
        values = dict.fromkeys(what_ifs.COLUMNS["ecn"], 1.0)
        out.append(what_ifs.result(case, [{**values, "both": score} for score in of_seeds]))
    return out, advice


def test_a_point_is_chosen_only_if_it_is_better_beyond_chance(folder):
    results, advice = grid([[10, 11, 12], [9.0, 13, 10], [8, 8.9, 9.6]])
    choice = what_ifs.choose(results, advice)
    assert choice.changed and choice.chosen is results[2] and choice.ratio.low > 1
    results, advice = grid([[10, 11, 12], [9.0, 13, 10]])
    choice = what_ifs.choose(results, advice)
    assert not choice.changed and choice.best is results[1] and "which stays" in what_ifs.said(choice)
    results, advice = grid([[10], [2]])
    assert not what_ifs.choose(results, advice).changed and "more seeds" in what_ifs.said(what_ifs.choose(results, advice))


def test_the_chosen_point_is_what_is_set(folder):
    results, _ = grid([[10, 11, 12], [9.0, 13, 10], [8, 8.9, 9.6]])
    (found,) = study(Path("site.toml"))
    made = what_ifs.WhatIfs(tuple(results), (), (1, 2, 3), what_ifs.choose(results, found.advice))
    after = with_what_ifs(found, made)
    assert (after.advice.k_min, after.advice.k_max, after.advice.p_max) == what_ifs.marks_of(results[2])
    marks = [line for line in text(after) if "is chosen; simulation" in line]
    assert len(marks) == 3
    before = Config(clean("Z9864f", 4))
    loaded = fragment(
        replace(advise(switch_of(before, platform_of(before))), k_min=after.advice.k_min, k_max=after.advice.k_max), before
    )
    assert int(loaded["WRED_PROFILE"]["AZURE_LOSSLESS"]["green_max_threshold"]) == after.advice.k_max
    assert check(merged(before, loaded), platform_of(before)) == []


def test_no_point_of_the_grid_marks_after_pfc(folder):
    advice = advise(replace(read_site(Path("site.toml"))[0], fan_in=30))
    limit = advice.budget.pool / (1 + 30)
    cases, _ = what_ifs.cases(advice, read_job(Path("job.toml")), None, ("ecn",))
    marks = [tomllib.loads(case.spec)["scheme"]["ecn"] for case in cases]
    assert len(cases) == len({case.name for case in cases}) == 18
    assert all(mark["k_min"] <= mark["k_max"] <= limit for mark in marks)


# ---- Settings as they are ----


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_what_was_advised_is_what_is_simulated_after_it_is_loaded(name):
    """The settings of a configuration with the advised rows are the advised ones."""
    before = Config(clean(name, 3))
    advice = advise(switch_of(before, platform_of(before)))
    after = parse(merged(before, fragment(advice, before)).text(), "x")
    assert now(after, advice) == advised(advice)


@examples(40)
@given(st.sampled_from(sorted(SHIPPED)), st.integers(1, 10**6), st.integers(-8, 7), st.integers(0, 100))
def test_the_settings_of_a_configuration(name, xoff, threshold, percent):
    """Each field that is changed is in the simulation, and only that."""
    tables = clean(name, 2)
    before = now(Config(tables), advise(switch_of(Config(tables), platform_of(Config(tables)))))
    profiles = [row for row in tables["BUFFER_PROFILE"].values() if "xoff" in row]
    for row in profiles:
        row["size"] = str(int(row["size"]) - int(row["xoff"]) + xoff if int(row["size"]) > int(row["xoff"]) else row["size"])
        row |= {"xoff": str(xoff), "dynamic_th": str(threshold)}
    for row in tables["WRED_PROFILE"].values():
        row["green_drop_probability"] = str(percent)
    config = Config(tables)
    advice = advise(switch_of(config, platform_of(config)))
    found = now(config, advice)
    assert set(found.xoff) == {xoff} and found.alpha == 2.0**threshold and found.p_max == percent
    assert (found.k_min, found.k_max, found.detection_ms) == (before.k_min, before.k_max, before.detection_ms)


def test_what_is_not_there_is_not_simulated():
    tables = clean("Z9864f", 2)
    del tables["QUEUE"], tables["PFC_WD"], tables["BUFFER_PG"]["Ethernet0|3-4"]
    config = Config(tables)
    advice = advise(switch_of(config, platform_of(config)))
    found = now(config, advice)
    assert found.k_min == found.k_max == advice.switch.buffer and watchdog(found) == {} and min(found.xoff) == NO_HEADROOM


def test_of_ports_of_one_rate_the_shortest_of_headroom_counts():
    """5 m and 40 m at 400 Gbit/s, both with the profile of 5 m: it is the one of 40 m that lacks."""
    of = all_platforms()["Z9864f"]
    switch = Switch("leaf", of, (Ports(("Ethernet0",), 400, 5), Ports(("Ethernet8",), 400, 40)), (3,), 10**8)
    values = advised(advise(switch))
    near, far = of.headroom(400, 5).total, of.headroom(400, 40).total
    assert scheme(switch, values, (), {})["pfc"]["rate_headroom"] == [far]
    short = replace(values, xoff=(near, near - 1))
    assert scheme(switch, short, (), {})["pfc"]["rate_headroom"] == [near - 1]
    table = scheme(switch, values, switch.ports[:1], {})["pfc"]
    assert (table["host_headroom"], table["rate_headroom"]) == ([near], [far])


# ---- The network ----


@given(st.integers(1, 12), st.integers(1, 8), st.integers(2, 5), st.data())
def test_a_fabric_has_the_ports_of_its_leaves(down, up, leaves, data):
    """Every leaf has the site's ports, with their rates and cables; without a fabric the switch has a host at each."""
    spines = data.draw(st.integers(1, up))
    kinds = [(down, 400, 5), (up, 800, 40)]
    names = iter(f"Ethernet{8 * number}" for number in range(down + up))
    ports = tuple(Ports(tuple(next(names) for _ in range(count)), gbps, metres) for count, gbps, metres in kinds)
    switch = Switch("leaf", all_platforms()["Z9864f"], ports, (3,), 10**8)
    net = leaf_spine(switch, Fabric(800, None, leaves, spines))
    ends = [line.split() for line in net.text.splitlines()]
    for leaf in range(leaves):
        of_hosts = [rest for a, b, *rest in ends if b == f"leaf{leaf}"]
        of_spines = [(b, rest) for a, b, *rest in ends if a == f"leaf{leaf}"]
        assert of_hosts == [["400Gbps", "5m"]] * down
        assert [b for b, _ in of_spines] == [f"spine{number % spines}" for number in range(up)]
        assert {tuple(rest) for _, rest in of_spines} == {("800Gbps", "40m")}
    assert net.hosts == down * leaves == sum(a.startswith("h") for a, *_ in ends)
    half = leaf_spine(switch, Fabric(800, None, leaves, spines), 2)
    assert half.spines == max(spines // 2, 1) == len({b for _, b, *_ in map(str.split, half.text.splitlines()) if "spine" in b})
    assert star(switch).hosts == down + up


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('rate = "800Gbps"', 'rate = "100Gbps"', "job.toml:3: fabric.uplinks: no port is such an uplink; the ports are 4 x 400G"),
        ('{ rate = "800Gbps" }', "{ lanes = 8 }", "job.toml:3: fabric.uplinks.lanes"),
        ('uplinks = { rate = "800Gbps" }', "", "fabric.uplinks: is missing; say which ports lead to spines"),
        ("leaves = 2", "spines = 3", "job.toml:4: fabric.spines = 3: must be at most the 2 uplinks of a leaf"),
        ("leaves = 2", "leaves = 1", "job.toml:4: fabric.leaves = 1: must be between 2 and 1024"),
        ('"20us"', '"20 apples"', "job.toml:7: run.duration"),
        ("[run]", "[runs]", 'did you mean "run"?'),
        ("[run]", 'switch = "spine"\n[run]', "fabric.switch"),
        ("load = 0.2", "laod = 0.2", "job.toml:12: workload"),
        ("load = 0.2", "load = 0", "job.toml:12: workload.0.load = 0: must be greater than zero"),
        ("[[workload]]", "[[workload", "not valid TOML"),
        ("[[workload]]", "[host]\nmtu = 0\n[[workload]]", "job.toml:10: host.mtu"),
        ("[[workload]]", '[dcqcn]\nr_ia = "1Gbps"\n[[workload]]', "r_ia"),
    ],
)
def test_a_bad_job(old, new, words, folder, capsys):
    Path("job.toml").write_text(JOB.replace(old, new, 1))
    assert main(["advise", "site.toml", "--job", "job.toml", "--out", "out", "--workers", "1"]) == 2
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) <= 2, said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--job", "job.toml"], "--job: needs a folder for its runs; give --out"),
        (["--workers", "2"], "--workers: is of what-ifs; give --job"),
        (["--job", "job.toml", "--out", "out", "--what-if", "fire"], "one of incast, ecn, failures, storm"),
        (["--job", "nope.toml", "--out", "out"], "nope.toml"),
        (["--job", "job.toml", "--out", "out", "--seeds", "x"], "--seeds"),
        (["--response", "2us"], "--response: is for a config_db.json"),
        (["--cell", "254"], "--cell: is of a platform by hand; give --response"),
    ],
)
def test_bad_options(arguments, words, folder, capsys):
    assert main(["advise", "site.toml", *arguments]) == 2
    assert words in capsys.readouterr().err


# ---- A platform by hand ----


def test_a_platform_by_hand_is_that_of_a_site(folder, capsys):
    """A configuration with a platform by hand has the headroom that a site.toml with the same numbers has."""
    tables = clean("Z9864f", 4)
    tables["DEVICE_METADATA"]["localhost"]["hwsku"] = "of-our-own"
    Path("c.json").write_text(json.dumps(tables))
    assert main(["advise", "c.json", "--response", "2.14us", "--cell", "254", "--mtu", "9100"]) == 1  # xoff is less than that
    said = capsys.readouterr().out
    assert "by hand" in said and "the simulator's bound" in said
    text = SITE.replace('platform = "Z9864f"', 'response = "2.14us"\ncell = 254\nbuffer = "160MB"').replace("[3]", "[3, 4]")
    Path("hand.toml").write_text(text + "[traffic]\nmtu = 9100\n")
    for one in advice_of("hand.toml").classes:
        assert f"{one.xoff} B" in said
    assert main(["advise", "c.json", "--response", "2us", "--platform", "Z9864f"]) == 2
    assert "give one of the two" in capsys.readouterr().err


# ---- The page ----


def test_the_page_is_whole(folder):
    """Nothing is loaded from elsewhere, ids are unique, and findings, changes and what-ifs are in it, escaped."""
    tables = faulty()
    tables["DEVICE_METADATA"]["localhost"]["hostname"] = "<leaf>"
    Path("c.json").write_text(json.dumps(tables))
    (found,) = study(Path("c.json"))
    made = simulate(found.advice, read_job(Path("job.toml")), found.config, folder / "out", (1,), 1)
    assert {one.case.what for one in made.results} == set(what_ifs.WHAT)
    whole = page(with_what_ifs(found, made))
    assert "<script" not in whole and "<leaf>" not in whole and "&lt;leaf&gt;" in whole
    assert not re.search(r"""(src|href)=["'](?!#)|url\((?!#)|@import""", whole)
    names = re.findall(r'\bid="([^"]+)"', whole)
    assert len(names) == len(set(names))
    assert set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", whole)) <= set(names)
    assert whole.count("<figure") == 5 and '<td class="old">60000</td><td class="new">835406</td>' in whole
    for one in made.results:
        assert f"{one.case.name}.toml" in whole
    assert all(math.isfinite(one.numbers["drops"].mean) for one in made.results)


def test_one_switch_alone(folder):
    """Without [fabric] it is the switch, a host at each port, and what needs spines is left out and said."""
    Path("job.toml").write_text("[run]" + JOB.split("[run]")[1] + 'load_on = "host"\n')
    made = simulate(advice_of(), read_job(Path("job.toml")), None, folder / "out", (1,), 1, ("failures",))
    assert [one.case.varied["fails"] for one in made.results] == ["nothing", "slow link"]
    assert made.left_out == ("failures: a dead spine and fewer spines need [fabric] in the job",)
    slow = load_spec(folder / f"out/specs/{made.results[1].case.name}.toml")
    (change,) = slow.build_topology().changes
    assert change.ps_per_byte == 8 * 4 / 0.4


def test_a_slow_link_among_parallel_ones(folder):
    """Two uplinks to one spine: one of them is slow."""
    Path("job.toml").write_text(JOB.replace("leaves = 2", "leaves = 2\nspines = 1"))
    cases, _ = what_ifs.cases(advice_of(), read_job(Path("job.toml")), None, ("failures",))
    changes = tomllib.loads(next(case.spec for case in cases if "slow" in case.name))["topology"]["changes"]
    assert changes == [{"time": "10us", "a": "leaf0", "b": "spine0", "rate": "200Gbps", "parallel": 0}]


def test_an_unknown_what_if_of_python(folder):
    with pytest.raises(SpecError, match="no such what-if"):
        what_ifs.cases(advice_of(), read_job(Path("job.toml")), None, ("fire",))


# ---- What of a platform is simulated ----


def switch_with(name, *rates):
    ports = tuple(Ports((f"Ethernet{8 * i}", f"Ethernet{8 * i + 1}"), gbps, 40) for i, gbps in enumerate(rates))
    of = all_platforms()[name]
    return sharing(Switch("leaf", of, ports, (3,), of.table["buffer"], pool=of.table.get("headroom_pool", 0)))


@pytest.mark.parametrize("name", sorted(all_platforms()))
def test_cells_and_response_of_a_platform_are_simulated(name):
    """As far as they are known; what is not is said, in the spec and below the numbers."""
    switch = switch_with(name, 100)
    advice = advise(switch)
    spec = tomllib.loads(repeat.files(advice)["spec.toml"])["scheme"]["pfc"]
    of = switch.platform
    assert spec.get("cell", 0) == of.cell
    assert spec.get("response") == (None if of.formula is None else f"{of.response_ns(100):g}ns")
    missing = [what for what, key in (("response", "response"), ("cells", "cell")) if key not in spec]
    said = not_simulated(switch)
    assert len(said) == bool(missing) and all(what in said[0] and "optimistic" in said[0] for what in missing)
    made = what_ifs.WhatIfs((), (), (1,), optimistic=tuple(said))
    assert all(line in notes(made) and f"# {line}\n" in repeat.files(advice)["spec.toml"] for line in said)


def test_which_platforms_lack_what():
    lacking = {name: " ".join(not_simulated(switch_with(name, 100))) for name in all_platforms()}
    neither = {name for name, said in lacking.items() if said.startswith(f"response and cells of {name}: not known")}
    assert neither == {"7060X6", "7260CX3", "IXR7220-H5", "IXR7220-H6", "NH-5010"}
    assert {name for name, said in lacking.items() if "cable and response can be" in said} == {"sse_t7132s", "7800R3"}
    assert {name for name, said in lacking.items() if "cable and cells can be" in said} == {"AS9516"}
    assert sum(map(bool, lacking.values())) == 8


def test_of_two_responses_the_shorter_is_simulated():
    """Headroom for 100 Gbit/s holds 2203 ns, that for 400 Gbit/s only 1295 ns."""
    switch = switch_with("SN5640", 100, 400)
    assert scheme(switch, advised(advise(switch)), (), {})["pfc"]["response"] == "1294.78ns"
    (line,) = not_simulated(switch)
    assert "1295 ns at all ports; it is up to 2203 ns at slower ports" in line


@pytest.mark.parametrize("name", ["SN5640", "SN5600", "Z9864f", "NH-4210", "d64p512t"])
def test_cells_take_what_the_formula_says(name):
    """The simulator's smallest packet is smaller than 64 B, so that less of it has the same effect."""
    of = all_platforms()[name]
    switch = switch_with(name, 400)
    pfc = scheme(switch, advised(advise(switch)), (), {})["pfc"]
    assert ByHand(4096, 0, pfc["cell"], pfc["small_packets"]).blow_up == pytest.approx(of.formula.blow_up, abs=0.03)


# ---- Advice on what was advised ----


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_advice_with_a_job_on_what_it_advised_changes_nothing(name, folder):
    """Each point has its score, the default a bad one; so another is chosen, and stays chosen."""

    def advised_with_a_job(config):
        advice = advise(switch_of(config, platform_of(config)))
        found = study_of(config)
        cases, _ = what_ifs.cases(advice, replace(read_job(Path("job.toml")), fabric=None), config, ("ecn",))
        results = []
        for case in cases:
            low, high, percent = (tomllib.loads(case.spec)["scheme"]["ecn"][key] for key in ("k_min", "k_max", "p_max"))
            score = 1 + abs(low / 3e5 - 1) + abs(high / 6e5 - 1) + percent
            values = dict.fromkeys(what_ifs.COLUMNS["ecn"], 1.0)
            results.append(what_ifs.result(case, [{**values, "both": score * seed} for seed in (1, 1.1, 0.9)]))
        made = what_ifs.WhatIfs(tuple(results), (), (1, 2, 3), what_ifs.choose(results, advice))
        return with_what_ifs(found, made)

    def study_of(config):
        Path("c.json").write_text(config.text())
        return study(Path("c.json"))[0]

    before = Config(clean(name, 3))
    first = advised_with_a_job(before)
    assert first.what_ifs.choice.changed
    after = merged(before, fragment(first.advice, before))
    second = advised_with_a_job(after)
    assert what_ifs.said(second.what_ifs.choice).startswith("what the switch has, K_min")
    assert not second.what_ifs.choice.changed and not second.findings
    assert changes(after, fragment(second.advice, after)) == [["field", "before", "after", "ports"]]
    alone = study_of(after)
    assert not alone.findings and changes(after, fragment(alone.advice, after)) == [["field", "before", "after", "ports"]]


def test_marking_after_pfc_does_not_stay():
    """What is kept comes before PFC; the rest is replaced by the default."""
    tables = clean("Z9864f", 2)
    for row in tables["WRED_PROFILE"].values():
        row |= {"green_min_threshold": "2000000", "green_max_threshold": "10000000"}
    config = Config(tables)
    kept = advise(switch_of(config, platform_of(config)))
    assert (kept.k_min, kept.k_max, kept.p_max) == (2_000_000, 10_000_000, 5)
    assert [row.source for row in rows(kept) if row.setting.startswith("K_")] == ["as it is"] * 2
    for row in tables["WRED_PROFILE"].values():
        row["green_max_threshold"] = "150000000"
    assert advise(switch_of(config, platform_of(config))).k_max == K_MAX


@pytest.mark.parametrize(("marking", "labels"), [(None, {"as it is", "default"}), ("2000000", {"as it is"})])
def test_a_point_has_one_ring(marking, labels, folder):
    """What the switch has is not drawn as the default once more."""
    tables = clean("Z9864f", 2)
    for row in tables["WRED_PROFILE"].values():
        row["green_max_threshold"] = marking or "150000000"
    config = Config(tables)
    advice = advise(switch_of(config, platform_of(config)))
    cases, _ = what_ifs.cases(advice, replace(read_job(Path("job.toml")), fabric=None), config, ("ecn",))
    values = dict.fromkeys(what_ifs.COLUMNS["ecn"], 1.0)
    results = tuple(what_ifs.result(case, [values]) for case in cases)
    figure = figure_of("ecn", what_ifs.WhatIfs(results, (), (1,), what_ifs.choose(list(results), advice)))
    rings = {text.get_text() for text in figure.axes[0].get_legend().get_texts() if "P_max" not in text.get_text()}
    assert rings == labels
