"""Records errors of schemes.  It is a module of its own so that it is not inlined: events run without it, and faster."""


def fail(node, error, value):
    """A scheme failed, or named a queue, port or path that does not exist: record the earliest such error, at equal times that of
    the node of the lowest number, whichever is executed first; the run ends with this window."""
    worker = node.worker
    if worker.error:
        if node.now > worker.error_time or (node.now == worker.error_time and node.id >= worker.error_node):
            return
    worker.error = error
    worker.error_time = node.now
    worker.error_node = node.id
    worker.error_value = value
