"""Pyrrha: pauses for congestion roots (Liu et al., NSDI 2025), by the rules of its authors' simulator (NASA-NJU/Pyrrha-NS3).

A port whose ordinary queue exceeds `th_congestion` one-hop bandwidth-delay products is a root, <switch, port>. It pauses, at each
ingress that feeds it, what will pass this root. The neighbour there puts such packets into a queue of their own for the root, a
CIQ, pauses this one alone, and pauses its own neighbours in turn when the bytes there that came from one of them are too many. A
host lets the flows wait whose path passes the root. So a packet that passes no root is never behind one that is paused.

A CIQ is not served by the port. While it may run, each packet that leaves the port moves the first one of each CIQ on: to the CIQ
of a root that is nearer (`nearest`: farther), else to the ordinary queue.  When a switch learns of a root behind a port that is a
root itself, it merges its own into that one (MERGE).  A CIQ that may run, is empty, and for whose root nobody upstream is held is
freed (DEALLOC); hosts are forgotten when they are resumed, and a merged root with nothing to wait for is freed at once.

Paths must be known in advance: where something else than a hash chooses them, only links to hosts are known, so beside `spray`
`roots` should be "last".  `refresh` is ours, for frames that links or failing switches lose: what was told is told again, a pause
holds for two and a half times as long, and who knows nothing of a root answers with DEALLOC.
"""

title = "Pyrrha"
structs = {
    # a root elsewhere, so many hops away: CIQs of it here, 0: the row is free
    "root": {"node": "int32", "slot": "int32", "hop": "int32", "ciqs": "int32"},
    # what came from an ingress and is in CIQs of a root, and what its neighbour was told
    "share": {"bytes": "int64", "told": "int32"},
    # for a root (its row) at a port; next: the one that its port tries after it, plus one; heard: when it was told to pause
    "ciq": {"root": "int32", "slot": "int32", "status": "int32", "next": "int32", "heard": "time"},
}
node_state = {
    "roots": "root[roots_known]",
    "shares": "share[roots_known * ports * switch]",
    "ciqs": "ciq[ciqs]",
    "upstream": "int8[ports * ports * switch]",  # of roots that are ports of this switch: by egress and ingress, what it was told
    "up_ports": "int32",
    "ciqs_used": "int32",
}
port_state = {"first": "int32", "pausing": "int32"}  # of its CIQs, plus one; ingresses that it pauses as a root
flow_state = {"waits": "int32"}
frame_state = {"node": "int32", "slot": "int32", "hop": "int32", "old_node": "int32", "old_slot": "int32"}
counts = {
    "merged": "roots of this switch that were merged into others",
    "refused": "pauses that were not obeyed, as roots_known or ciqs are in use",
    "most_ciqs": "most isolation queues in use at once",
}
records = {"ciqs_used": "isolation queues in use"}
parameters = {
    "th_congestion": ("float64 0..1000", 2.0, "a queue beyond so many one-hop bandwidth-delay products is congested"),
    "th_resume": ("float64 0.001..1000", 1.0, "and below so many no more"),
    "th_hol": ("float64 0..1000", 2.0, "an uplink is a root only if it has so many times the mean queue of the uplinks"),
    "roots": ("choice any down last", "any", "ports that may be roots: all, those downwards, those to hosts"),
    "nearest": ("bool", False, "a packet that passes several roots waits for the nearest one first; else for the farthest one"),
    "merge": ("bool", True, "a root with a root behind it becomes part of that one"),
    "dealloc": ("bool", True, "isolation queues that nothing needs are freed"),
    "refresh": ("time", "100us", "neighbours are told again so often while they are held; 0 = never"),
    "ciqs": ("int32 1..4096", 256, "isolation queues of a switch"),
    "roots_known": ("int32 1..4096", 256, "roots elsewhere that a switch or host knows at the same time"),
}
presets = {"ns3": {"refresh": 0}}  # the authors' simulator
fabric = {"voqs": "ciqs"}

DEALLOC = 3  # commands of frames, beside PAUSE and RESUME
MERGE = 4
NONE = 0  # states of a CIQ, and what a neighbour was told
PAUSED = 1
RUNS = 2
MERGING = 3
DOWN = 1  # values of `roots`
LAST_HOPS = 2


