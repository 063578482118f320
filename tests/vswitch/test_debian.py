"""The Debian package of the switch, made of few files in place of what pip installs; tools/deb.sh makes the real one."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.daemon import doctor
from penstock_net.vswitch.world import shutil as found

ROOT = Path(__file__).parents[2]
RULES = (ROOT / "packaging/debian/rules").read_text()
BUNDLED = re.search(r"^IMPORTED := (.*)$", RULES, re.M)[1].split()
MISSING = [name for name in ("dpkg-buildpackage", "dh", "dh_python3") if not shutil.which(name)]
CHANGELOG = "penstock (9.9) unstable; urgency=medium\n\n  * It.\n\n -- A <a@example.org>  Fri, 27 Nov 2026 15:15:00 +0000\n"
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from penstock_net.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Names of the package's files, its control files, and the folder of both."""
    if MISSING:
        pytest.skip(f"needs {', '.join(MISSING)}")
    folder = tmp_path_factory.mktemp("deb")
    source = folder / "penstock"
    for name in ("packaging", "man", "docs", "README.md"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, source / name)
    shutil.copytree(ROOT / "packaging/debian", source / "debian")
    (source / "debian/changelog").write_text(CHANGELOG)
    (source / "debian/site/penstock_net").mkdir(parents=True)
    (source / "debian/site/penstock_net/__init__.py").touch()
    command = ["dpkg-buildpackage", "-b", "-nc", "-d", "-us", "-uc"]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    [file] = folder.glob("penstock-vswitch_9.9_*.deb")
    subprocess.run(["dpkg-deb", "-R", file, folder / "in"], check=True)
    inside = folder / "in"
    return {str(path.relative_to(inside)) for path in inside.rglob("*") if path.is_file()}, inside / "DEBIAN", inside


def test_what_is_installed(package):
    files, control, folder = package
    for name in (
        "usr/bin/penstock",
        "opt/cni/bin/penstock",
        "etc/penstock/pods.toml",
        "lib/systemd/system/penstock-vswitch@.service",
        "lib/systemd/system/penstock-vswitch@pods.service.d/namespaces.conf",
        "usr/lib/sysusers.d/penstock-vswitch.conf",
        "usr/lib/penstock-vswitch/penstock_net/__init__.py",
        "usr/share/doc/penstock-vswitch/examples/30-penstock.conflist",
        "usr/share/doc/penstock-vswitch/examples/realtime.conf",
        "usr/share/man/man1/penstock-vswitch-up.1.gz",
    ):
        assert name in files, sorted(files)
    assert all(os.access(folder / name, os.X_OK) for name in ("usr/bin/penstock", "opt/cni/bin/penstock"))
    assert not [name for name in files if name.startswith("usr/share/man/") and "penstock-run" in name]
    assert (control / "conffiles").read_text() == "/etc/penstock/pods.toml\n"


def test_what_is_done_with_running_switches(package):
    """They are stopped when the package is removed, and only then."""
    _, control, _ = package
    scripts = {name: (control / name).read_text() for name in ("postinst", "prerm", "postrm")}
    for name in scripts:
        subprocess.run(["sh", "-n", control / name], check=True)
    assert "systemd-sysusers" in scripts["postinst"] and "py3clean" in scripts["prerm"]
    commands = re.findall(r"^\s*(?:systemctl|deb-systemd-invoke) .*$", "".join(scripts.values()), re.M)
    assert [line.split()[:2] for line in commands] == [["systemctl", "list-units"], ["systemctl", "stop"]], scripts


def run_without(*words):
    """`penstock` where the simulator's packages are not installed, as in the package."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.match(r"[\w-]+", each)[0] for each in dependencies} - {*BUNDLED, "rich", "pydantic"}  # typer brings these
    code = WITHOUT.format(missing=names | {"Cython"})
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)


def test_the_switch_imports_only_what_the_package_has(tmp_path):
    spec, socket = tmp_path / "s.toml", str(tmp_path / "s.sock")
    spec.write_text('[[port]]\nname = "a"\naddresses = ["10.0.0.1"]\n')
    for words in (
        ("--help",),
        ("vswitch", "up", str(spec), "--socket", socket, "--wait"),
        ("vswitch", "show", "ports", "--socket", socket),
        ("vswitch", "top", "--for", "0.1", "--socket", socket),
        ("vswitch", "reload", str(spec), "--socket", socket),
        ("vswitch", "down", "--socket", socket),
    ):
        done = run_without(*words)
        assert done.returncode == 0, done.stderr


def test_what_the_package_has_not(tmp_path):
    """A command of the simulator, and a switch that runs a scheme, say what they need."""
    spec = tmp_path / "s.toml"
    spec.write_text('[switch]\nscheme = "bfc"\n[[port]]\nname = "a"\naddresses = ["10.0.0.1"]\n')
    for words in (("run", "quickstart"), ("vswitch", "up", str(spec), "--socket", str(tmp_path / "s.sock"))):
        done = run_without(*words)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert "is not installed" in done.stderr and "penstock-net" in done.stderr


def test_the_switch_runs_no_program_of_iproute2(package, monkeypatch):
    """Without it, AF_XDP was said not to be permitted, and the namespaces in which the doctor tries things neither."""
    _, control, _ = package
    assert "iproute2" not in re.search(r"^Depends: .*$", (control / "control").read_text(), re.M)[0]
    before = {name: doctor.ability(name).permitted for name in ("namespaces", "xdp")}
    monkeypatch.setattr(found, "which", lambda name: None)
    assert {name: doctor.ability(name).permitted for name in before} == before
    if before["namespaces"]:
        with pytest.raises(PenstockError, match="ip is not installed"), Namespace("a") as a, a.tap("10.5.0.1/24"):
            pass
