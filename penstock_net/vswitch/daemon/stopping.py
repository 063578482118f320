"""The end of a daemon, part by part: one that cannot be ended keeps no other from it."""

from collections.abc import Callable, Mapping

from penstock_net.vswitch.daemon.log import log


def end_all(parts: Mapping[str, Callable[[], object] | None]) -> str:
    """End the parts in their order, those that there are; what could not be ended, and why, in one line; nothing: all were."""
    failed = []
    for name, end in parts.items():
        try:
            if end:
                end()
        except Exception as error:  # whatever it is, the next ones are ended
            failed.append(f"{name} ({' '.join(str(error).split()) or type(error).__name__})")
            log.debug("%s", name, exc_info=error)
    return f"could not be ended: {', '.join(failed)}" if failed else ""
