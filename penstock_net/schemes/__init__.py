"""One file per scheme; what they declare is read by penstock_net.composition."""
