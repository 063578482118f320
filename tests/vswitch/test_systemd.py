"""The units of packaging/ under a real systemd, booted in a container over this machine's files; nothing of it is left here."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import penstock_net

ROOT = Path(__file__).parents[2]
PROGRAMS = ("systemd-nspawn", "unshare", "ip", "setpriv")
MISSING = [name for name in PROGRAMS if not shutil.which(name)]
pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or bool(MISSING), reason=f"needs root, and {', '.join(MISSING) or 'nothing else'}"
)

COMMAND = """#!/bin/sh
export PYTHONPATH=/opt/code:/opt/site PYTHONDONTWRITEBYTECODE=1
exec /opt/python/bin/python3 "$@"
"""
PENSTOCK = """#!/bin/sh
exec /in/python -c 'import sys; from penstock_net.cli import main; sys.exit(main())' "$@"
"""
TARGET = """[Unit]
Requires=basic.target trial.service
After=basic.target
"""
SERVICE = """[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /in/trial.sh
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/out/log
StandardError=file:/out/log
"""
TEN_MINUTES = """[[port]]
name = "left"
addresses = ["10.0.0.1"]
kind = "tap"
device = "sw0"
netns = "left"

[[port]]
name = "right"
addresses = ["10.0.0.2"]
kind = "tap"
device = "sw0"
netns = "right"
"""
PLAIN = """[switch]
group = "penstock"

[[port]]
name = "a"
addresses = ["10.0.0.1"]
"""
TALK = """
import ctypes, os, socket
def udp(place):
    fd = os.open("/run/netns/" + place, os.O_RDONLY)
    assert ctypes.CDLL(None).setns(fd, 0x40000000) == 0
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
left, right = udp("left"), udp("right")
right.bind(("10.0.0.2", 9000))
right.settimeout(0.2)
for _ in range(300):
    left.sendto(b"hello", ("10.0.0.2", 9000))
    try: right.recv(10)
    except TimeoutError: continue
    print("frames pass", flush=True)
    break
"""
TRIAL = """PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unit() { systemctl show -P "$1" "penstock-vswitch@$2"; }
serves() { [ "$(unit MainPID $1)" != "$2" ] && [ "$(unit ActiveState $1)" = active ]; }
again() { for i in $(seq 300); do serves $1 $2 && break; sleep 0.1; done; }
cd /in/packaging
cp penstock.sysusers.conf /usr/lib/sysusers.d/penstock.conf && systemd-sysusers
cp penstock-vswitch@.service /etc/systemd/system/
mkdir -p /etc/penstock /etc/systemd/system/penstock-vswitch@lab.service.d
cp namespaces.conf /etc/systemd/system/penstock-vswitch@lab.service.d/
cp /in/*.toml /etc/penstock/
systemctl daemon-reload
ip netns add left; ip netns add right
systemctl start penstock-vswitch@lab; echo "lab started: $?"
/in/python /in/talk.py
penstock vswitch show --socket /run/penstock/lab/switch.sock; echo "not trusted: $?"
penstock vswitch show --socket /run/penstock/lab/switch.sock --allow-uid penstock; echo "shown: $?"
sed -i '1i[switch]\\nth_goal = "16KB"' /etc/penstock/lab.toml
systemctl reload penstock-vswitch@lab; echo "reloaded: $?"
penstock vswitch show settings --socket /run/penstock/lab/switch.sock --allow-uid penstock | grep th_goal
before=$(unit MainPID lab)
penstock vswitch upgrade --socket /run/penstock/lab/switch.sock --allow-uid penstock; echo "upgraded: $?"
again lab $before
/in/python /in/talk.py; echo "restarts: $(unit NRestarts lab)"
main=$(unit MainPID lab)
grep -E '^(CapEff|CapBnd|Seccomp):' /proc/$main/status
kill -KILL $main; again lab $main
/in/python /in/talk.py
systemctl stop penstock-vswitch@lab; echo "stopped: $? $(unit Result lab)"
systemctl start penstock-vswitch@plain; echo "plain started: $?"
member="setpriv --reuid nobody --regid nogroup --groups penstock"
$member penstock vswitch show settings --json --allow-uid penstock --socket /run/penstock/plain/switch.sock | grep -c th_goal
$member penstock vswitch down --allow-uid penstock --socket /run/penstock/plain/switch.sock; echo "member may not: $?"
systemctl start penstock-vswitch@wrong; sleep 1.5; echo "wrong: $(unit ActiveState wrong) $(unit NRestarts wrong)"
journalctl --no-pager -o cat -p warning -u 'penstock-vswitch@*'
echo end
"""


def test_the_unit_runs_the_ten_minutes(tmp_path):
    """In namespaces, with reload, a kill, a stop; its sockets trusted by name only; members of the group look; errors end it."""
    inside, out, base = tmp_path / "in", tmp_path / "out", tmp_path / "root"
    for folder in (inside, out, base):
        folder.mkdir()
    shutil.copytree(ROOT / "packaging", inside / "packaging")
    files = {"trial.sh": TRIAL, "talk.py": TALK, "trial.target": TARGET, "trial.service": SERVICE, "python": COMMAND}
    files |= {"penstock": PENSTOCK, "lab.toml": TEN_MINUTES, "plain.toml": PLAIN, "wrong.toml": "[swich]\n"}
    for name, text in files.items():
        (inside / name).write_text(text)
        (inside / name).chmod(0o755)
    binds = {
        Path(penstock_net.__file__).parents[1]: "/opt/code",
        sysconfig.get_path("purelib"): "/opt/site",
        sys.base_prefix: "/opt/python",
        inside: "/in",
        inside / "penstock": "/usr/local/bin/penstock",
        inside / "trial.target": "/etc/systemd/system/trial.target",
        inside / "trial.service": "/etc/systemd/system/trial.service",
    }
    words = [
        "systemd-nspawn",
        "-D",
        str(base),
        "--volatile=overlay",
        "-M",
        f"penstock-{os.getpid()}",
        "--register=no",
        "--keep-unit",
    ]
    words += ["--private-network", "--bind=/dev/net/tun", f"--bind={out}:/out", *(f"--bind-ro={a}:{b}" for a, b in binds.items())]
    words += ["-b", "--", "systemd.unit=trial.target"]
    script = 'mount --make-rprivate / && mount --bind / "$0" && exec "$@"'
    boot = ["timeout", "-k", "5", "400", "unshare", "-m", "sh", "-c", script, str(base), *words]
    done = subprocess.run(boot, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if not (out / "log").exists():
        pytest.skip(f"systemd does not boot here: {(done.stderr or done.stdout)[-300:]}")
    said = (out / "log").read_text()
    for what in (
        "lab started: 0",
        "nothing was sent; if that user runs the switch: --allow-uid",
        "not trusted: 2",
        "shown: 0",
        "reloaded: 0",
        "th_goal    16 KB",
        "upgraded: 0",
        "frames pass\nrestarts: 0",
        "CapEff:\t0000000000201000\nCapBnd:\t0000000000201000\nSeccomp:\t2",  # CAP_NET_ADMIN, CAP_SYS_ADMIN
        "stopped: 0 success",
        "plain started: 0\n1\n",
        "only the switch's own user may do that",
        "member may not: 2",
        "wrong: failed 0",
    ):
        assert what in said, said
    assert said.count("frames pass") == 3 and "Traceback" not in said and said.endswith("end\n"), said
