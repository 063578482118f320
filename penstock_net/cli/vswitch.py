"""penstock vswitch"""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock_net.cli.vswitch_simulate import read_spec, simulate

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The real switch, with a queue per flow: senders to a slow receiver are paused. For applications on this machine.\n\n"
    "Example:\n\n    penstock vswitch up switch.toml",
)
Socket = Annotated[str | None, typer.Option("--socket", metavar="PATH", help="Control socket of the switch.", show_default=False)]
AllowUid = Annotated[
    str | None,
    typer.Option("--allow-uid", metavar="USER", help="Trust this user's switch, beside root's and your own.", show_default=False),
]
UPGRADE_S = 75.0  # for the new process to start and to take over, or for the old one to say that it goes on
LOST_STATUS = 3  # of `down`: frames were lost
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _ask(path: str | None, allow_uid: str | None, message: dict[str, Any], timeout: float = 15.0) -> dict[str, Any]:
    from penstock_net.vswitch.daemon import places, protocol

    return protocol.ask(path or places.default_socket(), message, timeout, _user(allow_uid))


def _user(name: str | None) -> int | None:
    from penstock_net.vswitch.daemon import places

    return places.user_number(name) if name else None


@contextlib.contextmanager
def _stop_event() -> Iterator[threading.Event]:
    """An event that is set by Ctrl-C or SIGTERM."""
    over = threading.Event()
    before = {number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@app.command()
def up(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="Settings and ports.", show_default=False)],
    socket: Socket = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run nothing: say what this machine lacks; exit status 1 if it does.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the switch serves; it goes on in the background.")] = False,
    level: Annotated[str, typer.Option("--log-level", metavar="debug|info|warning|error", help="What is logged.")] = "info",
    file: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Append the log to a file.", show_default="standard error")
    ] = None,
) -> None:
    """Run a switch until `down` or Ctrl-C; events, such as an application that is attached, go to stderr, a line each.

    Example:

        penstock vswitch up switch.toml
    """
    from penstock_net.cli._background import serve_in_background
    from penstock_net.errors import PenstockError
    from penstock_net.inputs import one_of
    from penstock_net.vswitch.daemon import log, operations, takeover
    from penstock_net.vswitch.daemon.check import missing
    from penstock_net.vswitch.daemon.server import Daemon

    one_of(level, "--log-level", log.LEVELS)

    def run(daemon: Daemon, ready: Callable[[], None]) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: daemon.over.set())
        try:
            daemon.serve(ready)
        except PenstockError as error:
            if file:  # else its line is on standard error, as the last one of the command
                log.log.error("%s", error)
                log.finish()
            raise
        log.say([*operations.lost(daemon.left), *operations.in_all(daemon.losses), "down"])

    if old := takeover.channel():
        log.start(level, file)
        run(takeover.Taken(old).build(takeover.program()), lambda: None)
        return
    content = read_spec(spec)
    if check:
        lacking = missing(content, socket)
        for line in lacking:
            typer.echo(f"missing: {line}")
        if lacking:
            raise typer.Exit(1)
        typer.echo(f"{spec}: can run on this machine")
        return

    def serve(ready: Callable[[str], None]) -> None:
        log.start(level, file)
        daemon = Daemon(content, socket, takeover.program())
        mode, ports = daemon.switch.settings["mode"], ", ".join(daemon.ports)
        run(daemon, lambda: ready(f"up: {daemon.path}, mode {mode}, ports {ports}"))

    if wait:
        typer.echo(serve_in_background(serve))
    else:
        serve(typer.echo)


