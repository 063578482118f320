"""Builds the core's state of one run from plain arrays and runs it in chunks.  The only module of the core called by Python."""

import cython
import numpy as np

from penstock_net import pxd

if not cython.compiled:
    from penstock_net.fabric.rows import node_counters_at, port_counters_at
    from penstock_net.fabric.sampling import catch_up, start_sampling
    from penstock_net.fabric.state import (
        CONTROL,
        KEY_BITS,
        MOST_LEVELS,
        NEVER,
        NO_PACKET,
        bit,
        host_ops,
        new_arena,
        node_at,
        plain_ops,
        port_at,
        save_memory,
        seat_at,
        switch_ops,
        worker_at,
    )
    from penstock_net.fabric.tables import (
        flow_bytes,
        incoming_bytes,
        new_flows,
        new_int64,
        new_masks,
        new_nodes,
        new_outboxes,
        new_rankings,
        new_workers,
        new_world,
        node_bytes,
        packet_bytes,
        port_bytes,
        queue_bytes,
        rank_bytes,
    )
    from penstock_net.sim.core.agenda import forget_end, new_agenda, next_time, set_time
    from penstock_net.sim.core.flow_setter import set_flow_result
    from penstock_net.sim.core.lifetimes import set_start_timer
    from penstock_net.sim.core.moves import move_flows
    from penstock_net.sim.core.nodes import (
        active_flows_of,
        begin_acks,
        clear_queues,
        count_node,
        count_port,
        counts_of,
        empty_switch,
        flow_counts_of,
        flow_samples_of,
        go_on,
        guide,
        link,
        new_nic,
        new_node,
        own_scheduling,
        plant,
        queueing_of,
        record_fields,
        restart_maxima_of,
        set_loss,
        set_rate,
        set_state,
        stopped_queues_of,
        totals_of,
        watch_hosts,
    )
    from penstock_net.sim.core.pointers import (
        add_counting,
        add_hook,
        add_ranking,
        call_set_up,
        call_set_up_node,
        call_set_up_port,
        clear_area,
        connection_table,
        fault_of,
        fields_of,
        flow_results,
        free_world,
        hook_of,
        int8_table,
        int16_table,
        int32_table,
        int64_table,
        log_bytes,
        me_at,
        me_of,
        message_table,
        new_me,
        node_area,
        node_counter_table,
        port_area,
        port_counter_table,
        put_own_table,
        put_table,
        rows_of,
        run_released,
        set_fabric_hooks,
        set_parameter,
        set_places,
        start_table,
    )
    from penstock_net.sim.core.retries import act_on_retry

ROWS = pxd.read("fabric/rows.pxd")
NODE_COUNTERS = np.dtype(ROWS.dtype("NodeCounters"), align=True)
PORT_COUNTERS = np.dtype(ROWS.dtype("PortCounters"), align=True)
MANY_NODES = 4096  # a network with more of them has memory only for what is in use


