"""Flowlet switching as in LetFlow (Vanini et al., NSDI 2017): after a pause a flow may take another path, drawn at random.

A switch has a table, indexed by a hash of the flow, of the port that the last packet took and of when that was.  A packet that
comes at most `gap` later takes the same port; one that comes after a longer pause begins a flowlet, which takes a random one of
its equal-cost ports.  Flows whose hashes collide share an entry, and so a path where they have the same next hops, as in
LetFlow; the table never grows.  LetFlow's hardware has an age bit instead of the time, and notices a pause after one to two gaps.

Packets stay in order as long as `gap` is longer than the delays of a flow's paths differ, queues included.  Hosts do not
tolerate reordering unless another scheme says so: `flowlet+recovery:irn`.
"""

structs = {"entry": {"last": "time", "port": "int32"}}
node_state = {"entries": "entry[entries * switch]"}
parameters = {
    "gap": ("time 1..1e15", "100us", "a pause that is longer begins a flowlet (LetFlow's flowlet timeout; the default is ours)"),
    "entries": ("int32 1..16777216", 65536, "entries of a switch's table, to which flows are hashed"),
}


def choose_path(flowlet, node, port, pkt):
    entry = entries_at(my_node(flowlet, node), pick(pkt.hash, node.hash_seed + 3, flowlet.entries))
    chosen = -1
    if node.now - entry.last <= flowlet.gap:
        chosen = known(node, pkt, entry)
    if chosen < 0:
        chosen = draw(node, RANDOM_PATH) % path_count(node, pkt)
        entry.port = path_at(node, pkt, chosen).slot + 1
    entry.last = node.now
    return chosen


def known(node, pkt, entry):
    """Which of a packet's next hops an entry's port is; -1: none (a new entry, one of another flow, or routes have changed)."""
    for i in range(path_count(node, pkt)):
        if path_at(node, pkt, i).slot + 1 == entry.port:
            return i
    return -1