@app.command()
def show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="ports, losses, flows, addresses, pauses, events, counters, balance, settings, changes, detached or captures.",
        ),
    ] = "ports",
    most: Annotated[int, typer.Option("--most", metavar="N", min=0, help="Flows in the table, longest queues first.")] = 40,
    wide: Annotated[bool, typer.Option("--wide", help="All columns, all flows, exact numbers.")] = False,
    socket: Socket = None,
    allow_uid: AllowUid = None,
    json: Json = False,
) -> None:
    """Show a running switch: ports with their losses, flows with their queues and rates, paused queues, the last events.

    Example:

        penstock vswitch show flows --json
    """
    from json import dumps
    from shutil import get_terminal_size

    from penstock_net.vswitch.client import tables

    whole = json or wide
    answer = _ask(socket, allow_uid, {"show": what} if whole or what != "flows" else {"show": what, "most": most})
    found = answer[what]
    if json:
        typer.echo(dumps(found, indent=2))
        return
    width = get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    lines = tables.wide(found) if wide and found else tables.shown(what, found, width)
    for line in lines:
        typer.echo(line)
    if what == "ports":
        typer.echo(tables.loss_line(answer["losses"]))
        if answer.get("life", {}).get("upgrades"):
            typer.echo(tables.life_line(answer["life"]))
    if others := answer.get("others", {}).get("flows"):
        waiting = tables.size(answer["others"]["waiting_bytes"])
        typer.echo(f"and {others:,} more flows with {waiting} queued (--most, --wide)")


@app.command()
def top(
    interval: Annotated[float, typer.Option("--interval", metavar="S", min=0.01, help="Sampling interval.")] = 1.0,
    seconds: Annotated[float | None, typer.Option("--for", metavar="S", help="How long.", show_default="until Ctrl-C")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Plot the samples at the end.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object per interval, each on a line.")] = False,
    socket: Socket = None,
    allow_uid: AllowUid = None,
) -> None:
    """Watch a running switch: traffic of its ports, losses by reason, bytes queued for slow receivers, pauses.

    Example:

        penstock vswitch top --for 10 --interval 0.1 --plot switch.png
    """
    from json import dumps

    from rich.console import Console
    from rich.live import Live

    from penstock_net.errors import SpecError
    from penstock_net.vswitch.client import top

    if plot and plot.suffix not in (".png", ".pdf", ".svg"):
        raise SpecError(f"--plot {plot}: must end in .png, .pdf or .svg")
    most = None if plot else 2
    if json:
        history = top.watch(
            socket, interval, seconds, lambda h: print(dumps(top.interval(h)), flush=True), _user(allow_uid), most
        )
    else:
        with Live(console=Console(), auto_refresh=False) as live:
            history = top.watch(
                socket, interval, seconds, lambda h: live.update(top.table(h), refresh=True), _user(allow_uid), most
            )
    if plot:
        try:
            top.draw(history).savefig(plot)
        except OSError as error:
            raise SpecError(f"--plot {plot}: cannot be written ({error.strerror})") from None
        typer.echo(f"{plot} drawn from {len(history.samples)} samples", err=json)


@app.command()
def capture(
    port: Annotated[
        list[str] | None, typer.Option("--port", metavar="PORT", help="Repeatable.", show_default="all ports")
    ] = None,
    drops: Annotated[bool, typer.Option("--drops", help="Only dropped frames, with the reasons as comments.")] = False,
    seconds: Annotated[float | None, typer.Option("--for", metavar="S", help="How long.", show_default="until Ctrl-C")] = None,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="Stop after N frames.", show_default=False)
    ] = None,
    write: Annotated[
        str | None,
        typer.Option("--write", "-w", metavar="FILE.pcapng", help="-: standard output.", show_default="a line per frame"),
    ] = None,
    snap: Annotated[str, typer.Option("--snap", metavar="SIZE", help="Bytes kept of each frame.")] = "64KiB",
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE", help="Buffer shared with the switch.")] = "16MiB",
    socket: Socket = None,
    allow_uid: AllowUid = None,
) -> None:
    """Capture the frames that enter and leave a running switch at its ports, with their queues.

    The switch never waits for the capture: frames that do not fit into its buffer are counted as missed.

    Example:

        penstock vswitch capture --port a --drops --for 10 -w drops.pcapng
    """
    from penstock_net.units import parse_size
    from penstock_net.vswitch.client.capture import capture as write_capture
    from penstock_net.vswitch.client.capture import line

    with _stop_event() as over:
        seen = write_capture(
            port or (),
            write,
            drops=drops,
            seconds=seconds,
            count=count,
            path=socket,
            allow_uid=_user(allow_uid),
            over=over,
            snap=parse_size(snap, "--snap"),
            memory=parse_size(memory, "--memory"),
            tell=None if write else lambda each: typer.echo(line(each)),
        )
    where = f" in {write}" if write and write != "-" else ""
    missed = f"; {seen['missed']:,} more were missed: capture fewer ports, or with more --memory" if seen["missed"] else ""
    typer.echo(f"{seen['frames']:,} frames{where}{missed}", err=True)