def set_up_node(pyrrha, node):
    mine = my_node(pyrrha, node)
    mine.up_ports = 0
    for slot in range(node.port_count):
        if port_at(node, slot).up > 0:
            mine.up_ports += 1


# ---- Thresholds: the one-hop BDP is that of the egress' rate and the ingress' delay ----


def exceeds(node, port, slot, length, threshold: float):
    return 1 if length * port.ps_per_byte > threshold * (2 * port_at(node, slot).delay) else 0


def is_below(node, port, slot, length, threshold: float):
    return 1 if length * port.ps_per_byte < threshold * (2 * port_at(node, slot).delay) else 0


def queued(port):
    """Bytes in the ordinary queue of a port."""
    return port.bytes - port.held


# ---- Frames ----


def tell(pyrrha, node, slot, command, at_node, root_slot, hop):
    tell_of_two(pyrrha, node, slot, command, at_node, root_slot, hop, 0, 0)


def tell_of_two(pyrrha, node, slot, command, at_node, root_slot, hop, old_node, old_slot):
    pkt = new_frame(node, pyrrha.at.kind, command)
    frame = my_frame(pyrrha, pkt)
    frame.node = at_node
    frame.slot = root_slot
    frame.hop = hop
    frame.old_node = old_node
    frame.old_slot = old_slot
    send_frame(node, slot, pkt)


def when_told_to_run(pyrrha, node, slot):
    """What is noted of a neighbour that was told to run: a switch answers with DEALLOC, a host does not."""
    return RUNS if port_at(node, slot).peer_node >= pyrrha.at.world.host_count else NONE


# ---- Roots elsewhere, and their CIQs ----


def row_of(pyrrha, node, at_node, slot):
    """The row of a root; -1: it is not known."""
    for r in range(pyrrha.roots_known):
        root = roots_at(my_node(pyrrha, node), r)
        if root.ciqs > 0 and root.node == at_node and root.slot == slot:
            return r
    return -1


def ciq_of(pyrrha, node, port, r):
    """The CIQ of a root at a port; -1: there is none."""
    if r < 0:
        return -1
    i = my_port(pyrrha, port).first - 1
    while i >= 0 and ciqs_at(my_node(pyrrha, node), i).root != r:
        i = ciqs_at(my_node(pyrrha, node), i).next - 1
    return i


def share_of(pyrrha, node, r, slot) -> share:
    return shares_at(my_node(pyrrha, node), r * node.port_count + slot)


def new_row(pyrrha, node, at_node, slot, hop):
    """A free row for a root; -1: all are in use."""
    for r in range(pyrrha.roots_known):
        root = roots_at(my_node(pyrrha, node), r)
        if root.ciqs == 0:
            root.node = at_node
            root.slot = slot
            root.hop = hop
            return r
    return -1


def new_ciq(pyrrha, node, port, at_node, slot, hop):
    """A CIQ for a root at a port, which may run; -1: too many are in use."""
    mine = my_node(pyrrha, node)
    r = row_of(pyrrha, node, at_node, slot)
    if r < 0:
        r = new_row(pyrrha, node, at_node, slot, hop)
    i = 0
    while i < pyrrha.ciqs and ciqs_at(mine, i).status != NONE:
        i += 1
    if r < 0 or i == pyrrha.ciqs:
        mine.refused += 1
        return -1
    roots_at(mine, r).ciqs += 1
    ciq = ciqs_at(mine, i)
    ciq.root = r
    ciq.slot = port.slot
    ciq.status = RUNS
    ciq.heard = node.now
    expect_timer(pyrrha, node)
    insert(pyrrha, node, port, i)
    mine.ciqs_used += 1
    mine.most_ciqs = max(mine.most_ciqs, mine.ciqs_used)
    return i


def insert(pyrrha, node, port, i):
    """Insert a CIQ where its port tries it: the farthest root first, or the nearest one."""
    mine = my_node(pyrrha, node)
    hop = hop_of(pyrrha, node, i)
    before = -1
    j = my_port(pyrrha, port).first - 1
    while j >= 0 and (hop_of(pyrrha, node, j) < hop if pyrrha.nearest else hop_of(pyrrha, node, j) > hop):
        before = j
        j = ciqs_at(mine, j).next - 1
    ciqs_at(mine, i).next = j + 1
    if before < 0:
        my_port(pyrrha, port).first = i + 1
    else:
        ciqs_at(mine, before).next = i + 1


