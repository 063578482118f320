"""Shared by ports on sockets: many messages per system call, and runs of frames of equal length as one message.

Frames to be sent wait, end to end, until a batch is full, or until port_flush or port_receive.  A run of frames of equal
length, of which the last may be shorter, becomes one message that the kernel cuts into segments.
"""

import cython

if not cython.compiled:
    from cython.cimports.libc.errno import EAGAIN, EINTR, ENETDOWN, ENOBUFS, errno
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import (
        A_FRAME,
        A_MESSAGE,
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        bytes_from,
        keep,
        pointer_to,
        receive_failed,
        send_failed,
        sent,
        sent_too_long,
    )
    from penstock_net.vswitch.ports.mmsg import (
        EINVAL,
        EMSGSIZE,
        FRAMES,
        MESSAGES,
        MOST_SEGMENTED,
        ROOM,
        WAITING_BYTES,
        came_in,
        goes_out,
        header_bytes,
        mail_of,
        new_mail,
        prepare_in,
        prepare_out,
        say_segment,
        told_mtu,
    )
    from penstock_net.vswitch.world.calls.table import receive_messages, send_messages


def learn_path(port):
    """Query the path MTU: `path` of the port is the longest frame that is not fragmented."""
    mail = mail_of(port)
    mtu = told_mtu(mail)
    if mail.mtu_most and (mtu == 0 or mail.mtu_most < mtu):
        mtu = mail.mtu_most
    if mtu > header_bytes(mail):
        port.path = mtu - header_bytes(mail)
        if mail.segment_most:
            mail.segment_most = min(mail.segment_limit, port.path)


def mail_pack(mail, segment_most):
    """Form messages from the pending frames; returns their number."""
    messages = 0
    at = mail.start
    i = mail.first
    while i < mail.count and messages < MESSAGES:
        segment = mail.length[i]
        length = segment
        frames = 1
        while segment <= segment_most and i + frames < mail.count and mail.length[i + frames] <= segment:
            following = mail.length[i + frames]
            if length + following > MOST_SEGMENTED:
                break
            length += following
            frames += 1
            if following < segment:
                break
        prepare_out(mail, messages, bytes_from(mail.waiting, at), length)
        if frames > 1:
            say_segment(mail, messages, segment)
        mail.frames_of[messages] = frames
        messages += 1
        at += length
        i += frames
    return messages


def mail_leave(port, mail, frames, taken):
    """Remove the first frames from the pending ones."""
    for _ in range(frames):
        length = mail.length[mail.first]
        if taken:
            sent(port, length - mail.added)
        mail.start += length
        mail.first += 1
    if mail.first == mail.count:
        mail.first = 0
        mail.count = 0
        mail.start = 0
        mail.end = 0


def mail_flush(port):
    """Send the pending frames; returns whether all were sent."""
    mail = mail_of(port)
    while mail.count > 0:
        messages = mail_pack(mail, 0 if port.sure else mail.segment_most)  # who drops what is long may see a run as one
        done = send_messages(port.fd, goes_out(mail, 0), messages)
        if done < 0:
            if errno == EINTR:
                continue
            if mail.probe and errno in (EMSGSIZE, EINVAL):
                learn_path(port)
                if mail.length[mail.first] > port.path:  # made before the path became narrower: lost
                    if mail.what[mail.first] == A_MESSAGE:
                        port.messages_lost += 1
                    else:
                        port.too_long += 1
                    mail_leave(port, mail, 1, False)
                    continue
            if errno not in (EAGAIN, ENOBUFS, ENETDOWN) and mail.frames_of[0] > 1:
                mail.segment_most = 0  # this path takes no segments
                continue
            if not send_failed(port):
                return False
            if mail.what[mail.first] == A_MESSAGE:
                port.errors_out -= 1
                port.messages_lost += 1
            mail_leave(port, mail, 1, False)
            continue
        for i in range(done):
            mail_leave(port, mail, mail.frames_of[i], True)
    return True


