"""Every stage costs in proportion to its work: operations are counted at one size and at several times that size.

The stages are the rows of growth_inputs (before a run), growth_core (during it), growth_results (of a run, and after it) and
growth_papers; growth.py says what is counted. What is shown of a real switch is in tests/vswitch/test_growth_of_tables.py.
"""

import functools
import gc
import json
import subprocess
import sys

import growth_core
import growth_inputs
import growth_papers
import growth_results
import pytest
from growth import check, judge

STAGES = [*growth_inputs.STAGES, *growth_results.STAGES, *growth_papers.STAGES]


@pytest.fixture(autouse=True, scope="module")
def nothing_but_its_own_to_collect():
    """Else each count of memory, which collects first, goes through all that the tests before have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@functools.cache
def counts_of_core():
    """In a process of its own, for all cases."""
    command = [sys.executable, growth_core.__file__]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_every_stage_has_a_name_of_its_own():
    names = [stage.name for stage in [*STAGES, *growth_core.STAGES]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_costs_in_proportion(stage):
    check(stage)


@pytest.mark.parametrize("stage", growth_core.STAGES, ids=lambda stage: stage.name)
def test_the_core_costs_in_proportion(stage):
    judge(stage, {"lines": counts_of_core()[stage.name]})
