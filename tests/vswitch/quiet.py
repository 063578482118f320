"""Interfaces on which the kernel sends nothing of its own: its frames of IPv6 come at times of their own."""


def quiet(namespace, device):
    setting = f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6"
    namespace.run("sh", "-c", f"test ! -e {setting} || echo 1 > {setting}")