def hop_of(pyrrha, node, i):
    return roots_at(my_node(pyrrha, node), ciqs_at(my_node(pyrrha, node), i).root).hop


def free_ciq(pyrrha, node, i):
    mine = my_node(pyrrha, node)
    ciq = ciqs_at(mine, i)
    mine_there = my_port(pyrrha, port_at(node, ciq.slot))
    if mine_there.first == i + 1:
        mine_there.first = ciq.next
    else:
        j = mine_there.first - 1
        while ciqs_at(mine, j).next != i + 1:
            j = ciqs_at(mine, j).next - 1
        ciqs_at(mine, j).next = ciq.next
    ciq.status = NONE
    roots_at(mine, ciq.root).ciqs -= 1
    mine.ciqs_used -= 1


def settle(pyrrha, node, i):
    """Free a CIQ that is empty, if nothing needs it."""
    status = ciqs_at(my_node(pyrrha, node), i).status
    if status == NONE or voq_at(node, i).length > 0:
        return
    if status == MERGING:
        free_ciq(pyrrha, node, i)
    elif status == RUNS and pyrrha.dealloc:
        free_idle(pyrrha, node, ciqs_at(my_node(pyrrha, node), i).root)


def free_idle(pyrrha, node, r):
    """Free the CIQs of a root that may run and are empty, if no neighbour is held for it."""
    for slot in range(node.port_count):
        if share_of(pyrrha, node, r, slot).told != NONE:
            return
    for slot in range(node.port_count):
        i = ciq_of(pyrrha, node, port_at(node, slot), r)
        if i >= 0 and ciqs_at(my_node(pyrrha, node), i).status == RUNS and voq_at(node, i).length == 0:
            root = roots_at(my_node(pyrrha, node), r)
            tell(pyrrha, node, slot, DEALLOC, root.node, root.slot, 0)
            free_ciq(pyrrha, node, i)


# ---- Packets ----


def place_of(pyrrha, node, port, i, pkt):
    """The first CIQ from `i` on in which a packet has to wait; -1: none.  One that may run and is empty lets it through."""
    while i >= 0:
        ciq = ciqs_at(my_node(pyrrha, node), i)
        if ciq.status == PAUSED or voq_at(node, i).length > 0:
            root = roots_at(my_node(pyrrha, node), ciq.root)
            if passes(node, port, pkt.dst, pkt.hash, root.node, root.slot):
                return i
        i = ciq.next - 1
    return -1


def choose_voq(pyrrha, node, port, pkt):
    i = my_port(pyrrha, port).first - 1
    if i >= 0:
        i = place_of(pyrrha, node, port, i, pkt)
        if i >= 0:
            note_in(pyrrha, node, port, i, pkt.in_port, pkt.size)
    return i


def note_in(pyrrha, node, port, i, slot, size):
    """A packet of this size from ingress `slot` is put into a CIQ."""
    ciq = ciqs_at(my_node(pyrrha, node), i)
    part = share_of(pyrrha, node, ciq.root, slot)
    part.bytes += size
    if ciq.status == MERGING or part.told == PAUSED:
        return
    if exceeds(node, port, slot, part.bytes, pyrrha.th_congestion):
        part.told = PAUSED
        root = roots_at(my_node(pyrrha, node), ciq.root)
        tell(pyrrha, node, slot, PAUSE, root.node, root.slot, root.hop + 1)


def note_out(pyrrha, node, port, i, slot, size):
    """It leaves the CIQ."""
    ciq = ciqs_at(my_node(pyrrha, node), i)
    part = share_of(pyrrha, node, ciq.root, slot)
    part.bytes -= size
    if ciq.status == MERGING or part.told != PAUSED:
        return
    if is_below(node, port, slot, part.bytes, pyrrha.th_resume):
        part.told = when_told_to_run(pyrrha, node, slot)
        root = roots_at(my_node(pyrrha, node), ciq.root)
        tell(pyrrha, node, slot, RESUME, root.node, root.slot, 0)


def move_on(pyrrha, node, port, i):
    """Move packets of a CIQ that may run, until one is in the ordinary queue, whose departure moves the next one."""
    while voq_at(node, i).length > 0:
        pkt = voq_at(node, i).head
        slot = pkt.in_port
        size = pkt.size
        j = place_of(pyrrha, node, port, ciqs_at(my_node(pyrrha, node), i).next - 1, pkt)
        note_out(pyrrha, node, port, i, slot, size)
        if j < 0:
            release(node, i)
            break
        requeue(node, i, j)
        note_in(pyrrha, node, port, j, slot, size)
    settle(pyrrha, node, i)