@app.command("set")
def set_(
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE ...", help="mode, th_goal, th_over, th_net, burst...; port.NAME.addresses....", show_default=False
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Set everything to what the file says again.")] = False,
    socket: Socket = None,
    allow_uid: AllowUid = None,
) -> None:
    """Change thresholds, the mode or ports of a running switch: all changes or none; no frame is lost.

    `show changes` lists the values that differ from the specification that was last loaded.

    Example:

        penstock vswitch set th_goal=16KB th_over=64KB port.b.addresses=10.0.0.2,10.0.0.9
    """
    from penstock_net.errors import SpecError
    from penstock_net.vswitch.client import tables

    if bool(changes) == undo:
        raise SpecError("give either KEY=VALUE or --undo", path="set")
    if undo:
        undone = _ask(socket, allow_uid, {"undo": True})["undone"]
        typer.echo("  ".join(f"{row['key']}={tables.cell(row['file'])}" for row in undone) or "nothing was changed")
        return
    values: dict[str, Any] = {}
    for change in changes or ():
        key, equals, value = change.partition("=")
        if not equals:
            raise SpecError("must be KEY=VALUE, such as th_over=64KB", path=change)
        last = key.rpartition(".")[2]
        values[key] = (
            int(value)
            if last in ("burst", "uid") and value.isdigit()
            else value.split(",")
            if last == "addresses"
            else value == "true"
            if value in ("true", "false")
            else value
        )
    answer = _ask(socket, allow_uid, {"set": values})
    said = []
    for key in values:
        if key.startswith("port."):
            name, _, last = key.removeprefix("port.").rpartition(".")
            said.append(f"{key}={tables.cell(answer['ports'][name][last])}")
        else:
            said.append(f"{key}={answer['settings'][key]}")
    typer.echo("  ".join(said))


@app.command()
def reload(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The changed specification.", show_default=False)],
    socket: Socket = None,
    allow_uid: AllowUid = None,
) -> None:
    """Apply a changed specification to a running switch: thresholds, mode, and ports; no frame is lost.

    A port with an attached application, or of `port add`, is kept; other keys need a restart. Interfaces that are gone are
    opened again; exit status 1 if one is still not up.

    Example:

        penstock vswitch reload switch.toml
    """
    content = read_spec(spec)
    path = socket or content.get("switch", {}).get("socket")
    answer = _ask(path, allow_uid, {"reload": content})
    up = [name for name in answer["ports"] if name not in answer["not_up"]]
    typer.echo(f"reloaded: mode {answer['settings']['mode']}, ports {', '.join(up) or 'none'}")
    for name, why in answer["not_up"].items():
        typer.echo(f"not up: port {name}: {why}")
    if answer["not_up"]:
        raise typer.Exit(1)


port = typer.Typer(no_args_is_help=True, help="Add ports to a running switch, and remove them.")
app.add_typer(port, name="port")


