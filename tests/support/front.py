"""A person at the front door: an empty home, a project, and `lease` as a real process with a real exit code."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from tests.support import processes
from tests.support.parts import find_program
from tests.support.sshd import MARK

SOURCES = Path(__file__).resolve().parents[2] / "src"
LEASE = [sys.executable, "-m", "leasehold"]
NO_SMOKE = ("--skip-gate", "smoke", "--because", "the test is about something else")  # a metered box wants one
ONE_SYSTEM = ("--facts-checked", "box and home are this one machine")  # as they are behind a door on loopback
_PATIENCE_S = 180.0

# Mounts a tmpfs, fills it when asked to, and becomes the command. The fill stops at the mount's end or its bound.
_WITH_TMPFS = (
    'mount -t tmpfs -o "$1" tmpfs "$2" || exit 97; '
    'if [ "$3" -gt 0 ] && mountpoint -q "$2"; then head -c "$3" /dev/zero > "$2/filler" 2>/dev/null; fi; '
    'shift 3; exec "$@"'
)


class Done(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str  # data
    said: str  # everything a person is told


class Tmpfs(NamedTuple):
    """A small disk, mounted for one command in a namespace of its own."""

    place: Path
    options: str
    fill_bytes: int = 0

    def words(self) -> List[str]:
        """Spell the prefix of a command that sees it."""
        mapped = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
        unshare = [find_program("unshare") or "unshare", *mapped, "--mount", "--"]
        return [*unshare, "/bin/sh", "-c", _WITH_TMPFS, "sh", self.options, str(self.place), str(self.fill_bytes)]


class Front:
    """One person: a home, a project folder, and the commands they type there."""

    def __init__(self, folder: Path, environment: Optional[Mapping[str, str]] = None, home: str = "home") -> None:
        self.folder = folder
        self.home = folder / home
        self.project = folder / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        self._mark = "front-%d-%d" % (os.getpid(), random.SystemRandom().getrandbits(48))
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LEASE")}
        self.environment: Dict[str, str] = {
            **kept,
            "PYTHONPATH": str(SOURCES),
            "LEASEHOLD_HOME": str(self.home),
            "NO_COLOR": "1",
            MARK: self._mark,
            **(environment or {}),
        }

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    def job(self, **change: Any) -> None:
        """Write lease.yaml; JSON is YAML."""
        value = {"name": "toy", "run": "python3 -I -S train.py", "artifacts": {"result.json": "json"}, **change}
        self.write("lease.yaml", json.dumps({key: item for key, item in value.items() if item is not None}))

    def lease(self, *words: str, disk: Optional[Tmpfs] = None, prefix: Sequence[str] = (), **environment: str) -> Done:
        """Run one command to its end, in the project's folder."""
        asked = [*prefix, *(disk.words() if disk else []), *LEASE, *words]
        done = subprocess.run(
            asked,
            cwd=str(self.project),
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_PATIENCE_S,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def events(self, kind: str = "") -> List[Dict[str, Any]]:
        """Read this home's ledger: each event's data with its kind and run."""
        path = self.home / "ledger.sqlite"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=30)) as db:
            rows = db.execute("SELECT kind, run, data FROM events ORDER BY seq").fetchall()
        found = [{**json.loads(data), "kind": name, "run": run} for name, run, data in rows]
        return [event for event in found if not kind or event["kind"] == kind]

    def gates(self) -> Dict[str, str]:
        """Say how each gate judged last."""
        return {str(event["gate"]): str(event.get("outcome", "")) for event in self.events("gate_judged")}

    @property
    def box_root(self) -> Path:
        """Our folder on this machine as a box."""
        return self.home / "boxes" / "local"

    def runs_on_box(self) -> List[str]:
        """List what was started on this machine as a box."""
        active = self.box_root / "active"
        return (
            sorted(path.name for path in active.iterdir() if (path / "plan.json").exists()) if active.is_dir() else []
        )

    def leftovers(self) -> List[int]:
        """List what our commands left running."""
        return processes.marked("%s=%s" % (MARK, self._mark), os.path.realpath(self.folder))


@contextlib.contextmanager
def front(folder: Path, environment: Optional[Mapping[str, str]] = None, home: str = "home") -> Iterator[Front]:
    """Give a person, and end whatever they left running."""
    person = Front(folder, environment, home)
    try:
        yield person
    finally:
        processes.end(person.leftovers)


def program(folder: Path, name: str, script: str) -> Path:
    """Write a small program into folder/bin, to be put first on PATH."""
    place = folder / "bin"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text("#!/bin/sh\n" + script, encoding="utf-8")
    (place / name).chmod(0o755)
    return place


_HEALTHY = {  # what a card with ECC answers to nvidia-smi --query-gpu; a name that is not here is [N/A]
    "persistence_mode": "Enabled",
    "memory.used": "3",
    "driver_version": "550.54.15",
    "utilization.gpu": "0",
    "temperature.gpu": "31",
    "clocks.current.sm": "300",
    "clocks.max.sm": "1980",
    "power.draw": "60.12",
    "enforced.power.limit": "400.00",
    "power.default_limit": "400.00",
    "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0",
    "ecc.errors.corrected.volatile.total": "0",
    "clocks_throttle_reasons.hw_slowdown": "Not Active",
    "clocks_throttle_reasons.hw_thermal_slowdown": "Not Active",
    "clocks_throttle_reasons.hw_power_brake_slowdown": "Not Active",
    "clocks_throttle_reasons.sw_thermal_slowdown": "Not Active",
    "clocks_throttle_reasons.sw_power_cap": "Not Active",
}
_SMI = """case "$1" in --query-gpu=*) ;; "") printf '%%s\\n' %(names)s; exit 0 ;; *) exit 0 ;; esac
IFS=,
for card in %(cards)s; do
    row=
    for name in ${1#--query-gpu=}; do
        case "$card:$name" in
%(answers)s        *) value='[N/A]' ;;
        esac
        row="$row${row:+, }$value"
    done
    echo "$row"
done
"""


def smi_script(cards: Sequence[str], changes: Sequence[Mapping[str, str]] = ()) -> str:
    """Write the text of an nvidia-smi for these cards ("NVIDIA T4, 15360"); changes are answers of each card."""
    answers = ""
    for number, card in enumerate(cards):
        name, _, mib = card.rpartition(", ")
        known = {"index": str(number), "uuid": "GPU-%d" % number, "pci.bus_id": "00000000:%02X:00.0" % (0x3B + number)}
        known.update(_HEALTHY, name=name, **{"memory.total": mib})
        known.update(changes[number] if number < len(changes) else {})
        answers += "".join("        %d:%s) value='%s' ;;\n" % (number, key, value) for key, value in known.items())
    names = " ".join("'%s'" % card for card in cards)
    return _SMI % {"names": names, "cards": " ".join(map(str, range(len(cards)))), "answers": answers}


def fake_cards(
    folder: Path, *names_and_mib: str, changes: Sequence[Mapping[str, str]] = (), kernel: Optional[str] = ""
) -> Dict[str, str]:
    """Write an nvidia-smi that lists these healthy cards ("NVIDIA T4, 15360"), and a dmesg with these lines.

    Return the PATH that finds both; without lines (None) the kernel log may not be read.
    """
    place = program(folder, "nvidia-smi", smi_script(names_and_mib, changes))
    refused = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1\n"
    program(folder, "dmesg", refused if kernel is None else "cat <<'EOF'\n%s\nEOF\n" % kernel)
    return {"PATH": "%s:%s" % (place, os.environ["PATH"])}
