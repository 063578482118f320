"""The functions of sim/core/pointers.pxd, on objects instead of memory."""
# pyright: reportAttributeAccessIssue=false
# the core's C functions, imported as Python

from typing import Any

import numpy as np

from penstock_net.composition.hooks import HOOKS
from penstock_net.sim.interpreted.schemes import AREAS, area

LOGS = ("switch", "port", "queue", "flow", "pause", "trace", "count", "record", "print")


def hook_of(module: Any, name: str) -> Any:
    return getattr(module, name)


# ---- A scheme's own struct ----


def new_me(world: Any, part: Any) -> Any:
    if part.index == 0:
        AREAS.clear()
    for owner, made in part.module.AREAS.items():
        if part.declared.state[owner].fields:
            AREAS[owner, part.places[owner]] = made
    return part.module.Me()


def set_places(world: Any, me: Any, places: dict[str, int], index: int, kind: int) -> None:
    from penstock_net.fabric.state import Places

    me.at = Places()
    for owner, offset in places.items():
        setattr(me.at, owner, offset)
    me.at.index, me.at.bit, me.at.kind, me.at.world = index, 1 << index, kind, world


def set_parameter(me: Any, offset: int, kind: str, value: Any) -> None:
    setattr(me, me.fields[offset][0], list(value) if isinstance(value, tuple) else value)


class Table(dict[int, Any]):
    """A zeroed table whose elements are made when they are first used: most never are."""

    def __init__(self, make: Any, count: int) -> None:
        super().__init__()
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __missing__(self, index: int) -> Any:
        made = self[index] = self.make()
        return made


def put_table(world: Any, owner: Any, offset: int, count: int, size: int) -> None:
    name, make = owner.fields[offset]
    setattr(owner, name, Table(make, count))
    setattr(owner, name + "_count", count)


put_own_table = put_table


def clear_area(owner: Any, size: int, tables: list[tuple[str, int, int, int]]) -> None:
    kept = {name: getattr(owner, name) for at, (name, _) in owner.fields.items() if at >= size}
    owner.__init__()
    for name, value in kept.items():
        setattr(owner, name, value)
    for _, offset, count, element in tables:
        put_table(None, owner, offset, count, element)


def fields_of(record: Any, owner: Any) -> dict[str, Any]:
    found = {}
    for field in record.fields:
        value = getattr(owner, field.name)
        elements = [value[i] for i in range(len(value))] if field.length else [value]
        elements = [fields_of(field.record, element) if field.is_record else element for element in elements]
        found[field.name] = elements if field.length else elements[0]
    return found


def node_area(node: Any, offset: int) -> Any:
    return area(node, "node", offset)


def port_area(port: Any, offset: int) -> Any:
    return area(port, "port", offset)


def queue_area(queue: Any, offset: int) -> Any:
    return area(queue, "queue", offset)


def me_of(me: Any) -> Any:
    return me


def me_at(me: Any) -> Any:
    return me


# ---- Hooks ----


def add_hook(ops: Any, world: Any, name: str, function: Any, me: Any, place: int) -> None:
    from penstock_net.fabric import state

    made = getattr(state, HOOKS[name].kind)()
    made.call, made.me = function, me
    if HOOKS[name].by:
        getattr(ops, name)[place] = made
        return
    last = getattr(ops, name)
    if not last:
        setattr(ops, name, made)
        return
    while last.next:
        last = last.next
    last.next = made


def set_fabric_hooks(world: Any) -> None:
    from penstock_net.fabric.switch import enqueue, transmit, wake
    from penstock_net.sim.core.engine import deliver
    from penstock_net.sim.core.kept import keep_if_paused
    from penstock_net.sim.core.receiver import find_incoming, look_up_incoming
    from penstock_net.sim.core.sender import go_back, reschedule, transmit_host, wake_flows

    world.host_ops.store.call = world.switch_ops.store.call = world.plain_ops.store.call = enqueue
    world.host_ops.reschedule.call, world.host_ops.go_back.call = reschedule, go_back
    world.host_ops.find_incoming.call = find_incoming
    world.host_ops.keep.call = keep_if_paused
    world.host_ops.look_up_incoming.call = look_up_incoming
    world.host_ops.transmit.call, world.host_ops.wake.call = transmit_host, wake_flows
    world.switch_ops.transmit.call, world.switch_ops.wake.call = transmit, wake
    world.plain_ops.transmit.call, world.plain_ops.wake.call = transmit, wake
    world.host_ops.deliver.call = world.switch_ops.deliver.call = world.plain_ops.deliver.call = deliver


