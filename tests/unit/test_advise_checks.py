"""Checks of a config_db.json: nothing on clean ones, each planted fault found, and by no more than it means."""

import json

import pytest
from advise_configs import SHIPPED, applied, clean
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.advise import checks, fields
from penstock_net.advise.export import fragment, merged, rollback
from penstock_net.advise.finding import Finding
from penstock_net.advise.sonic import READ, Config, parse, platform_of
from penstock_net.advise.study import contents, study, text
from penstock_net.errors import SpecError

P = "pg_lossless_800000_40m_profile"


def found(tables, neighbours=()):
    config = parse(json.dumps(tables), "config_db.json")
    return checks.check(config, platform_of(config), tuple(Config(one) for one in neighbours))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_clean_configuration_has_no_finding(name):
    assert found(clean(name)) == []


def test_the_clean_ones_are_judged():
    """Their platforms are known, and a byte less headroom would be found."""
    for name in SHIPPED:
        tables = clean(name)
        for row in tables["BUFFER_PROFILE"].values():
            if "xoff" in row:
                row["xoff"] = str(int(row["xoff"]) - 1)
        assert {"headroom"} == {finding.check for finding in found(tables)}, name


# Of Z9864f: path, value (None: the row or field goes), severity, check.
FAULTS = {
    "too little headroom": (["BUFFER_PROFILE", P, "xoff"], "400000", "error", "headroom"),
    "no cable": (["CABLE_LENGTH", "AZURE", "Ethernet0"], None, "error", "no cable"),
    "a cable of 300 m with the profile of 5 m": (["CABLE_LENGTH", "AZURE", "Ethernet0"], "300m", "error", "wrong profile"),
    "another speed": (["PORT", "Ethernet0", "speed"], "200000", "error", "wrong profile"),
    "no profile for a cable": (["BUFFER_PROFILE", P], None, "error", "reference"),
    "PFC without a profile": (["BUFFER_PG", "Ethernet0|3-4"], None, "error", "no group"),
    "a lossless group without PFC": (["PORT_QOS_MAP", "Ethernet0", "pfc_enable"], "3", "error", "no pfc"),
    "a pool of headroom below one": (["BUFFER_POOL", "ingress_lossless_pool", "xoff"], "500000", "error", "pool"),
    "a pool that is promised 15 times": (["BUFFER_POOL", "ingress_lossless_pool", "xoff"], "3400000", "warning", "pool"),
    "two thresholds": (["BUFFER_PROFILE", P, "static_th"], "1000", "error", "threshold"),
    "no threshold": (["BUFFER_PROFILE", P, "dynamic_th"], None, "error", "threshold"),
    "a group in an egress pool": (["BUFFER_PROFILE", P, "pool"], "egress_lossless_pool", "error", "threshold"),
    "K_min above K_max": (["WRED_PROFILE", "AZURE_LOSSLESS", "green_min_threshold"], "3000000", "error", "marking"),
    "ECN after PFC": (["WRED_PROFILE", "AZURE_LOSSLESS", "green_max_threshold"], "90000000", "warning", "late marking"),
    "a queue without WRED": (["QUEUE", "Ethernet0|3", "wred_profile"], None, "warning", "no marking"),
    "WRED without ECN": (["WRED_PROFILE", "AZURE_LOSSLESS", "ecn"], "ecn_none", "warning", "no marking"),
    "no DSCP for a lossless class": (["DSCP_TO_TC_MAP", "AZURE", "4"], "1", "warning", "no traffic"),
    "CNPs in a lossless queue": (["DSCP_TO_TC_MAP", "AZURE", "48"], "3", "warning", "cnp"),
    "a class in another group": (["TC_TO_PRIORITY_GROUP_MAP", "AZURE", "3"], "4", "error", "two groups"),
    "a lossy class in a lossless group": (["TC_TO_PRIORITY_GROUP_MAP", "AZURE", "1"], "3", "error", "two groups"),
    "another map on one port": (["PORT_QOS_MAP", "Ethernet0", "tc_to_queue_map"], None, "warning", "maps differ"),
    "a pause of another queue": (["MAP_PFC_PRIORITY_TO_QUEUE", "AZURE", "3"], "5", "error", "pause elsewhere"),
    "a lossy queue": (["BUFFER_QUEUE", "Ethernet0|3-4", "profile"], "egress_lossy_profile", "error", "pause elsewhere"),
    "no watchdog": (["PFC_WD", "Ethernet0"], None, "warning", "no watchdog"),
    "one priority is not watched": (["PORT_QOS_MAP", "Ethernet0", "pfcwd_sw_enable"], "3", "warning", "no watchdog"),
    "a watchdog that looks too seldom": (["PFC_WD", "GLOBAL", "POLL_INTERVAL"], "300", "error", "polls"),
    "dynamic_th 8": (["BUFFER_PROFILE", "egress_lossy_profile", "dynamic_th"], "8", "error", "range"),
    "a length in feet": (["CABLE_LENGTH", "AZURE", "Ethernet0"], "15ft", "error", "range"),
    "a detection time of 50 ms": (["PFC_WD", "Ethernet0", "restoration_time"], "70000", "error", "range"),
    "a probability of 120 percent": (["WRED_PROFILE", "AZURE_LOSSLESS", "red_drop_probability"], "120", "error", "range"),
    "a field that is none": (["BUFFER_PROFILE", P, "dynamic_thr"], "1", "warning", "field"),
    "a scheduler that is not there": (["QUEUE", "Ethernet0|3", "scheduler"], "scheduler.9", "error", "reference"),
    "a port that is not there": (["PFC_WD", "Ethernet7"], {"action": "drop"}, "warning", "reference"),
}


