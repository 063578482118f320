"""The state of a switch's data plane as arrays, and a switch with that state: what goes to another process.

To be called while the workers stand still.  Of an array that is used sparsely only the rows that are not zero are carried.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from penstock_net import pxd
from penstock_net.errors import PenstockError
from penstock_net.vswitch.support import layouts
from penstock_net.vswitch.support.blocks import Blocks
from penstock_net.vswitch.support.layouts import (
    carried_type,
    gathered,
    memory,
    offset_of,
    packed,
    scatter,
    set_fields,
    struct_type,
)

MOST_PORTS = pxd.read("vswitch/dataplane/state.pxd").constants["MOST_PORTS"]
OVERLAY_ROOM = pxd.read("vswitch/dataplane/overlay.pxd").constants["ROOM"] + 64
OF_QUEUES = ("free_queues", "flow_of", "unrung", "unrung_queues")  # arrays of a port, by queue
OF_PORTS = ("flows_from", "hand")  # by port
BUFFERS = ("incoming", "parts")  # of an overlay, in which a frame may wait


class Places:
    """Where the arrays of a switch are in this process."""

    def __init__(self, switch: Any) -> None:
        self.switch = switch
        self.workers = [memory(address, struct_type("Worker"))[0] for address in switch.places]
        self.ports = {number: region.shape["queues"] for number, region in switch.regions.items()}

    def port(self, k: int, number: int) -> int:
        first = self.switch.places[k] + offset_of("Worker", "ports")
        return int(first + number * struct_type("SwitchPort").itemsize)

    def dense(self) -> dict[str, np.ndarray]:
        """Arrays that are carried whole, by name."""
        found: dict[str, np.ndarray] = {}
        for k, worker in enumerate(self.workers):
            found[f"worker {k}"] = memory(self.switch.places[k], carried_type("Worker"))
            found |= _array(f"timers {k}", worker["timers"], carried_type("Timer"), worker["timer_count"])
            top = int(worker["flow_top"])
            skipped = 4 * (int(worker["flow_room"]) - top)
            found |= _array(f"free flows {k}", worker["free_flows"] + skipped, "i4", top)
        for number, driver in self.switch.drivers.items():
            found |= self._of_driver(number, driver)
        return found

    def numbers(self) -> dict[str, tuple[np.ndarray, Any]]:
        """Arrays of numbers, by name, and what they are in a switch that has done nothing: of these what differs is carried."""
        found: dict[str, tuple[np.ndarray, Any]] = {}
        for k in range(len(self.workers)):
            for number, queues in self.ports.items():
                own = self._of_port(k, number, queues)
                found |= {name: (array, 0) for name, array in own.items()}
                name = f"port {number} at {k}: free_queues"
                found[name] = own[name], _first_numbers(queues, k, len(self.workers))
        for number, driver in self.switch.drivers.items():
            name, queues = f"driver {number}", self.ports[number]
            state = memory(driver.place, struct_type("Driver"))[0]
            (free,) = _array(name, state["free_tx_flows"], "i4", queues).values()
            (returned,) = _array(name, state["returned"], "i8", queues + 1).values()
            found[f"{name}: free_tx_flows"] = free, _first_numbers(queues, 0, 1)
            found[f"{name}: returned"] = returned, 0
        return found

    def structs(self) -> dict[str, dict[str, int]]:
        """The structs of which each port has some: by type the addresses, by name."""
        drivers = self.switch.drivers.items()
        ports = {f"port {number} at {k}": self.port(k, number) for k in range(len(self.workers)) for number in self.ports}
        kernels = {f"driver {number}: kernel": driver.kernel.place for number, driver in drivers}
        kernels |= {f"driver {number}: absent": driver.absent_place for number, driver in drivers}
        of_drivers = {f"driver {number}": driver.place for number, driver in drivers}
        return {"SwitchPort": ports, "Driver": of_drivers, "KernelPort": kernels}

    def _of_port(self, k: int, number: int, queues: int) -> dict[str, np.ndarray]:
        address, name = self.port(k, number), f"port {number} at {k}"
        port = memory(address, struct_type("SwitchPort"))[0]
        found: dict[str, np.ndarray] = {}
        for key in OF_QUEUES:
            found |= _array(f"{name}: {key}", port[key], "i4", queues)
        for key in OF_PORTS:
            found |= _array(f"{name}: {key}", port[key], "i4", MOST_PORTS)
        return found

    def _of_driver(self, number: int, driver: Any) -> dict[str, np.ndarray]:
        name = f"driver {number}"
        state = memory(driver.place, struct_type("Driver"))[0]
        found: dict[str, np.ndarray] = {}
        if state["cuts"]:
            found |= _array(f"{name}: cutting", state["cutting"], carried_type("Cutting"), 1)
        if state["overlay"]:
            found |= _array(f"{name}: overlay", state["overlay"], carried_type("Overlay"), 1)
            for key in BUFFERS:
                found |= _array(f"{name}: {key}", self.overlay(driver)[key], "i1", OVERLAY_ROOM)
        return found

    def overlay(self, driver: Any) -> Any:
        return memory(int(memory(driver.place, struct_type("Driver"))[0]["overlay"]), struct_type("Overlay"))[0]

    def sparse(self) -> dict[str, np.ndarray]:
        """Arrays of which some rows are carried, by name."""
        found: dict[str, np.ndarray] = {}
        for k, worker in enumerate(self.workers):
            found |= _array(f"flows {k}", worker["flows"], carried_type("Flow"), worker["flow_top"])
            for number, queues in self.ports.items():
                txqs = memory(self.port(k, number), struct_type("SwitchPort"))[0]["txqs"]
                if number in self.switch.drivers:  # which fills the first of them only
                    queues = memory(self.switch.drivers[number].place, struct_type("Driver"))[0]["queue_top"]
                found |= _array(f"port {number} at {k}: txqs", txqs, carried_type("TxQueue"), queues)
        for number, driver in self.switch.drivers.items():
            name, queues = f"driver {number}", self.ports[number]
            state = memory(driver.place, struct_type("Driver"))[0]
            found |= _array(f"{name}: txqs", state["side"]["txqs"], carried_type("TxQueue"), queues)
            found |= _array(f"{name}: tx_flows", state["tx_flows"], carried_type("TxFlow"), state["queue_top"])
            found |= _array(f"{name}: rxqs", state["rxqs"], carried_type("RxQueueState"), queues)
            found |= _array(f"{name}: names", state["outgoing"]["keys"], carried_type("Key"), queues)
        return found


@cache
def _first_numbers(queues: int, k: int, workers: int) -> np.ndarray:
    """The numbers of the queues of a worker, as they are dealt out; 0 behind them."""
    found = np.zeros(queues, "i4")
    own = [number for number in reversed(range(queues)) if number % workers == k]
    found[: len(own)] = own
    return found


def _array(name: str, address: Any, kind: Any, count: Any) -> dict[str, np.ndarray]:
    """The array at an address, by its name; none at the address 0."""
    return {name: memory(int(address), kind, int(count))} if address and count else {}


def pack(switch: Any, blocks: Blocks, sizes: dict[str, int]) -> dict[str, Any]:
    """Add the state of a switch; returns what is no array."""
    layouts.check(sizes)
    places = Places(switch)
    for kind, addresses in places.structs().items():
        rows = packed(gathered(kind, addresses.values()))
        for i, name in enumerate(addresses):
            blocks.add(name, rows[i : i + 1])
    for name, array in places.dense().items():
        blocks.add(name, packed(array) if array.dtype.names else array)
    for name, array in places.sparse().items():
        rows = _used(array)
        if len(rows):
            blocks.add(f"{name}: rows", rows)
            blocks.add(name, packed(array[rows]))
    for name, (array, first) in places.numbers().items():
        rows = np.flatnonzero(array != first)
        if len(rows):
            blocks.add(f"{name}: rows", rows)
            blocks.add(name, array[rows])
    pointers = {}
    for number, driver in switch.drivers.items():
        state = memory(driver.place, struct_type("Driver"))[0]
        if state["overlay"]:
            pointers[number] = _pointers(places.overlay(driver), int(state["side"]["view"]["base"]))
        if words := driver.station_words():
            blocks.add(f"driver {number}: stations", np.array(words, "u8"))
    return {
        "serial": switch.serial,
        "overlays": pointers,
        "drivers": {number: driver.counted() for number, driver in switch.drivers.items()},
        "detached": switch.detached,
        "totals": switch.totals,
        "ledger": {"now": switch.ledger.now, "gone": switch.ledger.gone},
    }


def _used(array: np.ndarray) -> np.ndarray:
    """The rows that are not zero."""
    words = array.view("u8" if array.itemsize % 8 == 0 else "u4" if array.itemsize % 4 == 0 else "u1")
    return np.unique(np.flatnonzero(words) // (array.itemsize // words.itemsize))


def _pointers(overlay: Any, region: int) -> dict[str, Any]:
    """The pointers of an overlay as offsets: the frame that is held, in a buffer, and the one being sent, in the region."""
    found: dict[str, Any] = {}
    if overlay["held_length"]:
        key = next(key for key in BUFFERS if 0 <= int(overlay["held"]) - int(overlay[key]) < OVERLAY_ROOM)
        found["held"] = [key, int(overlay["held"]) - int(overlay[key])]
    if overlay["sending"]:
        found["sending"] = int(overlay["sending"]) - region
    return found


def _joined(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of the same type, one after another."""
    return np.frombuffer(b"".join([row.tobytes() for row in rows]), rows[0].dtype)