def mail_send(port, frame, length):
    mail = mail_of(port)
    if length > mail.longest:
        return sent_too_long(port)
    if mail.count == FRAMES or mail.end + length > WAITING_BYTES:
        if not mail_flush(port):
            return False
    memcpy(bytes_from(mail.waiting, mail.end), frame, length)
    mail.length[mail.count] = length
    mail.what[mail.count] = port.sends
    mail.count += 1
    mail.end += length
    if mail.count >= mail.batch:
        mail_flush(port)
    return True


def mail_fetch(port, mail):
    """Receive the next messages; returns their number, 0, or -1 after an error."""
    if port.sealed:
        return 0
    if mail.count > 0:
        mail_flush(port)
    for i in range(MESSAGES):
        prepare_in(mail, i)
    mail.reading = 0
    mail.read = 0
    mail.came = 0
    came = receive_messages(port.fd, came_in(mail, 0), MESSAGES)
    if came < 0:
        return receive_failed(port)
    mail.came = came
    return came


def open_mail(handle, batch):
    port = pointer_to(handle)
    mail = new_mail(handle)
    port.own = mail
    port.reads_ahead = 1
    mail.taken = keep(handle, bytearray(MESSAGES * ROOM))
    mail.waiting = keep(handle, bytearray(WAITING_BYTES))
    mail.batch = batch
    mail.longest = ROOM
    port.send = mail_send
    port.flush = mail_flush
    return mail


def mail_state(handle):
    """How frames are sent, and those that wait to be: numbers and bytes for `set_mail`."""
    mail = mail_of(pointer_to(handle))
    numbers = {
        "batch": mail.batch,
        "longest": mail.longest,
        "added": mail.added,
        "segment_most": mail.segment_most,
        "segment_limit": mail.segment_limit,
        "mtu_most": mail.mtu_most,
        "lengths": [mail.length[i] for i in range(mail.first, mail.count)],
        "what": [mail.what[i] for i in range(mail.first, mail.count)],
    }
    return numbers, PyBytes_FromStringAndSize(bytes_from(mail.waiting, mail.start), mail.end - mail.start)


def set_mail(handle, numbers, waiting):
    mail = mail_of(pointer_to(handle))
    mail.first = mail.count = 0
    mail.start = 0
    mail.batch, mail.longest, mail.added = numbers["batch"], numbers["longest"], numbers["added"]
    mail.segment_most, mail.segment_limit = numbers["segment_most"], numbers["segment_limit"]
    mail.mtu_most = numbers["mtu_most"]
    for length in numbers["lengths"]:
        mail.length[mail.count], mail.what[mail.count] = length, A_FRAME
        mail.count += 1
    for i, what in enumerate(numbers.get("what", ())):  # of a version that tells
        mail.what[i] = what
    mail.end = len(waiting)
    memcpy(mail.waiting, PyBytes_AS_STRING(waiting), mail.end)


def waiting_frames(handle):
    """What a port has taken, and the kernel has not yet: frames, and what else there is; none of a port of another module."""
    port = pointer_to(handle)
    what = []
    if port.flush == mail_flush:
        mail = mail_of(port)
        what = [mail.what[i] for i in range(mail.first, mail.count)]
    frames = what.count(A_FRAME)
    return {"waiting_out": frames, "copies_waiting_out": len(what) - frames}


def give_up_waiting(handle):
    """Count the frames that the kernel does not take now as lost, of a port of this module."""
    port = pointer_to(handle)
    if port.flush == mail_flush and not mail_flush(port):
        give_up_mail(handle)


def give_up_mail(handle):
    """Count the frames that the kernel has not taken by the end as lost."""
    port = pointer_to(handle)
    mail = mail_of(port)
    messages = sum([mail.what[i] == A_MESSAGE for i in range(mail.first, mail.count)])
    port.errors_out += mail.count - mail.first - messages
    port.messages_lost += messages
    mail.first = mail.count = 0
    mail.start = mail.end = 0