# ---- Roots of this switch ----


def may_be_root(pyrrha, node, port):
    if pyrrha.roots == LAST_HOPS:
        return 1 if port.peer_node < pyrrha.at.world.host_count else 0
    if port.up <= 0 or pyrrha.roots == DOWN:
        return 1 if port.up <= 0 else 0
    total = 0
    for slot in range(node.port_count):
        if port_at(node, slot).up > 0:
            total += queued(port_at(node, slot))
    return 1 if queued(port) * my_node(pyrrha, node).up_ports > pyrrha.th_hol * total else 0


def on_enqueue(pyrrha, node, port, queue, pkt):
    """Into the ordinary queue: pause the ingress if it is too long."""
    if not exceeds(node, port, pkt.in_port, queued(port), pyrrha.th_congestion):
        return
    mine = my_node(pyrrha, node)
    i = port.slot * node.port_count + pkt.in_port
    if mine.upstream[i] != PAUSED and may_be_root(pyrrha, node, port):
        mine.upstream[i] = PAUSED
        my_port(pyrrha, port).pausing += 1
        tell(pyrrha, node, pkt.in_port, PAUSE, node.id, port.slot, 1)
        expect_timer(pyrrha, node)


def on_dequeue(pyrrha, node, port, queue, pkt):
    """From the ordinary queue: resume ingresses if it is short, then let each CIQ that may run move a packet."""
    mine = my_port(pyrrha, port)
    if mine.pausing > 0:
        resume_ingresses(pyrrha, node, port)
    i = mine.first - 1
    while i >= 0:
        ciq = ciqs_at(my_node(pyrrha, node), i)
        following = ciq.next - 1
        if ciq.status != PAUSED and voq_at(node, i).length > 0:
            move_on(pyrrha, node, port, i)
        i = following


def resume_ingresses(pyrrha, node, port):
    mine = my_node(pyrrha, node)
    for slot in range(node.port_count):
        i = port.slot * node.port_count + slot
        if mine.upstream[i] == PAUSED and is_below(node, port, slot, queued(port), pyrrha.th_resume):
            mine.upstream[i] = when_told_to_run(pyrrha, node, slot)
            my_port(pyrrha, port).pausing -= 1
            tell(pyrrha, node, slot, RESUME, node.id, port.slot, 0)


def merge_own(pyrrha, node, port, r):
    """A port that is a root has a root behind it: all that it holds are told to use that one, and its own is forgotten."""
    mine = my_node(pyrrha, node)
    root = roots_at(mine, r)
    held = 0
    for slot in range(node.port_count):
        i = port.slot * node.port_count + slot
        if mine.upstream[i] != NONE:
            held = 1
            mine.upstream[i] = NONE
            tell_of_two(pyrrha, node, slot, MERGE, root.node, root.slot, root.hop + 1, node.id, port.slot)
            share_of(pyrrha, node, r, slot).told = when_told_to_run(pyrrha, node, slot)
    my_port(pyrrha, port).pausing = 0
    mine.merged += held


# ---- What neighbours tell ----


def on_control(pyrrha, node, port, pkt):
    if node.is_host:
        obey_at_host(pyrrha, node, port, pkt)
    elif command_of(pkt) == PAUSE:
        obey_pause(pyrrha, node, port, pkt)
    elif command_of(pkt) == RESUME or command_of(pkt) == REFRESH:
        obey_resume(pyrrha, node, port, pkt)
    elif command_of(pkt) == MERGE:
        obey_merge(pyrrha, node, port, pkt)
    else:
        obey_dealloc(pyrrha, node, port, pkt)


def ciq_told_of(pyrrha, node, port, pkt):
    """The CIQ of the root that a frame is about; -1: there is none."""
    frame = my_frame(pyrrha, pkt)
    return ciq_of(pyrrha, node, port, row_of(pyrrha, node, frame.node, frame.slot))


def new_ciq_told_of(pyrrha, node, port, pkt):
    frame = my_frame(pyrrha, pkt)
    return new_ciq(pyrrha, node, port, frame.node, frame.slot, frame.hop)


