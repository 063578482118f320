"""Counts what it is told of links, by the state that they are in then."""

counts = {"up": "links up again", "down": "links down", "dark": "links dark", "dead": "links dead"}
fabric = {"acts": 0}


def on_link_change(links, node, port):
    mine = my_node(links, node)
    if port.watched < 0:
        mine.dead += 1
    elif port.down & 3 == 1:
        mine.down += 1
    elif port.down & 3 == 2:
        mine.dark += 1
    else:
        mine.up += 1
