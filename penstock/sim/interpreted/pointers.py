"""The functions of sim/core/pointers.pxd, on objects instead of memory."""

from typing import Any

import numpy as np

from penstock.sim.interpreted.schemes import AREAS, area


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
    from penstock.fabric.state import Places

    me.at = Places()
    for owner, offset in places.items():
        setattr(me.at, owner, offset)
    me.at.index, me.at.bit, me.at.kind, me.at.world = index, 1 << index, kind, world


def set_parameter(me: Any, offset: int, kind: str, value: Any) -> None:
    setattr(me, me.fields[offset][0], list(value) if isinstance(value, tuple) else value)


def put_table(world: Any, owner: Any, offset: int, count: int, size: int) -> None:
    name, make = owner.fields[offset]
    setattr(owner, name, [make() for _ in range(count)])
    setattr(owner, name + "_count", count)


put_own_table = put_table


def clear_area(owner: Any, size: int, tables: list[tuple[str, int, int, int]]) -> None:
    owner.__init__()
    for _, offset, count, element in tables:
        put_table(None, owner, offset, count, element)


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


def new_hook(kind: str, function: Any, me: Any) -> Any:
    from penstock.fabric import state

    hook = getattr(state, kind)()
    hook.call, hook.me = function, me
    return hook


def append_hook(ops: Any, name: str, hook: Any) -> None:
    if not getattr(ops, name):
        setattr(ops, name, hook)
        return
    last = getattr(ops, name)
    while last.next:
        last = last.next
    last.next = hook


def add_frame_hook(world: Any, function: Any, me: Any, kind: int) -> None:
    world.host_ops.on_control[kind] = world.switch_ops.on_control[kind] = new_hook("FrameHook", function, me)


def add_timer_hook(world: Any, function: Any, me: Any, index: int) -> None:
    world.host_ops.on_timer[index] = world.switch_ops.on_timer[index] = new_hook("TimerHook", function, me)


def add_queue_hook(world: Any, name: str, function: Any, me: Any) -> None:
    append_hook(world.switch_ops, name, new_hook("QueueHook", function, me))


def add_packet_hook(world: Any, enqueue: bool, function: Any, me: Any) -> None:
    append_hook(world.switch_ops, "on_enqueue" if enqueue else "on_dequeue", new_hook("PacketHook", function, me))


def add_flow_hook(world: Any, name: str, function: Any, me: Any) -> None:
    append_hook(world.host_ops, name, new_hook("FlowHook", function, me))


SINGLE_HOOKS = {
    "next_queue": "ServeHook",
    "rank_packet": "RankHook",
    "on_drop": "FrameHook",
    "on_data": "DataHook",
    "on_flow_timer": "IncomingHook",
    "choose_packet": "OffsetHook",
    "on_timeout": "TimeoutHook",
}


def add_single_hook(world: Any, name: str, function: Any, me: Any) -> None:
    hook = new_hook(SINGLE_HOOKS[name], function, me)
    if name != "rank_packet":
        setattr(world.host_ops, name, hook)
    if name in ("next_queue", "on_drop", "rank_packet"):
        setattr(world.switch_ops, name, hook)


def set_fabric_hooks(world: Any) -> None:
    from penstock.fabric.switch import enqueue, transmit, wake
    from penstock.sim.core.engine import deliver
    from penstock.sim.core.kept import keep_if_paused
    from penstock.sim.core.receiver import find_incoming, look_up_incoming
    from penstock.sim.core.sender import go_back, reschedule, transmit_host, wake_flows

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
    from penstock.fabric.ranking import rank_dequeued, rank_enqueued

    add_packet_hook(world, True, rank_enqueued, None)
    add_packet_hook(world, False, rank_dequeued, None)


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
    from penstock.fabric.state import Start

    out = []
    for row in array:
        start = Start()
        for name in array.dtype.names:
            setattr(start, name, int(row[name]))
        out.append(start)
    return out


def rows_of(worker: Any, name: str, forget: bool) -> bytes:
    log = getattr(worker, name + "_rows")
    if not log:
        return b""
    formats = type(log[0]).formats
    table = np.zeros(len(log), dtype=np.dtype(list(formats.items()), align=True))
    for field in formats:
        table[field] = [getattr(row, field) for row in log]
    if forget:
        log.clear()
    return bytes(table.tobytes())


def log_bytes(worker: Any) -> int:
    return sum(len(rows_of(worker, name, False)) for name in ("switch", "port", "queue", "flow", "pause", "trace"))


def run_released(worker: Any, count: int) -> None:
    from penstock.sim.core.engine import run_windows

    run_windows(worker, count)


def free_world(world: Any) -> None:
    pass