def obey_pause(pyrrha, node, port, pkt):
    i = ciq_told_of(pyrrha, node, port, pkt)
    is_new = 1 if i < 0 else 0
    if is_new:
        i = new_ciq_told_of(pyrrha, node, port, pkt)
        if i < 0:
            return
    ciqs_at(my_node(pyrrha, node), i).status = PAUSED
    ciqs_at(my_node(pyrrha, node), i).heard = node.now
    if is_new and pyrrha.merge and port.up <= 0:
        merge_own(pyrrha, node, port, ciqs_at(my_node(pyrrha, node), i).root)


def obey_resume(pyrrha, node, port, pkt):
    """A REFRESH says the same again: if nothing is held for the root, a DEALLOC may be lost."""
    i = ciq_told_of(pyrrha, node, port, pkt)
    if i >= 0:
        if command_of(pkt) == RESUME or ciqs_at(my_node(pyrrha, node), i).status == PAUSED:
            ciqs_at(my_node(pyrrha, node), i).status = RUNS
            move_on(pyrrha, node, port, i)
    elif command_of(pkt) == REFRESH:
        frame = my_frame(pyrrha, pkt)
        tell(pyrrha, node, port.slot, DEALLOC, frame.node, frame.slot, 0)


def obey_merge(pyrrha, node, port, pkt):
    """What passes the old root passes the new one, too: it waits for that one, and the CIQ of the old one empties."""
    mine = my_node(pyrrha, node)
    frame = my_frame(pyrrha, pkt)
    i = ciq_told_of(pyrrha, node, port, pkt)
    if i < 0:
        i = new_ciq_told_of(pyrrha, node, port, pkt)
    old = row_of(pyrrha, node, frame.old_node, frame.old_slot)
    j = ciq_of(pyrrha, node, port, old)
    if old >= 0:
        pass_merge_on(pyrrha, node, old, i, pkt)
    if i >= 0:
        ciqs_at(mine, i).status = RUNS
    if j >= 0:
        ciqs_at(mine, j).status = MERGING
        move_on(pyrrha, node, port, j)
    if i >= 0 and ciqs_at(mine, i).status == RUNS:
        move_on(pyrrha, node, port, i)


def pass_merge_on(pyrrha, node, old, i, pkt):
    """To all that are held for the old root; `i`: the CIQ of the new one, -1: there is none."""
    frame = my_frame(pyrrha, pkt)
    for slot in range(node.port_count):
        part = share_of(pyrrha, node, old, slot)
        if part.told != NONE:
            part.told = NONE
            tell_of_two(pyrrha, node, slot, MERGE, frame.node, frame.slot, frame.hop + 1, frame.old_node, frame.old_slot)
            if i >= 0:
                share_of(pyrrha, node, ciqs_at(my_node(pyrrha, node), i).root, slot).told = when_told_to_run(pyrrha, node, slot)


def obey_dealloc(pyrrha, node, port, pkt):
    """A neighbour holds nothing for a root any more.  It may have been paused again meanwhile: then this is late."""
    frame = my_frame(pyrrha, pkt)
    if frame.node == node.id:
        i = frame.slot * node.port_count + port.slot
        if my_node(pyrrha, node).upstream[i] == RUNS:
            my_node(pyrrha, node).upstream[i] = NONE
        return
    r = row_of(pyrrha, node, frame.node, frame.slot)
    if r >= 0 and share_of(pyrrha, node, r, port.slot).told == RUNS:
        share_of(pyrrha, node, r, port.slot).told = NONE
        free_idle(pyrrha, node, r)


def on_link_change(pyrrha, node, port):
    """A link is dead: nobody is left to end what was told over it, in either direction.  At hosts it may also be down."""
    if node.is_host:
        while (port.watched < 0 or port.down == 1) and my_port(pyrrha, port).first > 0:
            free_ciq(pyrrha, node, my_port(pyrrha, port).first - 1)
        hold_and_let_go(pyrrha, node)
    if node.is_host or port.watched >= 0:
        return
    mine = my_node(pyrrha, node)
    for out in range(node.port_count):
        i = out * node.port_count + port.slot
        if mine.upstream[i] == PAUSED:
            my_port(pyrrha, port_at(node, out)).pausing -= 1
        mine.upstream[i] = NONE
    for r in range(pyrrha.roots_known):
        if roots_at(mine, r).ciqs > 0 and share_of(pyrrha, node, r, port.slot).told != NONE:
            share_of(pyrrha, node, r, port.slot).told = NONE
            free_idle(pyrrha, node, r)
    for i in range(pyrrha.ciqs):
        ciq = ciqs_at(mine, i)
        if ciq.slot == port.slot and ciq.status == PAUSED:
            ciq.status = RUNS
            move_on(pyrrha, node, port, i)


