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
        str | None,
        typer.Option(help="goal, chakra, simai, astra, aicb, htsim or nccl; default: by the content.", show_default=False),
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
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of --placement random; default: 1.", show_default=False)
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(metavar="N", help="Ranks of a workload of SimAI, ASTRA-sim or AICB that does not say.", show_default=False),
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
    connections: Annotated[
        str | None,
        typer.Option(
            help="Which messages from a rank to another share a path, congestion state and sequence: pair (all), channel (those "
            "of a tag), message (none); default: pair, for htsim message.",
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(metavar="N", help="Hosts of a server, joined by a switch of their own (NVSwitch).", show_default=False),
    ] = None,
    all_reduce: Annotated[
        str | None,
        typer.Option(
            help="Algorithm of all-reduces: ring, halving_doubling, tree, two_level; default: ring.", show_default=False
        ),
    ] = None,
    all_to_all: Annotated[
        str | None,
        typer.Option(help="Algorithm of all-to-alls: direct, pairwise, pxn; default: direct.", show_default=False),
    ] = None,
    sendrecv: Annotated[
        str | None,
        typer.Option(help="How messages go: direct, or pxn, within the server first; default: direct.", show_default=False),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="What starting a message takes, or ll, ll128, simple: as SimAI has it for this protocol of NCCL; default: 0.",
            show_default=False,
        ),
    ] = None,
    concurrent: Annotated[
        bool,
        typer.Option("--concurrent", help="Kernels and collectives of a rank of a Chakra trace may overlap."),
    ] = False,
    missing_parents: Annotated[
        bool,
        typer.Option("--missing-parents", help="Nodes of a Chakra trace do not wait for nodes that are not in it."),
    ] = False,
) -> None:
    """Convert a trace of another program to flows that wait for one another, for `kind = "flows"` of a [[workload]].

    Reads GOAL (text and binary), Chakra ET, workloads of SimAI, ASTRA-sim 1.0 and AICB, connection matrices of htsim, logs of
    NCCL; `penstock formats` lists what else is known. What a
    trace says that flows do not have is listed; what cannot be converted is an error with its place, and so is an option that the
    trace does not use or contradicts. A Parquet file has the operations of the ranks, too: runs of it report collectives, steps
    and ranks.

    Example:

        penstock convert step.goal step.parquet --placement strided --hosts 64 --rack 16
    """
    from collections import Counter

    from penstock_net.errors import SpecError
    from penstock_net.stderr import say
    from penstock_net.units import format_size
    from penstock_net.workload.flowfile import flows_to_csv, flows_to_parquet
    from penstock_net.workload.operations import COMPUTE, SEND
    from penstock_net.workload.traces import convert

    writers = {".parquet": flows_to_parquet, ".csv": flows_to_csv}
    if out.suffix not in writers:
        raise SpecError("must end in .parquet or .csv", path="OUT", value=str(out))
    made = convert(
        source,
        format=format,
        placement=placement,
        hosts=hosts,
        rack=rack,
        seed=seed,
        ranks=ranks,
        groups=groups,
        eager=eager,
        concurrent=concurrent,
        missing_parents=missing_parents,
        connections=connections,
        gpus=gpus,
        all_reduce=all_reduce,
        all_to_all=all_to_all,
        sendrecv=sendrecv,
        latency=latency,
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
