"""Receivers take packets in any order, so that nothing is sent again where nothing is lost."""

fabric = {"reordering": 1}


def set_up(me):
    pass