@port.command("add")
def port_add(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Of the port; its keys follow as KEY=VALUE.", show_default=False)
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE ...", help="addresses, kind, and what else its [[port]] would have.", show_default=False
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option("--file", metavar="PORTS.toml", help="Several ports, as [[port]] tables.", show_default=False),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Add them again when the switch is started again, until `port del`.")
    ] = False,
    socket: Socket = None,
    allow_uid: AllowUid = None,
    json: Json = False,
) -> None:
    """Add ports to a running switch: all or none. They stay until `port del`, whatever file is loaded by `reload`.

    Example:

        penstock vswitch port add pod7 kind=tap device=eth0 netns=/proc/4711/ns/net addresses=10.0.0.7
    """
    from json import dumps

    from penstock_net.cli._ports import port_table, port_tables
    from penstock_net.errors import SpecError

    if (name is None) == (spec is None):
        raise SpecError("give either NAME and KEY=VALUE, or --file", path="port add")
    tables = [port_table(name, keys or ())] if name is not None else port_tables(read_spec(spec)) if spec else []
    answer = _ask(socket, allow_uid, {"port_add": tables, "keep": keep}, 15 + 0.2 * len(tables))["added"]
    if json:
        typer.echo(dumps(answer, indent=2))
        return
    for added, row in answer.items():
        typer.echo(f"added: port {added}, {row['kind']}, {', '.join(row['addresses'])}")


@port.command("del")
def port_del(
    names: Annotated[list[str], typer.Argument(metavar="NAME ...", help="Ports, all or none.", show_default=False)],
    socket: Socket = None,
    allow_uid: AllowUid = None,
    json: Json = False,
) -> None:
    """Remove ports from a running switch, with what waits for them; an application that is attached is detached.

    Example:

        penstock vswitch port del pod7
    """
    from json import dumps

    from penstock_net.vswitch.support.losses import reasons_text

    answer = _ask(socket, allow_uid, {"port_del": names}, 15 + 0.2 * len(names))["removed"]
    if json:
        typer.echo(dumps(answer, indent=2))
        return
    for removed, row in answer.items():
        lost = reasons_text(row["lost"])
        typer.echo(f"removed: port {removed}" + (f", lost: {lost}" if lost else ""))


@app.command()
def upgrade(socket: Socket = None, allow_uid: AllowUid = None) -> None:
    """Have a running switch go on in a new process of its program, which may be another version by now: no frame is lost.

    Ports, attached applications, counters and what was changed stay as they are; traffic pauses for a moment. If the new process
    cannot go on, the old one does; exit status 2.

    Example:

        penstock vswitch upgrade
    """
    answer = _ask(socket, allow_uid, {"upgrade": True}, UPGRADE_S)
    typer.echo(f"upgraded: process {answer['upgraded']} goes on, after a pause of {answer['paused_ns'] / 1e6:.0f} ms")


@app.command()
def drain(
    seconds: Annotated[float, typer.Option("--for", metavar="S", min=0, help="Longest time to wait.")] = 10.0,
    socket: Socket = None,
    allow_uid: AllowUid = None,
) -> None:
    """Admit no more applications and wait until the switch has taken all frames that were sent; exit status 1 on a timeout.

    Example:

        penstock vswitch drain && penstock vswitch down
    """
    from penstock_net.vswitch.daemon import operations

    answer = _ask(socket, allow_uid, {"drain": True, "seconds": seconds}, seconds + 15)
    still = operations.waiting(answer["left"])
    for line in [*still, *operations.not_taken(answer["left"]), *operations.in_all(answer["losses"])]:
        typer.echo(line)
    typer.echo("drained: the switch has taken all that was sent" if answer["drained"] else f"not drained in {seconds:g} s")
    if not answer["drained"]:
        raise typer.Exit(1)


