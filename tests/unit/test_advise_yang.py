"""What `penstock advise` writes, against SONiC's own YANG models: needs yanglint, and the models in $PENSTOCK_SONIC_YANG.

    apt-get install libyang2-tools                                            # yanglint
    git clone --depth 1 https://github.com/sonic-net/sonic-buildimage         # the models: src/sonic-yang-models

PENSTOCK_SONIC_YANG is a folder with the files of yang-models, and those of yang-templates as Jinja makes them with
yang_model_type = "py".
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from advise_configs import SHIPPED, clean

from penstock_net.advise.export import fragment, merged
from penstock_net.advise.fields import REFERENCES
from penstock_net.advise.settings import advise
from penstock_net.advise.sonic import Config, parse, platform_of, switch_of

MODELS = Path(os.environ.get("PENSTOCK_SONIC_YANG", ""))
YANGLINT = shutil.which("yanglint")
LISTS = {  # table: the module that has it, and the keys of its list
    "PORT": ("sonic-port", ("name",)),
    "BUFFER_POOL": ("sonic-buffer-pool", ("name",)),
    "BUFFER_PROFILE": ("sonic-buffer-profile", ("name",)),
    "BUFFER_PG": ("sonic-buffer-pg", ("port", "pg_num")),
    "WRED_PROFILE": ("sonic-wred-profile", ("name",)),
    "QUEUE": ("sonic-queue", ("ifname", "qindex")),
    "PORT_QOS_MAP": ("sonic-port-qos-map", ("ifname",)),
    "PFC_WD": ("sonic-pfcwd", ("ifname",)),
    "LOSSLESS_TRAFFIC_PATTERN": ("sonic-lossless-traffic-pattern", ("name",)),
}
needs_models = pytest.mark.skipif(
    not YANGLINT or not (MODELS / "sonic-types.yang").is_file(), reason="no yanglint, or no models in PENSTOCK_SONIC_YANG"
)


def namespace(module):
    return re.search(r'namespace\s+"([^"]+)"', (MODELS / f"{module}.yang").read_text())[1]


def as_xml(config):
    """The tables that are written, and the ports, as instance data of the models, without names of rows of other tables; every
    value is a text there."""
    out = []
    for table, (module, names) in LISTS.items():
        rows = ""
        for key, row in config.rows(table).items():
            known = {k: v for k, v in row.items() if REFERENCES.get((table, k), table) in LISTS}
            leaves = dict(zip(names, key.split("|"))) | known
            rows += f"<{table}_LIST>{''.join(f'<{k}>{escape(v)}</{k}>' for k, v in leaves.items())}</{table}_LIST>"
        out.append(f'<{module} xmlns="{namespace(module)}"><{table}>{rows}</{table}></{module}>')
    module, rows = "sonic-cable-length", ""
    for key, row in config.rows("CABLE_LENGTH").items():
        inner = "".join(
            f"<CABLE_LENGTH><port>{escape(k)}</port><length>{escape(v)}</length></CABLE_LENGTH>" for k, v in row.items()
        )
        rows += f"<CABLE_LENGTH_LIST><name>{escape(key)}</name>{inner}</CABLE_LENGTH_LIST>"
    out.append(f'<{module} xmlns="{namespace(module)}"><CABLE_LENGTH>{rows}</CABLE_LENGTH></{module}>')
    return "\n".join(out)


def complaints(config, folder):
    """What yanglint has against a configuration; "": nothing."""
    (folder / "data.xml").write_text(as_xml(config))
    modules = [MODELS / f"{module}.yang" for module, _ in LISTS.values()]
    modules += [MODELS / "sonic-cable-length.yang", MODELS / "sonic-device_metadata.yang"]
    found = subprocess.run(
        [YANGLINT, "-p", MODELS, "-t", "config", *modules, folder / "data.xml"], capture_output=True, text=True, check=False
    )
    errors = [line for line in found.stderr.splitlines() if "err :" in line]
    assert errors or found.returncode == 0, found.stderr
    return "\n".join(errors)


def written(name):
    """A clean configuration of a platform, with the rows of `penstock advise` loaded into it."""
    before = parse(json.dumps(clean(name)), name)
    return merged(before, fragment(advise(switch_of(before, platform_of(before))), before))


@needs_models
@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_what_is_written_is_valid(name, tmp_path):
    assert complaints(written(name), tmp_path) == ""


@needs_models
@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("WRED_PROFILE", "green_max_threshold", "1"),
        ("WRED_PROFILE", "ecn", "all"),
        ("PFC_WD", "action", "lose"),
        ("PFC_WD", "detection_time", "99"),
        ("BUFFER_PG", "profile", "nowhere"),
        ("BUFFER_POOL", "mode", "moving"),
        ("BUFFER_PROFILE", "dynamic_th", "9"),
        ("PORT_QOS_MAP", "pfc_enable", "3;4"),
    ],
)
def test_what_is_wrong_is_found(table, field, value, tmp_path):
    """The models notice each of these, so that the test above may fail."""
    tables = json.loads(written(sorted(SHIPPED)[0]).text())
    key = next(key for key, row in tables[table].items() if field in row)
    tables[table][key][field] = value
    assert complaints(Config(tables), tmp_path)
