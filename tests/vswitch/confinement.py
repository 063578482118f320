"""What a service manager takes from a service, done here by hand."""

import ctypes

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # of libseccomp


def confine(allowed, families):
    """What systemd does with SystemCallFilter, RestrictAddressFamilies, MemoryDenyWriteExecute and NoNewPrivileges."""
    libc, seccomp = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libseccomp.so.2")
    assert libc.prctl(65, 1, 0, 0, 0) == 0, "PR_SET_MDWE"
    assert libc.prctl(38, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS"

    class Compare(ctypes.Structure):
        _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))

    seccomp.seccomp_init.restype = ctypes.c_void_p
    seccomp.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(Compare),
    ]
    rules = ctypes.c_void_p(seccomp.seccomp_init(KILL))
    for name in allowed:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0 and name != "socket":
            assert seccomp.seccomp_rule_add_array(rules, ALLOW, number, 0, None) == 0
    number = seccomp.seccomp_syscall_resolve_name(b"socket")
    for family in range(64):
        action = ALLOW if family in families else ERRNO | 97  # EAFNOSUPPORT
        assert seccomp.seccomp_rule_add_array(rules, action, number, 1, Compare(0, 4, family, 0)) == 0
    assert seccomp.seccomp_load(rules) == 0
