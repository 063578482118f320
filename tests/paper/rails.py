"""Rails and planes, and which port of a host a flow takes.

The networks: Qian et al., "Alibaba HPN", SIGCOMM 2024: GPU i of each server of a segment is on the leaves of rail i, on one or
(dual ToR) two of them; in a dual plane the leaves of first ports and those of second ports have spines of their own. Zhao et al.,
"Insights into DeepSeek-V3", ISCA 2025: NIC i of a server is in plane i, a network by itself.
The ports: docs/design.md ("ECMP"), as of a switch, and `host.ports` in docs/formats.md.
"""

from paper.turns import GOLDEN, hashed, mixed


def rails(servers, gpus, segment, planes, ports, spines):
    """The cables of hosts and of leaves, as names, each in the order of their ports."""
    down, up = [], []
    leaves = {}
    for plane in range(planes):
        for first in range(0, servers, segment):
            for rail in range(gpus):
                for side in range(ports):
                    leaves[plane, first, rail, side] = f"tor{len(leaves)}"
    for server in range(servers):
        for rail in range(gpus):
            for plane in range(planes):
                for side in range(ports):
                    down.append((f"host{server * gpus + rail}", leaves[plane, server - server % segment, rail, side]))
    for (plane, *_), leaf in leaves.items():
        up += [(leaf, f"spine{plane * spines + number}") for number in range(spines)]
    return down, up


def planes(hosts, count, tors, spines):
    """The same of planes: racks of hosts with following numbers, each with a ToR in every plane."""
    rack = hosts // tors
    down = [(f"host{host}", f"tor{plane * tors + host // rack}") for host in range(hosts) for plane in range(count)]
    up = [
        (plane * tors + tor, plane * spines + spine) for plane in range(count) for tor in range(tors) for spine in range(spines)
    ]
    return down, [(f"tor{tor}", f"spine{spine}") for tor, spine in up]


def by_hash(number, node, ports, seed):
    """Of the ports of a host that are on shortest paths the one of a flow, by its number."""
    return drawn(hashed(number, seed), hashed(node + (1 << 40), seed), ports)


def drawn(flow_hash, node_seed, ports):
    return ports[(mixed((flow_hash ^ node_seed) + GOLDEN) >> 33) * len(ports) >> 31] if len(ports) > 1 else ports[0]


def by_rail(connection, ports):
    """The one of a connection, as a channel that is bound to a NIC."""
    return ports[connection % len(ports)]


def in_turn(last, ports, stopped):
    """After a packet by port `last` the next one of a flow: the ports in a circle, past those that are stopped if not all are."""
    place = ports.index(last) if last in ports else 0
    circle = ports[place + 1 :] + ports[: place + 1]
    return next((port for port in circle if port not in stopped), circle[0])