def add_ranking(world: Any) -> None:
    from penstock_net.fabric.ranking import rank_dequeued, rank_enqueued
    from penstock_net.fabric.state import QUEUED

    for ops in (world.switch_ops, world.host_ops) if world.ranked == QUEUED else (world.switch_ops,):
        add_hook(ops, world, "on_enqueue", rank_enqueued, None, 0)
        add_hook(ops, world, "on_dequeue", rank_dequeued, None, 0)


def add_counting(world: Any) -> None:
    from penstock_net.fabric.recording import count_flow

    if world.counted_count:
        add_hook(world.host_ops, world, "on_finish", count_flow, None, 0)


def add_first(world: Any, name: str) -> None:
    from penstock_net.fabric import state
    from penstock_net.fabric.pinned import choose_pinned, choose_turn

    for ops in (world.switch_ops, world.plain_ops):
        made = state.QueueHook()
        made.call, made.next = choose_pinned if name == "pins" else choose_turn, ops.choose_path
        ops.choose_path = made


def add_reduction(world: Any) -> None:
    from penstock_net.fabric.reduction import reduce
    from penstock_net.fabric.state import REDUCED
    from penstock_net.sim.core.sums import receive_sum

    add_hook(world.host_ops, world, "on_control", receive_sum, None, REDUCED)
    for ops in (world.switch_ops, world.plain_ops):
        add_hook(ops, world, "on_control", reduce, None, REDUCED)


def call_set_up(function: Any, me: Any) -> None:
    function(me)


def call_set_up_node(function: Any, me: Any, node: Any) -> None:
    function(me, node)


def call_set_up_port(function: Any, me: Any, node: Any, port: Any) -> None:
    function(me, node, port)


# ---- Tables and logs ----


def int8_table(array: Any) -> Any:
    return array.tolist()


int16_table = int32_table = int8_table


def int64_table(array: Any) -> Any:
    """The array itself, since the core writes into it."""
    return array


def node_counter_table(array: Any) -> Any:
    """The array itself, the fields of its rows as attributes."""
    return array.view(np.recarray)


port_counter_table = node_counter_table


def fault_of(worker: Any) -> None:
    """Nothing: a fault in an interpreted scheme is an exception."""


def flow_results(world: Any) -> Any:
    return world.results


def start_table(array: Any) -> list[Any]:
    from penstock_net.fabric.state import Start

    return [filled(Start(), row) for row in array]


def connection_table(array: Any) -> list[Any]:
    from penstock_net.fabric.state import Connection

    return [filled(Connection(), row) for row in array]


def message_table(array: Any) -> list[Any]:
    from penstock_net.fabric.state import Message

    return [filled(Message(), row) for row in array]


def recorded_table(array: Any) -> list[Any]:
    from penstock_net.fabric.state import Recorded

    return [filled(Recorded(), row) for row in array]


def seat_table(array: Any) -> list[Any]:
    from penstock_net.fabric.state import Seat

    return [filled(Seat(), row) for row in array]


def filled(thing: Any, row: np.void) -> Any:
    """The struct with the numbers of the row of that name."""
    for name in row.dtype.names or ():
        setattr(thing, name, int(row[name]))
    return thing


def rows_of(worker: Any, name: str, forget: bool) -> bytes:
    log = getattr(worker, name + "_rows")
    if not log:
        return b""
    table = np.zeros(len(log), dtype=row_type(log))
    for field in type(log[0]).formats:
        table[field] = [getattr(row, field) for row in log]
    if forget:
        log.clear()
    return bytes(table.tobytes())


def log_bytes(worker: Any) -> int:
    logs = (getattr(worker, name + "_rows") for name in LOGS)
    return sum(len(log) * row_type(log).itemsize for log in logs if log)


def row_type(log: list[Any]) -> np.dtype[Any]:
    return np.dtype(list(type(log[0]).formats.items()), align=True)


def run_released(worker: Any, count: int) -> None:
    from penstock_net.sim.core.engine import run_windows

    run_windows(worker, count)


def free_world(world: Any) -> None:
    pass
