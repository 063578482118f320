"""Runs of many seeds, in several processes."""

from collections.abc import Generator, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.processes import each
from penstock_net.vswitch.simulation.pair_run import simulate_pair
from penstock_net.vswitch.simulation.run import Found, simulate

AT_ONCE = 8  # seeds that a process is given
KEPT = 2000  # seeds whose results are kept at a time: a million may be asked for
WORTH = 32  # seeds for which it is worth while to start another process


def run_seeds(seeds: range, duration: str | int, pair: bool = False, content: Mapping[str, Any] | None = None) -> list[Found]:
    """What each seed gives, up to the first that breaks a law."""
    found: list[Found] = []
    for seed in seeds:
        found.append(simulate_pair(seed, duration) if pair else simulate(seed, duration, content=content))
        if found[-1].failure:
            break
    return found


def run_many(
    seeds: range, duration: str | int, pair: bool = False, content: Mapping[str, Any] | None = None, *, workers: int
) -> Generator[Found, None, None]:
    """What each seed gives, in their order, from so many processes; after the first that breaks a law there may be no more.

    PenstockError: one of the processes was killed, or has died of a run.
    """
    if min(workers, len(seeds) // WORTH) < 2:
        for i in range(len(seeds)):
            yield from run_seeds(seeds[i : i + 1], duration, pair, content)
        return
    for first in range(0, len(seeds), KEPT):
        here = seeds[first : first + KEPT]
        parts = [here[i : i + AT_ONCE] for i in range(0, len(here), AT_ONCE)]
        ended: dict[int, Future[list[Found]]] = {}
        following = 0
        for i, future in each(run_seeds, [(i, (part, duration, pair, content)) for i, part in enumerate(parts)], workers):
            ended[i] = future
            while following in ended:
                try:
                    found = ended.pop(following).result()
                except BrokenProcessPool:
                    seed = parts[following][0]
                    rule = f"a process has ended in the middle of seed {seed} or a later one: killed, or by its run"
                    raise PenstockError(f"{rule}; --seed {seed} --workers 1 shows of which") from None
                yield from found
                following += 1
