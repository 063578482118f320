"""The description of an experiment: a TOML file, checked in full before anything runs.

    spec = load_spec("quickstart", sets=["workload.0.load=0.7"], schemes=["bfc"], seed=2)
    spec.duration_ps, spec.schemes[0].parameters, spec.to_toml(), spec.key()
    topo = spec.build_topology(); flows = spec.build_flows(topo); run = spec.simulate(spec.schemes[0], topo, flows)

Precedence: defaults < file < --set < options of the command line. Bad input raises SpecError, in one or two lines:
where (file and line, or the option), key = value, the rule, the nearest valid value.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, InstanceOf, PrivateAttr, ValidationError

from penstock_net.composition import names_of
from penstock_net.errors import Interrupted, SpecError, nearest, shown
from penstock_net.inputs import read_text, time_ps
from penstock_net.results.rundir import INPUTS
from penstock_net.sim.config import TIMES, HostConfig, InNetwork, Measure
from penstock_net.spec.files import Inputs, absolute, stem_of, without_none
from penstock_net.spec.overrides import check_forms, choose, override
from penstock_net.spec.source import Source, explained
from penstock_net.spec.tables import Closed, RunTable, SchemeTable, TopologyTable, WorkloadTable, as_list, keys_of
from penstock_net.spec.toml import syntax_error, write_toml

if TYPE_CHECKING:
    from penstock_net.results.run import Run
    from penstock_net.sim.settings import Settings
    from penstock_net.topology import Topology
    from penstock_net.workload import Flows

PRESETS = Path(__file__).parent / "presets"
_LONGEST_PATH = 4095  # of Linux


class Spec(Closed):
    """A checked experiment. Make one with `load_spec` (a file or preset) or `parse_spec` (text or a dict)."""

    run: RunTable
    topology: TopologyTable
    scheme: Annotated[list[SchemeTable], BeforeValidator(as_list)] = Field(default_factory=list)
    workload: Annotated[list[WorkloadTable], BeforeValidator(as_list), Field(min_length=1)]
    measure: Annotated[InstanceOf[Measure], keys_of("measure", Measure)] = Field(default_factory=Measure)
    host: Annotated[InstanceOf[HostConfig], keys_of("host", HostConfig)] = Field(default_factory=HostConfig)
    in_network: Annotated[InstanceOf[InNetwork], keys_of("in_network", InNetwork)] = Field(default_factory=InNetwork)
    _where: Source = PrivateAttr()
    _host_of: dict[int, dict[str, Any]] = PrivateAttr(default_factory=dict)  # what schemes set of the hosts, by id of their table
    _inputs: Inputs | None = PrivateAttr(None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.to_dict() == other.to_dict()

    @property
    def name(self) -> str:
        """Of the file or preset, without its suffix."""
        return self._where.stem

    @property
    def duration_ps(self) -> int:
        """Picoseconds during which flows arrive."""
        return time_ps(self.run.duration, "run.duration", positive=True)

    @property
    def max_time_ps(self) -> int | None:
        """Picoseconds at which draining gives up; None: the simulator's own bound."""
        return None if self.run.max_time is None else time_ps(self.run.max_time, "run.max_time", positive=True)

    @property
    def schemes(self) -> list[SchemeTable]:
        """At least one; SpecError when the file names none."""
        if not self.scheme:
            raise SpecError(
                "there is none", path="scheme", remedy='add [scheme] name = "bfc" or give --scheme bfc', place=self._where.name
            )
        return self.scheme

    def labels(self) -> list[str]:
        """A distinct name per scheme, fit for a folder: "bfc", "hpcc-ns3", "bfc,queues=128"."""
        plain = [s.label or re.sub(r"[:/\\\s]+", "-", "+".join(stem_of(part) for part in names_of(s.name))) for s in self.schemes]
        names: list[str] = []
        for table, label in zip(self.schemes, plain):
            if plain.count(label) > 1 and not table.label:
                given = (f"{k}={shown(v)}".replace('"', "") for k, v in sorted(table.parameters.items()))
                label = re.sub(r"[/\\\s]+", "-", ",".join([label, *given]))
            if label in names:
                raise SpecError(
                    f'two schemes are both called "{label}"', remedy='give one a label = "..."', place=self._where.name
                )
            names.append(label)
        return names

    def label(self, table: SchemeTable) -> str:
        """The name of one of the schemes."""
        return dict(zip(map(id, self.schemes), self.labels())).get(id(table), table.label or table.name)

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, defaults filled in, None left out; of [host] without what only the schemes say."""
        of_schemes = {key for table in self.scheme for key in self._host_of.get(id(table), ())} - self.host.given
        out: dict[str, Any] = {
            "run": self.run.model_dump(),
            "topology": self.topology.model_dump(),
            "scheme": [s.model_dump() for s in self.scheme],
            "workload": [w.model_dump() for w in self.workload],
            "measure": asdict(self.measure),
            "host": {key: value for key, value in asdict(self.host).items() if key not in of_schemes},
        }
        if self.in_network != InNetwork():  # a spec without it keeps its key
            out["in_network"] = asdict(self.in_network)
        if len(out["scheme"]) == 1:
            out["scheme"] = out["scheme"][0]
        return without_none(out)

    def to_toml(self) -> str:
        """TOML text that loads to an equal Spec."""
        return write_toml(self.to_dict())

    def complete(self) -> "Spec":
        """This experiment with the defaults of its topology, workloads and schemes written out."""
        from penstock_net.spec.defaults import of_scheme, of_topology, of_workload

        content = self.to_dict()
        content["topology"] = of_topology(content["topology"])
        content["workload"] = [of_workload(table) for table in content["workload"]]
        tables = [without_none(table.model_dump()) for table in self.schemes]
        content["scheme"] = [of_scheme(table, self.build_scheme(own)) for table, own in zip(tables, self.schemes)]
        return parse_spec(content, name=self._where.name, stem=self._where.stem)

    def only(self, scheme: SchemeTable) -> "Spec":
        """This experiment with one scheme."""
        copy = self.model_copy(update={"scheme": [scheme]})
        copy._where = self._where
        copy._host_of = self._host_of
        copy._inputs = Inputs(copy.to_dict(), self.inputs.content)
        return copy

    @property
    def inputs(self) -> Inputs:
        """The files that the spec names, as they were when they were first needed."""
        if self._inputs is None:
            self._inputs = Inputs(self.to_dict())
        return self._inputs

    def portable(self) -> tuple[str, dict[str, bytes]]:
        """The spec as TOML text for a run directory, and the files to be put there by name: it names them relative to itself."""
        content = self.inputs.relative(self.to_dict())
        table = {INPUTS: self.inputs.table()} if self.inputs.content else {}
        return write_toml({**content, **table}), self.inputs.copies()

    def key(self) -> str:
        """16 hex digits of what the spec says of the results: values, and the files that they name."""
        content = self.to_dict()
        content["run"] = {
            "duration_ps": self.duration_ps,
            "max_time_ps": self.max_time_ps,
            "seed": self.run.seed,
            "drain": self.run.drain,
            **without_none({"control_loss": self.run.control_loss, "link_clock": self.run.link_clock}),
        }
        content["measure"]["sample"] = self.measure.sample_ps
        content["host"] = {**asdict(self.host), **{key: read(self.host) for key, read in TIMES.items()}}
        content["scheme"] = [{k: v for k, v in s.model_dump().items() if k != "label"} for s in self.scheme]
        content["run"] |= without_none({"paths": self.run.paths})
        hashed = self.inputs.hashed({k: content[k] for k in ("run", "topology", "scheme", "workload")})
        text = json.dumps({**content, **hashed}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # -- from the description to a run

    @contextmanager
    def _building(self, section: str, content: Any) -> Iterator[None]:
        """Completes errors of a builder; SpecError: a file that it has read was changed since `inputs` read it."""
        inputs = self.inputs
        with self._where.context(section):
            yield
            inputs.check_unchanged(content)

    def build_topology(self) -> "Topology":
        """The network; SpecError names the key."""
        from penstock_net import topology

        table = {k: v for k, v in self.topology.model_dump().items() if v is not None}
        with self._building("topology", table):
            return topology.build(table)

    def build_flows(self, topo: "Topology", force: bool = False) -> "Flows":
        """All flows of all [[workload]] tables; `force` admits what would be refused, such as a load above 1."""
        from penstock_net import workload

        tables = [w.model_dump() for w in self.workload]
        with self._building("", tables):
            return workload.build(tables, topo, self.duration_ps, self.run.seed, force)

    def build_scheme(self, table: SchemeTable) -> Any:
        """The scheme as a value; SchemeError names it."""
        from penstock_net import composition as schemes

        with self._building(self._section(table), {"name": table.name}):
            return schemes.parse(table.name, table.parameters)

    def _section(self, table: SchemeTable) -> str:
        """ "scheme", or "scheme.1" if there are several."""
        index = next((i for i, other in enumerate(self.scheme) if other is table), 0)
        return f"scheme.{index}" if len(self.scheme) > 1 else "scheme"

    def _check(self) -> None:
        """SpecError: what can be found without building a network: kinds, names, keys, values of the wrong type."""
        from penstock_net.spec.keys import check

        with self._where.context():
            check("topology", self.topology.model_dump())
            for i, table in enumerate(self.workload):
                check(f"workload.{i}", table.model_dump())
        for each in self.scheme:
            self._host_of[id(each)] = self.build_scheme(each).host
            with self._where.context():
                self.host.under(each.name, self._host_of[id(each)], self._section(each), self._where.of)

    def _settings(self) -> dict[str, Any]:
        return {
            "seed": self.run.seed,
            "threads": self.run.threads,
            "duration_ps": self.duration_ps,
            "drain": self.run.drain,
            "measure": self.measure,
            "host": self.host,
            "in_network": self.in_network,
            **without_none({"max_time_ps": self.max_time_ps, "paths": self.run.paths}),
            **without_none({"control_loss": self.run.control_loss, "link_clock": self.run.link_clock}),
        }

    def check(self, table: SchemeTable, topo: "Topology", flows: "Flows", built: bool = False) -> None:
        """SpecError if `simulate` would refuse it.

        built: before its first event, for whatever reason: the core is built, which takes a run's memory, and a file compiled
        """
        settings = self.settings(table, topo, flows)
        if built:
            from penstock_net.sim.simulate import Runner

            Runner(settings)

    def settings(self, table: SchemeTable, topo: "Topology", flows: "Flows") -> "Settings":
        """The settings of the run of one scheme."""
        from penstock_net.sim.settings import Settings

        scheme = self.build_scheme(table)
        with self._building("", {"paths": self.run.paths}):
            return Settings(topo, flows, scheme, arrivals_ps=self.duration_ps, **self._settings())

    def simulate(
        self,
        table: SchemeTable,
        topo: "Topology",
        flows: "Flows",
        *,
        threads: int | None = None,
        progress: Callable[[Any], None] | None = None,
        checkpoint: Any = None,
        on_interrupt: Literal["raise", "return"] = "raise",
    ) -> "Run":
        """One scheme on this experiment; the spec travels in the run.  on_interrupt: as `simulate` takes it."""
        from penstock_net.sim import simulate as engine

        settings = {**self._settings(), "threads": threads or self.run.threads, **without_none({"checkpoint": checkpoint})}
        scheme = self.build_scheme(table)
        run = engine.simulate(topo, flows, scheme=scheme, progress=progress, on_interrupt="return", **settings)
        single = self.only(table)
        run.summary["realised"] = flows.realised(topo, self.duration_ps)
        run.summary["nominal"] = single.inputs.relative(run.summary["realised"].pop("nominal"))
        run.summary["spec"], run.inputs = single.portable()
        run.summary["scheme"] = single.inputs.relative(run.summary["scheme"], "name")
        run.summary["label"] = self.label(table)
        late = sum(source.get("left_out", 0) for source in flows.nominal)
        if late:
            run.summary["warnings"].append(f"flows that start after run.duration ({self.run.duration}) are left out: {late}")
        if run.summary.get("interrupted") and on_interrupt == "raise":
            raise Interrupted(run)
        return run


# -- reading ----------------------------------------------------------------------------------------------------------


def presets() -> list[str]:
    """Names of the specs that come with penstock."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load_spec(
    source: str | Path,
    *,
    sets: Iterable[str] = (),
    schemes: Iterable[str] = (),
    seed: int | None = None,
    threads: int | None = None,
    duration: str | None = None,
) -> Spec:
    """The spec of a TOML file, a run directory or a preset, with overrides.

    sets      "KEY=VALUE" with dotted keys: "run.duration=1ms", "scheme.queues=64", "workload.0.load=0.7"
    schemes   replace the file's schemes; one that the file also names keeps its parameters; NAME=LABEL gives it a label
    """
    if not isinstance(source, (str, Path)) or len(str(source)) > _LONGEST_PATH:
        raise SpecError("must be the path of a TOML file, or a preset", path="spec", value=source)
    path, remedy = Path(source), f"give a TOML file or a preset; {nearest('', presets())}"
    if path.is_dir():
        path = path / "spec.toml"
        if not path.exists():
            raise SpecError("a folder without a spec.toml", remedy=remedy, place=source)
    if not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise SpecError("no such file", remedy=remedy, place=source)
        if str(source) not in presets():
            raise SpecError("no such file or preset", remedy=nearest(source, presets()), place=source)
        path, name = PRESETS / f"{source}.toml", f"preset {source}"
    else:
        name = str(path)
    text = read_text(str(path), "spec")
    options = {"run.seed": seed, "run.threads": threads, "run.duration": duration}
    stem = path.parent.resolve().name if path.name == "spec.toml" else path.stem
    return parse_spec(text, name=name, stem=stem, base=path.parent, sets=sets, schemes=schemes, options=options)