@app.command()
def down(socket: Socket = None, allow_uid: AllowUid = None) -> None:
    """Stop a running switch (`drain` first) and report all frames lost since its start; exit status 3 if there are any.

    Example:

        penstock vswitch down
    """
    from penstock_net.vswitch.daemon import operations, protocol

    answer = _ask(socket, allow_uid, {"down": True}, timeout=protocol.DOWN_S + protocol.TIMEOUT_S)
    lines = operations.in_all(answer["losses"])
    for line in [*operations.lost(answer["left"]), *lines]:
        typer.echo(line)
    typer.echo("down")
    if lines:
        raise typer.Exit(LOST_STATUS)


@app.command()
def plug(
    port: Annotated[str, typer.Argument(metavar="PORT", help="A port of the switch.", show_default=False)],
    tap: Annotated[str, typer.Option("--tap", metavar="DEVICE", help="Name of the device.")] = "tap0",
    prefix: Annotated[
        int,
        typer.Option(
            "--prefix", metavar="BITS", min=0, max=32, help="Prefix length of its addresses, those of the port; 0: none."
        ),
    ] = 24,
    super_frames: Annotated[bool, typer.Option(help="Segmentation offload: TCP frames of up to 64 KB.")] = True,
    socket: Socket = None,
    allow_uid: AllowUid = None,
) -> None:
    """Create a TAP device and attach it to a port of a running switch until Ctrl-C, for unmodified programs.

    Example:

        ip netns exec left penstock vswitch plug a --tap tap0
    """
    from penstock_net.vswitch.client.plug import Plug

    with _stop_event() as over, Plug(port, tap, prefix, socket, super_frames, allow_uid=_user(allow_uid)) as plugged:
        typer.echo(f"{tap} is port {port} of the switch: {', '.join(plugged.addresses)}")
        while not over.wait(0.2) and not plugged.gone:
            pass
        lost = {where: count for where, count in plugged.losses().items() if count}
    typer.echo(f"unplugged; the kernel lost {lost}" if lost else "unplugged; the kernel has lost nothing")


@app.command()
def slow(
    pid: Annotated[int, typer.Argument(metavar="PID", min=2, help="The program.", show_default=False)],
    work: Annotated[str, typer.Option("--work", metavar="TIME", help="Time it runs in each cycle.")] = "1ms",
    rest: Annotated[str, typer.Option("--rest", metavar="TIME", help="Time it is stopped in each cycle.")] = "9ms",
    seconds: Annotated[float | None, typer.Option("--for", metavar="S", help="How long.", show_default="until Ctrl-C")] = None,
) -> None:
    """Slow a program down by stopping it periodically (SIGSTOP, SIGCONT), to test the effect of a slow receiver.

    Example:

        penstock vswitch slow $(pgrep -f 'iperf3 -s -p 5201') --work 1ms --rest 9ms
    """
    import os

    from penstock_net.errors import SpecError
    from penstock_net.units import parse_time
    from penstock_net.vswitch.attach.lab import DutyCycle

    try:
        os.kill(pid, 0)
    except OSError as error:
        raise SpecError(f"process {pid}: {error.strerror}") from None
    work_s, rest_s = parse_time(work, "--work") / 1e12, parse_time(rest, "--rest") / 1e12
    with _stop_event() as over, DutyCycle(pid, work_s, rest_s) as cycle:
        while not over.wait(0.1) and cycle.thread.is_alive():
            seconds = None if seconds is None else seconds - 0.1
            if seconds is not None and seconds <= 0:
                break


app.command()(simulate)


@app.command()
def doctor(json: Json = False) -> None:
    """Check what this machine permits; exit status 1 if the switch cannot run here.

    Example:

        penstock vswitch doctor
    """
    from json import dumps

    from penstock_net.vswitch.daemon.doctor import examine

    found = examine()
    if json:
        typer.echo(dumps(found, indent=2))
    else:
        for row in found:
            typer.echo(f"{'ok     ' if row['ok'] else 'MISSING' if row['needed'] else 'no     '} {row['what']}: {row['detail']}")
    if any(row["needed"] and not row["ok"] for row in found):
        raise typer.Exit(1)