def unpack(switch: Any, found: Mapping[str, Any], blocks: Mapping[str, np.ndarray], sizes: dict[str, int]) -> None:
    """Give this state to a switch that has the same ports, with the same numbers, and whose workers have not begun."""
    layouts.check(sizes)
    places = Places(switch)
    for k, worker in enumerate(places.workers):
        set_fields(memory(switch.places[k], carried_type("Worker")), blocks[f"worker {k}"])
        if worker["timer_count"] > worker["timer_room"]:
            raise PenstockError(f"{worker['timer_count']} timers; there is room for {worker['timer_room']}")
    for kind, addresses in places.structs().items():
        names = [name for name in addresses if name in blocks]
        if names:
            rows = gathered(kind, [addresses[name] for name in names])
            set_fields(rows, _joined([blocks[name] for name in names]))
            scatter(rows, [addresses[name] for name in names])
    for name, array in places.dense().items():
        if name not in blocks:
            continue
        if array.dtype.names:
            set_fields(array, blocks[name])
        else:
            array[:] = blocks[name]
    for name, array in places.sparse().items():
        if name in blocks:
            set_fields(array, blocks[name], blocks[f"{name}: rows"])
    for name, (array, _) in places.numbers().items():
        if name in blocks:
            array[blocks.get(f"{name}: rows", slice(None))] = blocks[name]
    for number, driver in switch.drivers.items():
        driver.set_counted(found["drivers"][str(number)])
        driver.find_names(switch)
        if (name := f"driver {number}: stations") in blocks:
            driver.take_stations(blocks[name].tolist())
        if pointers := found["overlays"].get(str(number)):
            overlay = places.overlay(driver)
            if "held" in pointers:
                key, offset = pointers["held"]
                overlay["held"] = overlay[key] + offset
            if "sending" in pointers:
                base = memory(driver.place, struct_type("Driver"))[0]["side"]["view"]["base"]
                overlay["sending"] = base + pointers["sending"]
    switch.find_flows()
    switch.serial = found["serial"]
    switch.detached.extend(found["detached"])
    switch.totals.update(found["totals"])
    switch.ledger.take(found["ledger"])