def planted(fault):
    path, value, *_ = FAULTS[fault]
    tables = clean("Z9864f")
    place = tables
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        assert place.get(path[-1]) != value
        place[path[-1]] = value
    return tables


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    severity, name = FAULTS[fault][2:]
    findings = found(planted(fault))
    assert (severity, name) in {(f.severity, f.check) for f in findings}
    assert len({f.check for f in findings}) <= 2, "one fault, and what follows of it"
    assert all((f.text and f.place and f.remedy) or f.check in ("range", "reference") for f in findings)


def test_every_check_is_needed():
    """Each finds a fault that no other one finds."""
    needed = set()
    for fault, (*_, name) in FAULTS.items():
        config = parse(json.dumps(planted(fault)), "x")
        view = checks.View(config, checks.ports_of(config), platform_of(config))
        finders = [one.__name__ for one in checks.CHECKS if name in {finding.check for finding in one(view)}]
        needed |= set(finders) if len(finders) == 1 else set()
    assert {one.__name__ for one in checks.CHECKS} - needed == {"buffer_too_small", "ends_differ"}  # see below


def test_more_than_the_buffer():
    tables = clean("SN5600")
    tables["BUFFER_POOL"]["ingress_lossless_pool"]["size"] = "150000000"
    (finding,) = found(tables)
    assert finding.check == "buffer" and finding.severity == "error" and "more than the buffer, 158229504 B" in finding.text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["PORT", "Ethernet8", "speed"], "200000"),
        (["PORT", "Ethernet8", "mtu"], "1500"),
        (["CABLE_LENGTH", "AZURE", "Ethernet8"], "40m"),
        (["PORT_QOS_MAP", "Ethernet8", "pfc_enable"], "3"),
    ],
)
def test_two_ends_of_a_link(path, value):
    here, there = clean("Z9864f"), clean("Z9864f")
    here["DEVICE_NEIGHBOR"] = {"Ethernet0": {"name": "spine1", "port": "Ethernet8"}, "Ethernet8": {"name": "other", "port": "x"}}
    there["DEVICE_METADATA"]["localhost"]["hostname"] = "spine1"
    assert found(here, [there]) == []
    there[path[0]][path[1]][path[2]] = value
    assert [f.check for f in found(here, [there])] == ["ends differ"]


