"""A simulated AutoDL: containers with real sshds inside, disks that outlive power-off, and a file system per region.

A region is one process that holds a mount namespace, and in it every disk of the region: capped tmpfs, invisible to
the host. A box is a set of namespaces made inside that one. Its pid namespace is its power: when its first process
ends, by `shutdown` inside or `power_off` outside, the kernel kills all that ran there, and the disks stay with the
region. Everything dies with the test, by pid, even when the test itself is killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Dict, Iterator, List, Optional, Sequence, Type

from tests.support import autodl_image as image
from tests.support import processes
from tests.support.beds import Bed
from tests.support.parts import box_namespaces, find_program, joined_namespaces
from tests.support.sshd import free_port, make_key

DATA = "/root/autodl-tmp"
SHARED = "/root/autodl-fs"
PUBLIC = "/root/autodl-pub"
TURBO = "/etc/network_turbo"
CARD = "NVIDIA GeForce RTX 4090, 24564"

_UP_LIMIT_S = 60.0
_REGION = (
    'set -eu; mount -t tmpfs -o size=1m,mode=755 tmpfs "$1"; mkdir "$1/fs" "$1/pub" "$1/boxes"; '
    'mount -t tmpfs -o "size=$2,nr_inodes=$3,mode=755" tmpfs "$1/fs"; mount -t tmpfs -o size=1m tmpfs "$1/pub"; '
    "echo held; exec cat"
)
_DISKS = (
    'set -eu; cd "$1"; mkdir system data m fs pub python-lib cgroup; '
    'mount -t tmpfs -o "size=$2,mode=755" tmpfs system; mount -t tmpfs -o "size=$3,mode=755" tmpfs data; '
    "mkdir system/root system/upper system/work; "
    'mount --bind ../../fs fs; mount --bind ../../pub pub; mount --bind "$4" python-lib'
)
_RELEASE = 'cd "$1"; umount system data'


class AutodlCloud:
    """Regions and boxes, and one ssh config that reaches them all. A context manager: nothing outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.key = self.folder / "client_key"
        self.config = self.folder / "ssh_config"
        self.regions: List[Region] = []
        self.boxes: List[AutodlBox] = []
        make_key(self.key)
        self.write_config()

    def __enter__(self) -> AutodlCloud:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    @property
    def environment(self) -> Dict[str, str]:
        """What `lease` needs to reach the boxes."""
        return {"LEASEHOLD_SSH": shlex.join(self.ssh_command)}

    @property
    def ssh_command(self) -> List[str]:
        """The start of an ssh command line; a box goes by its name, or by root@127.0.0.1 and its port."""
        return ["ssh", "-F", str(self.config)]

    def region(self, fs_bytes: int = 20 * image.GIB, fs_inodes: int = 200_000) -> Region:
        """Open one more region, with a file system of its own."""
        made = Region(self.folder / ("region-%d" % len(self.regions)), fs_bytes, fs_inodes)
        self.regions.append(made)
        return made

    def rent(self, region: Optional[Region] = None, **options: object) -> AutodlBox:
        """Create an instance and power it on; options are those of AutodlBox."""
        made = AutodlBox(self, region or (self.regions[0] if self.regions else self.region()), **options)  # type: ignore[arg-type]
        self.boxes.append(made)
        made.power_on()
        return made

    def write_config(self) -> None:
        """Name every box that is on; as with a provider's console, whoever connects looks again."""
        lines: List[str] = []
        for box in self.boxes:
            lines += ["Host %s" % box.name, "HostName 127.0.0.1", "Port %d" % box.port, "User root"]
        lines += [
            "Host *",
            'IdentityFile "%s"' % self.key,
            "IdentitiesOnly yes",
            "IdentityAgent none",
            'UserKnownHostsFile "%s"' % (self.folder / "known_hosts"),
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking accept-new",
            "BatchMode yes",
            "ConnectTimeout 10",
            "LogLevel ERROR",
        ]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def close(self) -> None:
        """Power every box off and let the regions go, with all their disks."""
        for box in self.boxes:
            box.power_off()
            box.forget()
        for region in self.regions:
            region.close()


