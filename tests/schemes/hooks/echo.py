"""Ends the run if an ACK does not have the hash of its packet, inverted, or, with symmetric paths, as it is."""

parameters = {"symmetric": ("bool", False, "the same path back")}
fabric = {"reordering": 1, "symmetric": "symmetric"}
packet_state = {"hash": "int32"}
scheme_state = {"wrong": "int64"}


def on_send(echo, node, flow, pkt):
    pkt.hash = draw(node, RANDOM_USER)
    my_packet(echo, pkt).hash = pkt.hash


def on_ack(echo, node, flow, pkt):
    back = pkt.hash if echo.symmetric else ~pkt.hash
    if back != my_packet(echo, pkt).hash:
        echo.wrong = 1 // 0
