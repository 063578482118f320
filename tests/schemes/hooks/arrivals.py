"""Counts what arrives at hosts and is no control frame as marks of the port by which it comes."""


def on_arrival(arrivals, node, port, pkt):
    port.ecn_marks += 1