class Region:
    """A data centre: holds disks, and the file system that all its boxes share and no other region sees."""

    def __init__(self, folder: Path, fs_bytes: int, fs_inodes: int) -> None:
        self._place = folder
        folder.mkdir(parents=True)
        words = [*box_namespaces("--mount"), *_dying_with_us(), "sh", "-c", _REGION, "region", str(folder)]
        self._holder = subprocess.Popen(
            [*words, str(fs_bytes), str(fs_inodes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"held\n":
            self.close()
            raise RuntimeError("no region could be made; see what mount said above")
        (self.seen(folder) / "pub" / "README").write_text("public data sets\n", encoding="utf-8")

    @property
    def pid(self) -> int:
        """The process that holds the disks."""
        return self._holder.pid

    def grow(self, fs_inodes: int) -> None:
        """Give the shared file system room for more files, as buying more of it does."""
        words = ["mount", "-o", "remount,nr_inodes=%d" % fs_inodes, str(self._place / "fs")]
        subprocess.run([*joined_namespaces(self.pid), *words], check=True, timeout=60)

    @property
    def shared(self) -> Path:
        """The shared file system, from behind."""
        return self.seen(self._place) / "fs"

    def seen(self, place: Path) -> Path:
        """A path of the region's mount namespace, as this process can open it."""
        return Path("/proc/%d/root%s" % (self.pid, place))

    def disks(self, name: str, system_bytes: int, data_bytes: int) -> Path:
        """Make a system and a data disk; returns their folder, as the region names it."""
        place = self._place / "boxes" / name
        self.seen(place).mkdir()
        self.do(_DISKS, str(place), str(system_bytes), str(data_bytes), image.python_lib())
        return place

    def do(self, script: str, *words: str) -> None:
        """Run a shell script among the disks."""
        done = subprocess.run(
            [*joined_namespaces(self.pid), "sh", "-c", script, "region", *words], capture_output=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode("utf-8", "replace"))

    def release(self, place: Path) -> None:
        """Delete a box's disks."""
        self.do(_RELEASE, str(place))

    def close(self) -> None:
        """Let go: with the last process of its namespace, every disk is gone."""
        for pipe in (self._holder.stdin, self._holder.stdout):
            if pipe is not None:
                pipe.close()
        self._holder.kill()
        self._holder.wait()


class AutodlBox:
    """One instance: on, off with its disks kept, or released."""

    def __init__(
        self,
        cloud: AutodlCloud,
        region: Region,
        name: str = "",
        system_bytes: int = 3 * image.GIB,
        data_bytes: int = 5 * image.GIB,
        card: str = CARD,
    ) -> None:
        """Make disks and write the image; the box is off."""
        self.name = name or "autodl-%d" % len(cloud.boxes)
        self.region = region
        self.port = 0
        self.released = False
        self._cloud = cloud
        self._card = card
        self._machine: Optional[subprocess.Popen[bytes]] = None
        self._spaces: Dict[str, int] = {}  # of every boot, each held open: a free one's number is soon another's
        self._log = cloud.folder / ("%s.log" % self.name)
        key = cloud.folder / ("%s.host_key" % self.name)
        make_key(key)
        self._disks = region.disks(self.name, system_bytes, data_bytes)
        image.write_image(self.behind("/"), key, Path("%s.pub" % cloud.key), card)
        self.turbo(image.TURBO.format(port=9))

    # ------------------------------------------------------------ what the console shows and does

    @property
    def on(self) -> bool:
        """Whether it runs, and so is billed by the hour."""
        return self._machine is not None and self._machine.poll() is None

    @property
    def ssh_line(self) -> str:
        """The login command as the console shows it; the port is another after each power-on."""
        return "ssh -p %d root@127.0.0.1" % self.port

    def power_on(self) -> None:
        """开机: the same disks, another port, another boot. Idempotent."""
        self._power_on(image.WITH_CARD, "yes")

    def power_on_without_gpu(self) -> None:
        """无卡模式开机: the same box without its card, half a core, 2 GB. Idempotent."""
        self._power_on(image.WITHOUT_CARD, "no")

    def power_off(self) -> None:
        """关机: everything that runs there is killed; the disks stay. Idempotent."""
        machine = self._machine
        if machine is None:
            return
        processes.end(self.leftovers)  # its first process among them, which unshare waits for and reaps
        machine.kill()
        machine.wait()
        self._machine = None

    def wait_off(self, limit_s: float = 60.0) -> None:
        """Wait until a `shutdown` from inside has ended it."""
        if self._machine is not None:
            self._machine.wait(limit_s)
            processes.end(self.leftovers)
            self._machine = None

    def release(self) -> None:
        """释放: system and data disk are deleted, the region's file system stays; only when off. Idempotent."""
        if self.on:
            raise RuntimeError("power it off first")
        if not self.released:
            self.region.release(self._disks)
        self.released = True

    # ------------------------------------------------------------ from the inside and from behind

    def run(self, command: str, stdin: bytes = b"", timeout_s: float = 60.0) -> subprocess.CompletedProcess[bytes]:
        """Run one shell command over a fresh ssh connection."""
        words = [*self._cloud.ssh_command, self.name, command]
        return subprocess.run(words, input=stdin, capture_output=True, timeout=timeout_s, check=False)

    def behind(self, path: str) -> Path:
        """A path of the box as this process can open it, on or off; never resolve() it, for it leads through /proc."""
        if path.startswith(SHARED):
            return self.region.shared / path[len(SHARED) :].lstrip("/")
        if path.startswith(DATA):
            return self.region.seen(self._disks) / "data" / path[len(DATA) :].lstrip("/")
        return self.region.seen(self._disks) / "system" / "root" / path.lstrip("/")

    def turbo(self, text: str) -> None:
        """Replace /etc/network_turbo."""
        self.behind(TURBO).write_text(text, encoding="utf-8")

    def live(self) -> List[int]:
        """List the processes inside, by the pids they have out here."""
        return [pid for pid in processes.snapshot() if _pid_namespace(pid) in list(self._spaces)[-1:]]

    def leftovers(self) -> List[int]:
        """List what still runs of any of its boots."""
        return [pid for pid in processes.snapshot() if _pid_namespace(pid) in self._spaces]

    def _power_on(self, size: image.Size, cards: str) -> None:
        if self.released:
            raise RuntimeError("%s was released" % self.name)
        if self.on:
            return
        image.write_cgroup(self.region.seen(self._disks) / "cgroup", size)
        for _ in range(20):
            self.port = free_port(self.port)
            if self._start(size, cards):
                self._cloud.write_config()
                return
        raise RuntimeError("%s does not start: %s" % (self.name, self._log.read_text(errors="replace")[-2000:]))

    def _start(self, size: image.Size, cards: str) -> bool:
        facts = [str(self.port), str(uuid.uuid4()), "autodl-container-%s" % self.name, str(size.memory_bytes // 2)]
        spaces = box_namespaces("--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
        words = [
            *joined_namespaces(self.region.pid),
            *_dying_with_us(),
            *spaces,
            "sh",
            str(image.SCRIPTS / "assemble.sh"),
            str(self._disks),
            *facts,
            cards,
            image.python_lib(),
        ]
        with self._log.open("ab") as log:
            written = log.tell()
            self._machine = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if self._listens(self._machine, written):
            for pid in processes.descendants(self._machine.pid, lambda p: True):
                self._hold(pid)
            return True
        self._machine.kill()
        self._machine.wait()
        self._machine = None
        return False

    def _hold(self, pid: int) -> None:
        """Keep the namespace that a process of ours is in, never our own: all that runs in these is killed."""
        with contextlib.suppress(OSError):  # it has ended
            handle = os.open("/proc/%d/ns/pid" % pid, os.O_RDONLY | os.O_CLOEXEC)
            space = os.readlink("/proc/self/fd/%d" % handle)
            if space in self._spaces or space == _pid_namespace(os.getpid()):
                os.close(handle)
            else:
                self._spaces[space] = handle

    def forget(self) -> None:
        """Let the namespaces go, when nothing of the box is left."""
        while self._spaces:
            os.close(self._spaces.popitem()[1])

    def _listens(self, machine: subprocess.Popen[bytes], written: int) -> bool:
        deadline = time.monotonic() + _UP_LIMIT_S
        with self._log.open("rb") as log:
            while time.monotonic() < deadline and machine.poll() is None:
                log.seek(written)
                if b"Server listening on" in log.read():
                    return True
                time.sleep(0.005)
        return False


class AutodlBed(Bed):
    """An AutoDL box as `lease` reaches it by name, our folder on its data disk."""

    def __init__(self, cloud: AutodlCloud, box: AutodlBox) -> None:
        self.cloud = cloud
        self.box = box
        # The folder's name is nobody else's, since command lines of other beds' boxes can be seen from here too.
        self.place = "%s/%d-%d/.leasehold" % (DATA, os.getpid(), random.SystemRandom().getrandbits(32))
        self.root = box.behind(self.place)
        self.on = ("--on", "ssh:" + box.name, "--root", self.place)
        self.environment = cloud.environment

    def links(self, homes: List[int]) -> List[int]:
        """List the lease processes' own ssh children."""
        return [p.pid for p in processes.snapshot().values() if p.name == "ssh" and p.parent in homes]

    def leftovers(self) -> List[int]:
        """List what runs inside beside the box's first process and its sshd."""
        live = processes.snapshot()
        return [pid for pid in self.box.live() if pid in live and live[pid].name not in ("boot.sh", "sshd")]


@contextlib.contextmanager
def autodl_bed(folder: Path) -> Iterator[AutodlBed]:
    """Give one AutoDL box in a cloud of its own."""
    with AutodlCloud(folder / "autodl") as cloud:
        yield AutodlBed(cloud, cloud.rent())


def _dying_with_us() -> Sequence[str]:
    """The command's prefix that has the kernel kill it when this process dies, however that happens."""
    return [find_program("setpriv") or "setpriv", "--pdeathsig", "KILL"]


def _pid_namespace(pid: int) -> str:
    try:
        return os.readlink("/proc/%d/ns/pid" % pid)
    except OSError:
        return ""
