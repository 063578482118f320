"""Records errors of schemes.  A module of its own, so that it is not inlined into the hot path."""


def fail(node, error, value):
    """Record that a scheme failed, or named a queue, port or path that does not exist.  Kept is the earliest error, at equal
    times that of the node with the lowest number; the run ends with this window."""
    worker = node.worker
    if worker.error:
        if node.now > worker.error_time or (node.now == worker.error_time and node.id >= worker.error_node):
            return
    worker.error = error
    worker.error_time = node.now
    worker.error_node = node.id
    worker.error_value = value