class Simulation:
    """One run.  `shape` and `settings` are dicts of integers (see sim/builder.py); `composition` comes from Scheme.compose."""

    def __init__(self, shape, settings, composition):
        arena = new_arena()
        world = new_world(arena)
        self.world = world
        self.kept, self.installed = [], []
        self.kept_starts = self.kept_routes = None
        world.arena = arena
        world.host_count, world.node_count = shape["hosts"], shape["nodes"]
        if world.node_count > MANY_NODES:
            save_memory(arena)
        world.worker_count = settings["threads"]
        world.port_words = (int(max(shape["degrees"])) + 63) // 64
        world.window = shape["window"]
        world.grid, world.grain, world.retries = shape["grid"], settings["grain"], shape["retries"]
        world.base_rtt, world.bdp = shape["base_rtt"], shape["bdp"]
        world.mtu, world.header = settings["mtu"], settings["header"]
        world.quantum = settings["mtu"] + settings["header"]
        world.ack_min, world.control = settings["ack"], settings["control"]
        world.ack_header = settings["ack_header"]
        world.nic_by_destination = composition.nic_by_destination
        world.nic_by_priority = composition.priorities > 0
        world.packets_differ = composition.packets_differ
        begin_acks(world, settings, composition)
        world.reordering = composition.reordering
        world.levels = composition.priorities or min(composition.queues, MOST_LEVELS)
        world.ranked, world.exact_rto, world.symmetric = composition.ranked, composition.exact_rto, composition.symmetric
        world.in_turn = world.served_apart = settings["in_turn"]
        world.rto, world.nack_interval = settings["rto"], settings["nack_interval"]
        world.pacing_debt = settings["pacing_debt"]
        world.seed, world.sample, world.count_flows = settings["seed"], settings["sample"], settings["count_flows"]
        world.sample_ports, world.sample_queues = settings["sample_ports"], settings["sample_queues"]
        world.sample_flows = settings["sample_flows"]
        record_fields(world, settings["counted"], settings["recorded"], settings["print_limit"])
        self.kept.append((settings["counted"], settings["recorded"]))
        world.log_pauses, world.trace = settings["log_pauses"], settings["trace"]
        world.scheme_count = len(composition.parts)
        sizes = composition.sizes
        world.workers = new_workers(arena, world.worker_count)
        world.nodes = new_nodes(arena, world.node_count, sizes["node"])
        world.node_size = sizes["node"]
        set_fabric_hooks(world)
        for number in range(world.node_count):
            queues = composition.nic_queues if number < world.host_count else composition.queues
            node = node_at(world, number)
            voqs = 0 if number < world.host_count else composition.voqs
            new_node(world, number, shape["degrees"][number], node, sizes["port"], sizes["queue"], queues, voqs)
            node.hash_seed = shape["node_seeds"][number]
            node.random_seed = shape["random_seeds"][number]
            node.tier, node.group = shape["tiers"][number], shape["groups"][number]
            node.clock = shape["clocks"][number]
            node.cut_through = shape["cut_through"][number]
            if shape["plain"][number]:
                node.ops = plain_ops(world)
            node.buffer_size = NEVER
            if node.is_host:
                new_nic(world, node, composition.nic_queues)
            elif not composition.unbounded and shape["buffers"][number - world.host_count]:
                node.buffer_size = shape["buffers"][number - world.host_count]
        for a, slot_a, b, slot_b, ps_per_byte, delay, near, loss, control_loss, label in shape["links"]:
            link(world, a, slot_a, b, slot_b, ps_per_byte, delay, near)
            up = (shape["tiers"][b] > shape["tiers"][a]) - (shape["tiers"][b] < shape["tiers"][a])
            for end, slot, sign in ((a, slot_a, 1), (b, slot_b, -1)):
                set_loss(port_at(node_at(world, end), slot), loss, control_loss)
                port_at(node_at(world, end), slot).up = sign * up
                port_at(node_at(world, end), slot).label = label
        self.set_workers(shape["workers"], settings["flow_limit"], settings["flow_parts"], sizes)
        self.set_routes(shape["routes"])
        if composition.rank_at:
            world.rank_at = composition.rank_at
            world.rankings = new_rankings(arena, world.port_count)
            add_ranking(world)
        for part in composition.parts:
            self.install(part)
        watch_hosts(world)
        add_counting(world)
        if world.sample:
            for number in range(world.node_count):
                self.begin_sampling(number)

    def __dealloc__(self):
        free_world(self.world)

    def begin_sampling(self, number):
        node = node_at(self.world, number)
        if not node.is_host or self.world.sample_ports or self.world.sample_flows or self.world.recorded_count:
            start_sampling(node)
            self.refresh_time(number)

    def complete_samples(self):
        """Take the samples of idle nodes that are due by now."""
        world = self.world
        if not world.sample:
            return
        worker = worker_at(world, 0)
        until = min(worker.window_start, world.horizon)
        if self.state()["over"]:
            until = worker.window_end
        for number in range(world.node_count):
            catch_up(node_at(world, number), until)

    def set_workers(self, agendas, flow_limit, parts, sizes):
        """Each worker takes its flows from one of the `parts` of a table, of flow_limit flows each; all may refer to any."""
        world = self.world
        flows = new_flows(world.arena, parts * flow_limit, sizes["flow"])
        world.mail_words = (world.node_count >> 12) + 1
        even = new_outboxes(world.arena, world.port_count)
        odd = new_outboxes(world.arena, world.port_count)
        for i in range(world.worker_count):
            worker = worker_at(world, i)
            worker.id, worker.world, worker.arena = i, world, world.arena
            worker.packet_size, worker.frame_size = sizes["packet"], sizes["frame"]
            worker.flow_size, worker.incoming_size = sizes["flow"], sizes["incoming"]
            worker.pool_size = max(16, 131072 // sizes["packet"])
            worker.pool_used, worker.flows = worker.pool_size, flows
            worker.flow_limit = parts * flow_limit
            worker.flows_used = i * flow_limit
            worker.flows_end = (i + 1) * flow_limit
            worker.outboxes[0] = even
            worker.outboxes[1] = odd
            for parity in range(2):
                worker.arrived_ports[parity] = new_masks(world.arena, world.node_count * world.port_words)
                worker.mailed[parity] = new_masks(world.arena, (world.node_count >> 6) + 1)
                worker.mailed_words[parity] = new_masks(world.arena, world.mail_words)
            worker.own = new_masks(world.arena, (world.node_count >> 6) + 1)
            above, steps, numbers = agendas[i]
            new_agenda(worker, above, steps, numbers)
        for number in range(world.node_count):
            node_at(world, number).worker.own[number >> 6] |= bit(number & 63)

    def set_routes(self, routes):
        """Routes by name of their arrays, see sim/builder.py; those before are not needed any more."""
        world = self.world
        self.kept_routes = routes
        world.host_class = int32_table(routes["host_class"])
        world.host_group = int32_table(routes["host_group"])
        columns = (routes["below"], routes["span"], routes["share"], routes["beyond"])
        for number, (below, span, share, beyond) in enumerate(zip(*columns)):
            node = node_at(world, number)
            node.below, node.span, node.share, node.beyond = below, span, share, beyond
            node.next_hops = int16_table(routes["next_hops"][number])
            if beyond < 0:
                node.routes = int32_table(routes["rows"][routes["row_of"][number]])

    def install(self, part):
        """Install a scheme: offsets of its fields, parameters, tables and hooks."""
        world = self.world
        me = new_me(world, part)
        set_places(world, me, part.places, part.index, CONTROL + part.index)
        for offset, _, kind, value in part.settings():
            set_parameter(me, offset, kind, value)
        for _, at, count, size in part.tables("scheme"):
            put_own_table(world, me, at, count, size)
        for name, at_hosts, at_switches, place in part.called(CONTROL):
            function = hook_of(part.module, name)
            if at_hosts:
                add_hook(host_ops(world), world, name, function, me, place)
            if at_switches:
                add_hook(switch_ops(world), world, name, function, me, place)
            if name == "next_queue":
                own_scheduling(world)
        if "set_up" in part.declared.hooks:
            call_set_up(hook_of(part.module, "set_up"), me)
        self.installed.append((part, me_of(me)))
        tables = {"port": part.tables("port")}
        for number in range(world.node_count):
            self.install_at(node_at(world, number).is_host, number, part, me_of(me), tables)

    def install_at(self, is_host, number, part, me, tables):
        """A scheme's tables and set-up at one node; ports and set-up only at switches that have schemes.

        `tables`: those known already.
        """
        world = self.world
        node = node_at(world, number)
        if (node.port_count, is_host) not in tables:
            tables[node.port_count, is_host] = part.tables("node", ports=node.port_count, switch=1 - is_host)
        for _, at, count, size in tables[node.port_count, is_host]:
            put_table(world, node_area(node, part.places["node"]), at, count, size)
        if is_host or node.ops == plain_ops(world):
            return
        for slot in range(node.port_count):
            port = port_at(node, slot)
            for _, at, count, size in tables["port"]:
                put_table(world, port_area(port, part.places["port"]), at, count, size)
        self.set_up_at(number, part, me)

    def set_up_at(self, number, part, me):
        """A scheme's set-up of a switch and its ports."""
        node = node_at(self.world, number)
        if "set_up_node" in part.declared.hooks:
            call_set_up_node(hook_of(part.module, "set_up_node"), me_at(me), node)
        if "set_up_port" in part.declared.hooks:
            for slot in range(node.port_count):
                call_set_up_port(hook_of(part.module, "set_up_port"), me_at(me), node, port_at(node, slot))

    def set_results(self, flow_count, tables):
        """Set the arrays for results by name (see results/columns.py): int64 by flow number, with their initial values."""
        self.kept.append(tables)
        self.world.flow_count = flow_count
        for name in tables:
            set_flow_result(flow_results(self.world), name, int64_table(tables[name]))

    def count_queueing(self, classes, class_count):
        """Count queueing times at every port of a switch by class of flow: `classes` int8, by flow number."""
        world = self.world
        self.kept.append(classes)
        world.classes = int8_table(classes)
        world.class_count = class_count
        for number in range(world.host_count, world.node_count):
            node = node_at(world, number)
            for slot in range(node.port_count):
                port_at(node, slot).queueing_delay = new_int64(world.arena, 2 * class_count)

    def label_flows(self, classes, label):
        """Let from_incast() be true of the flows of one class: `classes` int8, by flow number."""
        self.kept.append(classes)
        self.world.classes = int8_table(classes)
        self.world.label = label + 1

    def set_round_trips(self, times):
        """Base RTT of each flow: `times` int64, ps, by flow number."""
        self.kept.append(times)
        self.world.round_trips = int64_table(times)

    def queueing(self):
        """(node, port, class, packets, queueing time in ps) of every port of a switch and class of flow that it has sent."""
        world = self.world
        return [row for number in range(world.host_count, world.node_count) for row in queueing_of(node_at(world, number))]

    def set_dependencies(self, waiting, gaps, pending, child_offsets, children):
        world = self.world
        self.kept.append((waiting, gaps, pending, child_offsets, children))
        world.waiting = start_table(waiting)
        world.gaps = int64_table(gaps)
        world.pending = int32_table(pending)
        world.child_offsets = int32_table(child_offsets)
        world.children = int32_table(children)

    def set_connections(self, connection_of, connections, messages):
        """The connection of each flow; without room for `messages` (an empty array) they share a path only."""
        world = self.world
        self.kept.append((connection_of, connections, messages))
        world.connection_of = int32_table(connection_of)
        world.connections = connection_table(connections)
        if len(messages):
            world.messages = message_table(messages)

    def set_given(self, tables):
        """What was given to flows, by number, and to ports, as arrays by name: see sim/starts.py."""
        self.kept.append(tables)
        guide(self.world, tables)

    def set_reductions(self, seat_of, seats, parts, chunks, groups_wait):
        """Trees of switches that reduce what flows carry: the seat of each flow plus one, rows of Seat, and their counters."""
        self.kept.append((seat_of, seats, parts))
        plant(self.world, seat_of, seats, parts, chunks, groups_wait)

    def accumulators(self, count):
        """The most accumulators in use at once, by seat, of the first `count` seats."""
        return [seat_at(self.world, i).most for i in range(count)]

    def load_starts(self, starts, firsts):
        """The next batch of flows, sorted by host and start time; `firsts[h]:firsts[h + 1]` are those of host h."""
        world = self.world
        self.kept_starts = starts
        world.starts = start_table(starts)
        for number in range(world.host_count):
            host = node_at(world, number).host
            host.next_start = firsts[number]
            host.last_start = firsts[number + 1]
            self.refresh_start(number)

    def refresh_start(self, number):
        node = node_at(self.world, number)
        catch_up(node, self.world.horizon)
        set_start_timer(node)
        set_time(node.worker, node.place, NEVER if node.tree[1] == NEVER else node.tree[1] >> KEY_BITS)

    def run_until(self, horizon):
        """Set the horizon, ps: events before it are executed, none at or after it."""
        world = self.world
        world.horizon = horizon
        soonest = worker_at(world, 0).window_start
        for i in range(world.worker_count):
            soonest = min(soonest, next_time(worker_at(world, i)))
        for i in range(world.worker_count):
            worker_at(world, i).window_start = soonest
            worker_at(world, i).finished = 0
            forget_end(worker_at(world, i))

    def run(self, worker, windows):
        """Run this many windows of one worker, without the GIL; returns whether it has more to do before the horizon."""
        run_released(worker_at(self.world, worker), windows)
        return not worker_at(self.world, worker).finished and worker_at(self.world, worker).window_start < self.world.horizon

    def change_link(self, time, a, slot_a, b, slot_b, down, ps_per_byte, only):
        """A link goes up (0), down (1: what is on it is lost), dark (2: it arrives), dead (3: what is sent over it is lost, too),
        or keeps its state (-1); 0 ps per byte keeps the rate.  `only`: the node that sends at the new rate; -1: both.  Call
        when the simulation has reached `time`, ps."""
        world = self.world
        ends = [(a, slot_a), (b, slot_b)]
        for number, slot in ends:
            node = node_at(world, number)
            port = port_at(node, slot)
            node.now = time
            catch_up(node, time)
            if ps_per_byte and only in (-1, number):
                set_rate(world, node, port, ps_per_byte)
            if down >= 0:
                set_state(world, node, slot, down)
        port_at(node_at(world, a), slot_a).peer_ps_per_byte = port_at(node_at(world, b), slot_b).ps_per_byte
        port_at(node_at(world, b), slot_b).peer_ps_per_byte = port_at(node_at(world, a), slot_a).ps_per_byte
        for number, slot in ends:
            if ps_per_byte:
                self.set_up_again(number)
            if down >= 0:
                go_on(node_at(world, number), port_at(node_at(world, number), slot), down)
            self.refresh_time(number)

    def move_all_flows(self, time):
        """Routes have changed at `time`, ps: flows of hosts with several ports leave by those that are theirs now."""
        for number in range(self.world.host_count):
            node = node_at(self.world, number)
            if node.port_count > 1:
                node.now = time
                catch_up(node, time)
                move_flows(node)
                self.refresh_time(number)

    def fail_switch(self, number):
        """A switch whose links have just gone down loses what it stores; schemes begin anew at it, with their state 0."""
        node = node_at(self.world, number)
        ports = 0 if node.ops == plain_ops(self.world) else node.port_count  # those that have state
        empty_switch(self.world, node)
        for part, me in self.installed:
            places, state = part.places, part.declared.state
            if state["node"].size:
                tables = part.tables("node", ports=node.port_count, switch=1)
                clear_area(node_area(node, places["node"]), part.declared.forgotten("node"), tables)
            if state["queue"].size:
                clear_queues(node, places["queue"], state["queue"].size)
            for slot in range(ports if state["port"].size else 0):
                clear_area(port_area(port_at(node, slot), places["port"]), part.declared.forgotten("port"), part.tables("port"))
            if ports:
                self.set_up_at(number, part, me)
        for slot in range(node.port_count):
            self.refresh_time(port_at(node, slot).peer_node)
        self.refresh_time(number)

    def set_up_again(self, number):
        """Repeat the schemes' set-up of a switch: rates that they derive values from have changed."""
        node = node_at(self.world, number)
        if node.is_host or node.ops == plain_ops(self.world):
            return
        for part, me in self.installed:
            if "set_up_node" in part.declared.hooks:
                call_set_up_node(hook_of(part.module, "set_up_node"), me_at(me), node)

    def scheme_state(self, name, number, slot):
        """A scheme's fields at a switch, or at one of its ports if slot >= 0, by name; None: the switch is without schemes."""
        node = node_at(self.world, number)
        if node.is_host or node.ops == plain_ops(self.world):
            return None
        part = next(part for part, _ in self.installed if part.name == name)
        if slot < 0:
            return fields_of(part.declared.state["node"], node_area(node, part.places["node"]))
        return fields_of(part.declared.state["port"], port_area(port_at(node, slot), part.places["port"]))

    def retry(self, ends=(), on=-1, given=None):
        return act_on_retry(self.world, ends, on, given)

    def tx_bytes(self, number, slot):
        return port_at(node_at(self.world, number), slot).tx_bytes

    def refresh_time(self, number):
        node = node_at(self.world, number)
        set_time(node.worker, node.place, NEVER if node.tree[1] == NEVER else node.tree[1] >> KEY_BITS)
        if node.worker.sent:
            for i in range(self.world.worker_count):
                worker_at(self.world, i).window_start = min(worker_at(self.world, i).window_start, self.world.horizon)

    def balance_packets(self):
        """Move free packets to workers that have none: packets migrate with the traffic."""
        world = self.world
        for i in range(world.worker_count):
            worker = worker_at(world, i)
            if not worker.free and i + 1 < world.worker_count:
                other = worker_at(world, i + 1)
                worker.free = other.free
                other.free = NO_PACKET
            if not worker.free_frames and i + 1 < world.worker_count:
                other = worker_at(world, i + 1)
                worker.free_frames = other.free_frames
                other.free_frames = NO_PACKET

    def state(self):
        """Progress: time (ps), packet-hops, `totals_of`, bytes of logs, whether the run has ended, the earliest error, if any."""
        world = self.world
        out = totals_of(world) | {"time": worker_at(world, 0).window_start, "hops": 0, "error": 0}
        out["finished"] = worker_at(world, 0).finished
        out["windows"] = worker_at(world, 0).windows
        out["log_bytes"] = sum([log_bytes(worker_at(world, i)) for i in range(world.worker_count)])
        for i in range(world.worker_count):
            worker = worker_at(world, i)
            place = (worker.error_time, worker.error_node)
            if worker.error and (not out["error"] or place < (out["error_time"], out["error_node"])):
                out["error"], out["error_value"] = worker.error, worker.error_value
                out["error_time"], out["error_node"] = place
                out["fault"] = fault_of(worker)
        for number in range(world.node_count):
            out["hops"] += node_at(world, number).hops
        out["over"] = out["done"] == world.flow_count and not out["afloat"]
        return out

    def counts(self, owner, area, at):
        """(node, port, value) of a count of nodes (port -1) or ports, where it is not 0."""
        return [row for number in range(self.world.node_count) for row in counts_of(self.world, number, owner, area, at)]

    def flow_counts(self):
        """(node, number, field, value) of the counts of flows that are unfinished."""
        return [row for number in range(self.world.host_count) for row in flow_counts_of(self.world, number)]

    def rows(self, name, forget=False):
        """The rows of one log, worker by worker, as bytes; `forget`: they are not in the log any more."""
        self.complete_samples()
        return [rows_of(worker_at(self.world, i), name, forget) for i in range(self.world.worker_count)]

    def node_counters(self, end):
        """An array with a row per node, fields by name, as at `end`, ps."""
        world = self.world
        out = np.zeros(world.node_count, dtype=NODE_COUNTERS)
        table = node_counter_table(out)
        for number in range(world.node_count):
            count_node(node_at(world, number), end, node_counters_at(table, number))
        return out

    def restart_maxima(self):
        """Let the largest buffer, queue and number of virtual output queues be counted from now on."""
        for number in range(self.world.node_count):
            restart_maxima_of(node_at(self.world, number))

    def port_counters(self, end):
        """An array with a row per port, by node and port, fields by name; a pause in progress counts until `end`, ps."""
        world = self.world
        out = np.zeros(world.port_count, dtype=PORT_COUNTERS)
        table = port_counter_table(out)
        for number in range(world.node_count):
            node = node_at(world, number)
            for slot in range(node.port_count):
                count_port(node, slot, end, port_counters_at(table, node.first_port + slot))
        return out

    def stopped_queues(self):
        """(node, port, queue, first, last, ingresses) of every queue of a switch that is paused and has packets: flow, sequence
        number and kind of its first packet, when its last one came (ps), and by which ports they came."""
        switches = range(self.world.host_count, self.world.node_count)
        return [row for number in switches for row in stopped_queues_of(node_at(self.world, number))]

    def flow_samples(self):
        """(node, port, active flows, samples) of every port that counts its active flows."""
        self.complete_samples()
        switches = range(self.world.host_count, self.world.node_count)
        return [row for number in switches for row in flow_samples_of(node_at(self.world, number))]

    def active_flows(self):
        """(number, acknowledged bytes, size, retransmitted bytes, paused ps, window) of every unfinished flow that is by
        itself; of messages the results have what has been counted."""
        return [row for number in range(self.world.host_count) for row in active_flows_of(node_at(self.world, number))]


def struct_sizes():
    """Bytes of the fabric's own part of each struct that schemes extend."""
    names = ("packet", "frame", "port", "queue", "flow", "incoming", "node", "rank")
    sizes = packet_bytes(), port_bytes(), queue_bytes(), flow_bytes(), incoming_bytes(), node_bytes(), rank_bytes()
    return dict(zip(names, sizes[:1] + sizes))  # a frame is a packet
