"""The table of what the compiled parts ask of the world: the kernel's functions, or those that ask a simulated world in Python.

A method of a simulated world returns what the call returns: a number, or bytes where the kernel would write them; -errno says
that it failed. `contract.py` says what each does. It runs in the thread that called, which holds the GIL meanwhile.
"""

import cython

from penstock_net.errors import PenstockError

if not cython.compiled:
    from cython.cimports.libc.errno import EIO

    from penstock_net.vswitch.world.calls.table import (
        MSG_TRUNC,
        bytes_at_place,
        calls,
        clear_flag,
        control_of,
        fill_control,
        fill_name,
        fill_vector,
        message_at,
        name_of,
        peer_at,
        place_of_flag,
        put_bytes,
        set_length,
        vector_bytes,
    )

if cython.compiled:
    from cython.cimports.penstock_net.vswitch.world.calls.kernel import (
        kernel_close_context,
        kernel_ioctl,
        kernel_now_ns,
        kernel_open_context,
        kernel_path_mtu_now,
        kernel_poll_pair,
        kernel_readv,
        kernel_recv,
        kernel_recvmmsg,
        kernel_send,
        kernel_sendmmsg,
        kernel_set_errno,
        kernel_signal_by,
        kernel_sleep_on,
        kernel_socket_drops,
        kernel_watch_with,
        kernel_write,
    )

chosen = None
failures = []


def use(world):
    """Have all compiled parts ask `world` from now on; None: the kernel. No worker may be running."""
    global chosen
    chosen = world
    failures.clear()
    if world is None:
        calls.now_ns, calls.watch_with, calls.sleep_on = kernel_now_ns, kernel_watch_with, kernel_sleep_on
        calls.poll_pair, calls.readv, calls.write = kernel_poll_pair, kernel_readv, kernel_write
        calls.send, calls.recv = kernel_send, kernel_recv
        calls.recvmmsg, calls.sendmmsg, calls.ioctl = kernel_recvmmsg, kernel_sendmmsg, kernel_ioctl
        calls.path_mtu_now, calls.socket_drops = kernel_path_mtu_now, kernel_socket_drops
        calls.open_context, calls.close_context, calls.signal_by = kernel_open_context, kernel_close_context, kernel_signal_by
    else:
        calls.now_ns, calls.watch_with, calls.sleep_on = simulated_now_ns, simulated_watch_with, simulated_sleep_on
        calls.poll_pair, calls.readv, calls.write = simulated_poll_pair, simulated_readv, simulated_write
        calls.send, calls.recv = simulated_send, simulated_recv
        calls.recvmmsg, calls.sendmmsg, calls.ioctl = simulated_recvmmsg, simulated_sendmmsg, simulated_ioctl
        calls.path_mtu_now, calls.socket_drops = simulated_path_mtu_now, simulated_socket_drops
        calls.open_context, calls.close_context = simulated_open_context, simulated_close_context
        calls.signal_by = simulated_signal_by


def use_clock(world):
    """Have all compiled parts ask `world` for the time from now on, and the kernel for all else, until `use` is called."""
    global chosen
    use(None)
    chosen = world
    calls.now_ns = simulated_now_ns


def check():
    """Raise what a simulated world has failed with, since compiled callers cannot be told."""
    if failures:
        error = failures[0]
        failures.clear()
        raise PenstockError(f"the simulated world: {error!r}") from error


def failed(error):
    failures.append(error)


def answered(answer):
    """What a call returns, with errno set if it failed."""
    if answer < 0:
        kernel_set_errno(-answer)
        return -1
    return answer


def simulated_now_ns():
    try:
        return chosen.now_ns()
    except BaseException as error:
        failed(error)
        return 0


def simulated_watch_with(epoll, fd, empty):
    try:
        return answered(chosen.watch_with(epoll, fd, place_of_flag(empty)))
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def simulated_sleep_on(epoll, ns):
    try:
        for place in chosen.sleep_on(epoll, ns):
            clear_flag(place)
    except BaseException as error:
        failed(error)


def simulated_poll_pair(pair, ns):
    try:
        ready = chosen.poll_pair((pair[0].fd, pair[1].fd), (pair[0].events, pair[1].events), ns)
        pair[0].revents, pair[1].revents = ready
        return (ready[0] != 0) + (ready[1] != 0)
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def fill_vectors(vectors, count, data):
    """Put bytes where the vectors point, as far as there is room; how many."""
    done = 0
    for i in range(count):
        part = min(vector_bytes(vectors, i), len(data) - done)
        fill_vector(vectors, i, data[done : done + part], part)
        done += part
    return done


def vectors_bytes(vectors, count):
    return b"".join([bytes_at_place(vectors[i].iov_base, vectors[i].iov_len) for i in range(count)])


def simulated_readv(fd, vectors, count):
    try:
        room = 0
        for i in range(count):
            room += vector_bytes(vectors, i)
        answer = chosen.read(fd, room)
        if isinstance(answer, int):
            return answered(answer)
        return fill_vectors(vectors, count, answer)
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def simulated_write(fd, source, n):
    try:
        return answered(chosen.write(fd, bytes_at_place(source, n)))
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def simulated_send(fd, data, n, flags):
    try:
        return answered(chosen.send(fd, bytes_at_place(data, n)))
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def simulated_recv(fd, data, n, flags):
    try:
        answer = chosen.recv(fd, n)
        if isinstance(answer, int):
            return answered(answer)
        put_bytes(data, answer, min(n, len(answer)))
        return min(n, len(answer))
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def simulated_recvmmsg(fd, messages, count):
    """What the world gives of each datagram: its bytes, its sender's address, control messages, and its length if it was cut."""
    try:
        rooms = []
        for i in range(count):
            header = message_at(messages, i)
            room = 0
            for k in range(header.msg_iovlen):
                room += vector_bytes(header.msg_iov, k)
            rooms.append(room)
        answer = chosen.recvmmsg(fd, rooms)
        if isinstance(answer, int):
            return answered(answer)
        for i, (data, name, control, cut) in enumerate(answer):
            header = message_at(messages, i)
            set_length(messages, i, fill_vectors(header.msg_iov, header.msg_iovlen, data))
            header.msg_flags = MSG_TRUNC if cut else 0
            fill_name(header, name)
            fill_control(header, control)
        return len(answer)
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def simulated_sendmmsg(fd, messages, count):
    try:
        given = []
        for i in range(count):
            header = message_at(messages, i)
            given.append((vectors_bytes(header.msg_iov, header.msg_iovlen), name_of(header), control_of(header)))
        return answered(chosen.sendmmsg(fd, given))
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def simulated_ioctl(fd, request, argument):
    try:
        return answered(chosen.ioctl(fd, request, cython.cast(cython.size_t, argument)))
    except BaseException as error:
        failed(error)
        return answered(-EIO)


def simulated_path_mtu_now(fd, peer, size):
    """0: the world does not say."""
    try:
        return chosen.path_mtu_now(fd, peer_at(peer, size))
    except BaseException as error:
        failed(error)
        return 0


def simulated_socket_drops(fd):
    try:
        return chosen.socket_drops(fd)
    except BaseException as error:
        failed(error)
        return 0


def simulated_open_context(context):
    """0 is the simulated world's only context: a signal is a write that cannot block."""
    context[0] = 0
    return 0


def simulated_close_context(context):
    pass


def simulated_signal_by(context, ready, fd):
    try:
        return chosen.write(fd, b"\1" + bytes(7)) == 8
    except BaseException as error:
        failed(error)
        return 0


use(None)
