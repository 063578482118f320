"""The state of a switch's data plane as arrays, and a switch with that state: what goes to another process.

To be called while the workers stand still.  Of an array that is used sparsely only the rows that are not zero are carried.
"""

from collections.abc import Mapping
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
            for number, queues in self.ports.items():
                found |= self._of_port(k, number, queues)
        for number, driver in self.switch.drivers.items():
            found |= self._of_driver(number, driver)
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
        name, queues = f"driver {number}", self.ports[number]
        state = memory(driver.place, struct_type("Driver"))[0]
        found = _array(f"{name}: free_tx_flows", state["free_tx_flows"], "i4", queues)
        found |= _array(f"{name}: returned", state["returned"], "i8", queues + 1)
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
                found |= _array(f"port {number} at {k}: txqs", txqs, carried_type("TxQueue"), queues)
        for number, driver in self.switch.drivers.items():
            name, queues = f"driver {number}", self.ports[number]
            state = memory(driver.place, struct_type("Driver"))[0]
            found |= _array(f"{name}: txqs", state["side"]["txqs"], carried_type("TxQueue"), queues)
            found |= _array(f"{name}: tx_flows", state["tx_flows"], carried_type("TxFlow"), state["queue_top"])
            found |= _array(f"{name}: rxqs", state["rxqs"], carried_type("RxQueueState"), queues)
            found |= _array(f"{name}: names", state["outgoing"]["keys"], carried_type("Key"), queues)
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
            set_fields(rows, np.concatenate([blocks[name] for name in names]))
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

