"""Every step of a figure, as the tests of several figures take them."""

import json

from penstock_papers import EXPERIMENTS, framework
from penstock_papers.claims import judge


def every_step(id, tmp_path):
    """Run, measure, judge and write a figure at scale paper; its runs, data and judged claims."""
    experiment = EXPERIMENTS[id]
    runs = framework.run_all(experiment, "paper", 1, tmp_path / "runs", 1, None)
    data = framework.measured(experiment, runs, "paper")
    claims = judge(experiment.claims(data, "paper"), "paper", experiment.differs)
    ids = [claim.id for claim in claims]
    assert len(set(ids)) == len(ids) and set(experiment.differs) <= set(ids)
    json.dumps([claim.record() for claim in claims], allow_nan=False)
    (tmp_path / "out").mkdir()
    framework.write(experiment, tmp_path / "out", "paper", {1: data}, claims)
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".json", ".parquet", ".png", ".pdf", ".toml"}
    for panel in experiment.draw(data).axes:
        assert panel.get_ylabel() and (panel.get_lines() or panel.patches)
    return runs, data, claims
