"""A real Slurm cluster on loopback: munged, slurmctld and a few slurmd, all foreground children of the test."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Dict, NamedTuple

from tests.support.ports import free_ports
from tests.support.slurm_books import SlurmBooks

_SBIN = "/usr/sbin"
_UP_WITHIN_S = 60.0
_GPUS_A_NODE = 4

_CONF = """\
FirstJobId=1
ClusterName=lease
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
MailProg=/bin/true
MpiDefault=none
ReturnToService=1
SlurmdTimeout=30
MessageTimeout=10
KillWait=3
MinJobAge=600
MaxArraySize=10001
MaxJobCount=20000
JobRequeue=1
JobSubmitPlugins=lua
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.txt
{more}
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 SocketsPerBoard=1 \
CoresPerSocket=8 ThreadsPerCore=1 RealMemory=16000 Gres=gpu:a100:{gpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES DefMemPerCPU=100 PriorityTier=1 State=UP
PartitionName=once Nodes=ALL DefMemPerCPU=100 PriorityTier=1 State=UP
PartitionName=short Nodes=n1 DefMemPerCPU=100 MaxTime=00:05:00 PriorityTier=1 State=UP
PartitionName=urgent Nodes=ALL DefMemPerCPU=100 PriorityTier=10 PreemptMode=OFF State=UP
"""


_BARE = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType="
_MEMORY = {  # who sees to it that a job keeps to what it asked for
    "": _BARE + "jobacct_gather/none",
    "polled": _BARE + "jobacct_gather/linux\nJobAcctGatherParams=OverMemoryKill\nJobAcctGatherFrequency=1",
    "cgroup": """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=1""",
}
# A site that lets nobody requeue in its partition `once`, whatever the job asks for.
_POLICY = """\
function slurm_job_submit(job, parts, uid)
  if job.partition == "once" then job.requeue = 0 end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, parts, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""


class Site(NamedTuple):
    """What sites differ in."""

    books: bool = False  # slurmdbd with a database: sacct answers
    memory: str = ""  # limited by a "cgroup", as root; "polled" by slurmd every second


USUAL = Site()


class SlurmCluster:
    """Virtual nodes n1..nN with four pretended A100 each.

    The partition `urgent` preempts `main`, `once` requeues nothing, `short` ends everything after five minutes.
    """

    def __init__(self, folder: Path, nodes: int = 4, site: Site = USUAL) -> None:
        self.folder = folder
        self.nodes = nodes
        self.site = site
        self._first_job = 1
        self.books = SlurmBooks(folder, self._start) if site.books else None
        self.home = folder / "home"  # of the user, on the login node and on every node
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "TZ": "UTC", "HOME": str(self.home)}
        self._children: "Dict[str, subprocess.Popen[bytes]]" = {}

    def __enter__(self) -> SlurmCluster:
        try:
            self._write()
            self._start_munge()
            if self.books:
                self.books.start()
            self.start_controller("-i", "-c")
            for number in range(1, self.nodes + 1):
                self.start_node(number)
            self._wait_idle()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def run(self, *argv: str) -> str:
        """Run a command as the cluster's user; return what it printed."""
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{argv}: {done.stderr or done.stdout}")
        return done.stdout.strip()

    def start_controller(self, *flags: str) -> None:
        """Start slurmctld; without flags it takes up its saved state."""
        self._start("slurmctld", f"{_SBIN}/slurmctld", "-D", "-f", str(self.folder / "slurm.conf"), *flags)

    def forget_jobs(self) -> None:
        """Have the controller forget every job, as it does when MinJobAge is over; numbers go on where they were."""
        conf = self.folder / "slurm.conf"
        text = conf.read_text()
        self._first_job += 1000
        conf.write_text(f"FirstJobId={self._first_job}\n" + text.split("\n", 1)[1])
        self.end("slurmctld")
        self.start_controller("-i", "-c")
        self._wait_idle()

    def start_node(self, number: int) -> None:
        """Start the slurmd of a node."""
        conf = str(self.folder / "slurm.conf")
        self._start(f"n{number}", f"{_SBIN}/slurmd", "-D", "-f", conf, "-N", f"n{number}")

    def end(self, name: str, *, kill: bool = False) -> None:
        """End one daemon by its pid."""
        child = self._children.pop(name)
        child.kill() if kill else child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def stop(self) -> None:
        """End every daemon and what still runs of its jobs."""
        if "slurmctld" in self._children:
            everything = ["scancel", "-u", getpass.getuser(), "--full"]
            subprocess.run(everything, env=self.environ, capture_output=True, check=False)
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and self._queue():
                time.sleep(0.1)
        daemons = ("slurmctld", "slurmdbd", "mariadbd", "munged")
        for name in [name for name in self._children if name.startswith("n")] + list(daemons):
            if name in self._children:
                self.end(name)

    def _queue(self) -> str:
        asked = ["squeue", "-h", "-t", "R,CG"]
        return subprocess.run(asked, env=self.environ, capture_output=True, text=True, check=False).stdout.strip()

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for name in ("state", "dev", *(f"spool.n{number}" for number in range(1, self.nodes + 1))):
            (self.folder / name).mkdir()
        self.home.mkdir(0o700)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        for number in range(_GPUS_A_NODE):
            (self.folder / f"dev/nvidia{number}").symlink_to("/dev/null")
        port = free_ports(self.nodes + 1)
        facts = {
            "host": socket.gethostname().split(".")[0], "user": getpass.getuser(), "folder": self.folder,
            "port": port, "first": port + 1, "last": port + self.nodes, "nodes": self.nodes, "gpus": _GPUS_A_NODE,
            "more": self._more(),
        }  # fmt: skip
        (self.folder / "slurm.conf").write_text(_CONF.format(**facts))
        cards = f"{self.folder}/dev/nvidia[0-{_GPUS_A_NODE - 1}]"
        (self.folder / "gres.conf").write_text(f"NodeName=n[1-{self.nodes}] Name=gpu Type=a100 File={cards}\n")
        limits = "ConstrainRAMSpace=yes\nAllowedSwapSpace=0\n" if self.site.memory == "cgroup" else ""
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n" + limits)
        (self.folder / "job_submit.lua").write_text(_POLICY)

    def _more(self) -> str:
        books = self.books.conf if self.books else "AccountingStorageType=accounting_storage/none"
        return "\n".join([_MEMORY[self.site.memory], books])

    def _start_munge(self) -> None:
        at = {
            "--key-file": "munge.key",
            "--socket": "munge.sock",
            "--pid-file": "munged.pid",
            "--log-file": "munged.log",
        }
        files = [word for flag, name in at.items() for word in (flag, str(self.folder / name))]
        seed = ["--seed-file", str(self.folder / "munge.seed")]
        self._start("munged", f"{_SBIN}/munged", "-F", "--force", *files, *seed)
        _until((self.folder / "munge.sock").exists, "munged gave no socket")

    def _wait_idle(self) -> None:
        def idle() -> bool:
            asked = ["sinfo", "-h", "-r", "-N", "-p", "main", "-t", "idle", "-o", "%N"]
            done = subprocess.run(asked, env=self.environ, capture_output=True, text=True, check=False)
            return len(done.stdout.split()) == self.nodes

        _until(idle, "the nodes did not come up")

    def _start(self, name: str, *argv: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            self._children[name] = subprocess.Popen(
                argv, env=self.environ, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip


def _until(true: object, otherwise: str) -> None:
    deadline = time.monotonic() + _UP_WITHIN_S
    while not true():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.05)
