"""A NIC's round robin by position, as ns-3 of the HPCC authors has it: a new flow is the last one, and each waits for its number.

Elsewhere a flow that becomes ready joins the ring's tail, so that it waits for all others that are ready, not for half of them.
"""

fabric = {"nic_order": 1}
flow_state = {"number": "int64", "round": "int64"}
node_state = {"round": "int64", "last": "int64", "count": "int64"}


def place(nic_turns, node, flow):
    set_rank(node, flow, my_flow(nic_turns, flow).round * 1000000 + my_flow(nic_turns, flow).number)


def on_start(nic_turns, node, flow, pkt):
    mine = my_flow(nic_turns, flow)
    at = my_node(nic_turns, node)
    at.count += 1
    mine.number = at.count
    mine.round = at.round
    place(nic_turns, node, flow)


def on_send(nic_turns, node, flow, pkt):
    mine = my_flow(nic_turns, flow)
    at = my_node(nic_turns, node)
    at.round = max(at.round, mine.round)
    at.last = mine.number
    mine.round = at.round + 1
    place(nic_turns, node, flow)


def on_ack(nic_turns, node, flow, pkt):
    """A flow that its window held back, and whose turn has passed, has its next one in this round or in the following."""
    mine = my_flow(nic_turns, flow)
    at = my_node(nic_turns, node)
    if mine.round < at.round or (mine.round == at.round and mine.number <= at.last):
        mine.round = at.round if mine.number > at.last else at.round + 1
        place(nic_turns, node, flow)