# ---- Hosts: a CIQ stands for the flows that wait ----


def obey_at_host(pyrrha, node, port, pkt):
    frame = my_frame(pyrrha, pkt)
    i = ciq_told_of(pyrrha, node, port, pkt)
    if command_of(pkt) == PAUSE:
        if i < 0:
            i = new_ciq_told_of(pyrrha, node, port, pkt)
        if i >= 0:
            ciqs_at(my_node(pyrrha, node), i).status = PAUSED
            ciqs_at(my_node(pyrrha, node), i).heard = node.now
    elif i >= 0:
        free_ciq(pyrrha, node, i)
    if command_of(pkt) == MERGE:
        i = ciq_of(pyrrha, node, port, row_of(pyrrha, node, frame.old_node, frame.old_slot))
        if i >= 0:
            free_ciq(pyrrha, node, i)
    hold_and_let_go(pyrrha, node)


def hold_and_let_go(pyrrha, node):
    flow = first_flow_of(node)
    while flow:
        hold_or_let_go(pyrrha, node, flow)
        flow = flow.next_active


def on_start(pyrrha, node, flow, pkt):
    my_flow(pyrrha, flow).waits = 0
    hold_or_let_go(pyrrha, node, flow)


def hold_or_let_go(pyrrha, node, flow):
    waits = is_held(pyrrha, node, flow)
    if waits != my_flow(pyrrha, flow).waits:
        my_flow(pyrrha, flow).waits = waits
        if waits:
            hold_flow(node, flow, NEVER)
        else:
            let_go(node, flow)


def is_held(pyrrha, node, flow):
    """Whether the path of a flow passes a root that is paused."""
    i = my_port(pyrrha, port_of(flow)).first - 1
    while i >= 0:
        root = roots_at(my_node(pyrrha, node), ciqs_at(my_node(pyrrha, node), i).root)
        if passes(node, port_of(flow), flow.dst, flow.hash, root.node, root.slot):
            return 1
        i = ciqs_at(my_node(pyrrha, node), i).next - 1
    return 0


# ---- What was told is told again ----


def expect_timer(pyrrha, node):
    if pyrrha.refresh:
        wake_by(node, pyrrha.at.index, node.now + pyrrha.refresh)


def on_timer(pyrrha, node):
    if end_pauses(pyrrha, node) + (0 if node.is_host else repeat(pyrrha, node)) > 0:
        set_timer(node, pyrrha.at.index, node.now + pyrrha.refresh)


def end_pauses(pyrrha, node):
    """CIQs whose pause was not repeated may run; returns whether there are any."""
    mine = my_node(pyrrha, node)
    ended = 0
    for i in range(pyrrha.ciqs):
        ciq = ciqs_at(mine, i)
        if ciq.status == PAUSED and ciq.heard + 5 * pyrrha.refresh // 2 <= node.now:
            ended += 1
            if node.is_host:
                free_ciq(pyrrha, node, i)
            else:
                ciq.status = RUNS
                move_on(pyrrha, node, port_at(node, ciq.slot), i)
    if ended > 0 and node.is_host:
        hold_and_let_go(pyrrha, node)
    return mine.ciqs_used


def repeat(pyrrha, node):
    """Tell all neighbours again that are paused or held; returns their number."""
    mine = my_node(pyrrha, node)
    again = 0
    for out in range(node.port_count):
        for slot in range(node.port_count):
            told = mine.upstream[out * node.port_count + slot]
            if told != NONE:
                again += 1
                tell(pyrrha, node, slot, PAUSE if told == PAUSED else REFRESH, node.id, out, 1)
    for r in range(pyrrha.roots_known):
        root = roots_at(mine, r)
        if root.ciqs > 0:
            for slot in range(node.port_count):
                part = share_of(pyrrha, node, r, slot)
                if part.told != NONE:
                    again += 1
                    tell(pyrrha, node, slot, PAUSE if part.told == PAUSED else REFRESH, root.node, root.slot, root.hop + 1)
    return again