def parse_spec(
    content: str | Mapping[str, Any],
    *,
    name: str = "spec",
    stem: str = "spec",
    base: str | Path = ".",
    sets: Iterable[str] = (),
    schemes: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Spec:
    """The spec of TOML text or a dict; file names in it are relative to `base`."""
    source = Source(name, content if isinstance(content, str) else "", stem)
    if isinstance(content, str):
        try:
            data = tomllib.loads(content)
        except (ValueError, RecursionError) as error:  # besides syntax: numbers too long, tables too deep
            raise syntax_error(name, content, error) from error
    else:
        data = _as_read(content)
    made_with = data.pop(INPUTS, None)
    try:
        data = absolute(data, Path(base))
    except RecursionError as error:
        raise SpecError("tables nested too deep", place=name) from error
    schemes, sets = list(schemes), list(sets)
    if schemes:
        choose(data, schemes, source)
    override(data, sets, source, bool(schemes))
    check_forms(data, source)
    for key, value in (options or {}).items():
        if value is not None:
            section, field = key.split(".")
            data.setdefault(section, {})
            if isinstance(data[section], dict):
                data[section][field] = value
                source.sets[key] = f"--{field} {value}"
    lists = {key: len(as_list(data[key])) for key in ("scheme", "workload") if isinstance(data.get(key), (dict, list))}
    try:
        spec = Spec.model_validate(data)
    except ValidationError as error:
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        raise source.located(explained(first, lists)) from None
    except SpecError as error:
        source.located(error)
        raise
    spec._where = source
    if not spec.topology.kind and not spec.topology.file:
        rule = 'needs a kind, such as kind = "leaf_spine", or a file = "x.graphml"'
        raise source.located(SpecError(rule, path="topology"))
    spec._check()
    if spec.scheme:
        spec.labels()
    if made_with is not None:
        spec.inputs.check(made_with, Path(base), name)
    return spec


def _as_read(content: Any) -> dict[str, Any]:
    """A dict as if it had been read from a file: a copy, tuples as lists."""
    if not isinstance(content, Mapping):
        raise SpecError("must be TOML text or a dict", path="spec", value=content)
    try:
        return dict(json.loads(json.dumps(content, default=str)))
    except (ValueError, TypeError, RecursionError) as error:  # a table within itself, keys that are no texts
        raise SpecError(f"is not a table of TOML ({error})", path="spec") from None
