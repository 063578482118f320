# Link-level retry: a part of state.pxd, which includes it.  See fabric/llr.py and fabric/retry.py.

ctypedef struct Llr:        # of a port: where it sends, and where it receives
    int64_t most_frames, most_bytes # that may wait for an acknowledgement
    int64_t timeout         # ps without progress, after which all that wait are sent again
    int64_t spacing         # ps between two acknowledgements
    int64_t set_loss        # probability that an acknowledgement is lost on its way here, scaled to 2^31
    int64_t unseen          # probability that nothing is noticed here of a frame that is lost, the same
    int32_t most_replays    # without progress, before it flushes; 0: any number
    int32_t on_flush        # BEST_EFFORT, BLOCK, THROW_AWAY
    int32_t silent          # it asks once only for frames to be sent again
    int32_t on              # frames that leave are protected
    Packet* head            # copies of the frames that wait for an acknowledgement
    Packet* tail
    Packet* again           # of these, the next one to be sent again; NULL: none is
    int64_t frames, bytes   # how many and how much they are
    int64_t largest         # frame so far
    int64_t progress_at     # when one was acknowledged last, or all were sent again
    int64_t due             # when that is looked at; NEVER: nothing waits
    int32_t next            # number of the next frame
    int32_t replays         # without progress
    int32_t first           # the next frame to be sent again is the first one
    int32_t flushing        # the peer has not answered yet
    int32_t expected        # where it receives: the number of the next frame
    int32_t asked           # it has asked for it, and throws away all others
    int32_t owed            # an acknowledgement
    int32_t echoed          # what that was before the last flush of the other end
    int64_t answer_at       # when an acknowledgement may be sent, and is, if one is owed
    int64_t tx_ok, tx_replay, tx_discard, rx_ok, rx_bad, rx_missing_seq, rx_duplicate_seq, rx_replay
    int64_t ack_tx, nack_tx, ack_rx, nack_rx, timeouts, flushes
    int64_t most_bytes_kept
    int64_t again_bytes     # of copies that were sent, or dropped
    int64_t thrown_bytes    # of frames that were thrown away where they arrived

# How far a number is beyond another one, of 2^15 in a circle: -2^14..2^14 - 1.
cdef inline int32_t beyond(int32_t a, int32_t b) noexcept nogil:
    return ((a - b + 16384) & 32767) - 16384