def test_older_references_are_read():
    tables = clean("Z9864f")
    for table, key in (("BUFFER_PG", "profile"), ("QUEUE", "wred_profile"), ("BUFFER_PROFILE", "pool")):
        other = {"profile": "BUFFER_PROFILE", "wred_profile": "WRED_PROFILE", "pool": "BUFFER_POOL"}[key]
        for row in tables[table].values():
            row[key] = f"[{other}|{row[key]}]"
    assert found(tables) == []


def test_an_unknown_platform_is_not_judged_for_headroom():
    tables = planted("too little headroom")
    tables["DEVICE_METADATA"]["localhost"]["hwsku"] = "something-else"
    assert found(tables) == []


def test_other_tables_are_listed_and_stay():
    config = parse(json.dumps(clean("H5") | {"ACL_TABLE": [1, {"x": None}]}), "x")
    assert config.unknown == ["ACL_TABLE", "VLAN"]
    assert merged(config, {}).tables == config.tables and parse(config.text(), "x") == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x:1:1: not valid JSON"),
        ('{"PORT": ', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("1" * 5000, "not valid JSON"),
        ("[]", "must be an object of tables"),
        ("{}", "has no table of SONiC"),
        ('{"PORT": []}', "PORT = []: must be an object of rows"),
        ('{"PORT": {"Ethernet0": 1}}', "PORT|Ethernet0 = 1: must be an object of fields"),
        (
            '{"PORT": {"Ethernet0": {"speed": 400000}}}',
            "PORT|Ethernet0 speed = 400000: must be a text, or a list of texts; write numbers",
        ),
        ('{"PORT": {"E": {}, "E": {}}}', "x: E: is there twice"),
    ],
)
def test_what_is_no_configuration(text, words):
    with pytest.raises(SpecError) as caught:
        parse(text, "x")
    assert words in str(caught.value)


WORDS = [
    "3",
    "3,4",
    "x",
    "",
    "-1",
    "999999999999999999",
    "9" * 400,
    "40m",
    "0m",
    "Ethernet0",
    "global",
    "Ethernet0|3",
    "a|b|0-99999",
    "[BUFFER_POOL|x]",
    "²",
    "NULL",
    "ingress_lossless_pool",
    "pg_lossless_1_2_profile",
    "\x00",
    "AZURE",
    "48",
    "localhost",
]
NAMES = sorted({name for rules in fields.FIELDS.values() for name in rules} | {name for _, name in fields.REFERENCES})
TEXT = st.sampled_from(WORDS) | st.text(max_size=5)
ROWS = st.dictionaries(st.sampled_from(NAMES) | TEXT, TEXT | st.lists(TEXT, max_size=2), max_size=4)
TABLES = st.dictionaries(st.sampled_from(READ), st.dictionaries(TEXT, ROWS, max_size=4), min_size=1, max_size=6)


@examples(30)
@given(TABLES, st.sampled_from(sorted(SHIPPED)), st.data())
def test_whatever_the_tables_say(tmp_path_factory, tables, name, data):
    """Mixed into a clean configuration: advice and findings or none, never another exception; and what is read is what was
    written, is advised without a field that SONiC does not take, and is taken back."""
    mixed = clean(name, most=1) if data.draw(st.booleans()) else {}
    for table, rows in tables.items():
        mixed.setdefault(table, {})
        for key, row in rows.items():
            there = sorted(mixed[table])
            key = data.draw(st.sampled_from(there)) if there and data.draw(st.booleans()) else key
            mixed[table].setdefault(key, {}).update(row)
    config = parse(json.dumps(mixed), "x")
    assert parse(config.text(), "x") == config
    for finding in checks.check(config, platform_of(config), (config,)):
        assert isinstance(finding, Finding) and finding.severity in ("error", "warning") and finding.place
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(config.text())
    for found in study(path):
        assert list(text(found)) and contents(found)
        if found.advice and found.advice.fits:
            new = fragment(found.advice, config)
            assert not list(fields.ranges(Config(new)))
            assert applied(rollback(config, new), merged(config, new).tables) == config.tables
