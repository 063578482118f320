"""penstock convert"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A trace: a file, or the folder of a Chakra trace.", show_default=False)
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file of flows: .parquet or .csv.", show_default=False)],
    format: Annotated[
        str | None, typer.Option(help="goal, chakra, simai, htsim or nccl; default: by the content.", show_default=False)
    ] = None,
    placement: Annotated[
        str, typer.Option(help="Host of a rank: packed (its own number), strided (rank after rank in another rack), random.")
    ] = "packed",
    hosts: Annotated[
        int | None, typer.Option(metavar="N", help="Hosts of the network; default: as many as ranks.", show_default=False)
    ] = None,
    rack: Annotated[
        int | None, typer.Option(metavar="N", help="Hosts of a rack, for --placement strided.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of --placement random.")] = 1,
    ranks: Annotated[
        int | None, typer.Option(metavar="N", help="Ranks of a SimAI workload that does not say.", show_default=False)
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="JSON: ranks of the process groups of a Chakra trace, by name.", show_default=False),
    ] = None,
    eager: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            help="A send of at most so many bytes is done at once, others when acknowledged; default: 65535 for GOAL, else 0.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Convert a trace of another program to flows that wait for one another, for `kind = "flows"` of a [[workload]].

    Reads GOAL (text and binary), Chakra ET, workloads of SimAI and AICB, connection matrices of htsim, and logs of NCCL. What a
    trace says that flows do not have is listed; what cannot be converted is an error with its place. A Parquet file has the
    operations of the ranks, too: runs of it report collectives, steps and ranks.

    Example:

        penstock convert step.goal step.parquet --placement strided --hosts 64 --rack 16
    """
    from collections import Counter

    from penstock.cli._output import say
    from penstock.errors import SpecError
    from penstock.units import format_size
    from penstock.workload.flowfile import flows_to_csv, flows_to_parquet
    from penstock.workload.operations import COMPUTE, SEND
    from penstock.workload.traces import convert

    writers = {".parquet": flows_to_parquet, ".csv": flows_to_csv}
    if out.suffix not in writers:
        raise SpecError("must end in .parquet or .csv", path="OUT", value=str(out))
    made = convert(
        source, format=format, placement=placement, hosts=hosts, rack=rack, seed=seed, ranks=ranks, groups=groups, eager=eager
    )
    writers[out.suffix](made.flows, out)
    for sentence, count in made.notes.items():
        say(f"not in the flows: {sentence} ({count})")
    assert made.flows.operations is not None
    kinds = Counter(operation.kind for operation in made.flows.operations.listed)
    collectives = kinds.total() - kinds[COMPUTE] - kinds[SEND]
    messages = int((~made.flows.computes).sum())
    typer.echo(
        f"written to {out}: {messages:,} messages of {format_size(int(made.flows.bytes.sum()))} in total, "
        f"{collectives:,} collectives and {kinds[COMPUTE]:,} computations, from {made.ranks:,} ranks ({made.format})"
    )
