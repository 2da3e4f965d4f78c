"""The box's real limits: the cgroup's, not the host's; inodes as well as bytes."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

_CGROUPS = "/sys/fs/cgroup"
_OWN_CGROUPS = "/proc/self/cgroup"
_MEMORY_FILES = (  # controller, limit, used, what the kernel can take back at once, source
    ("", "memory.max", "memory.current", "inactive_file", "cgroup v2"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "cgroup v1"),
)
_NO_LIMIT = 1 << 60  # cgroup v1 writes "none" as a huge number


def disk(path: str) -> Dict[str, Any]:
    """Return bytes and inodes of the filesystem under path, its type, and whether path is a mount of its own."""
    expanded = os.path.expanduser(path)
    if not os.path.exists(expanded):
        return {"path": path, "exists": False}
    real = os.path.realpath(expanded)
    point, kind = mount_of(real)
    return {
        "path": path,
        "exists": True,
        "real": real,
        "mount": point,
        "filesystem": kind,
        "is_mount": real == point,
        "device": os.stat(real).st_dev,
        "read_only": bool(os.statvfs(real).f_flag & getattr(os, "ST_RDONLY", 1)),
        **room(real),
    }


def room(path: str) -> Dict[str, int]:
    """Return bytes and inodes in one form for every judge; `usable` excludes root's reserve, as df does."""
    figures = os.statvfs(path)
    kept = (figures.f_bfree - figures.f_bavail) * figures.f_frsize
    total = figures.f_blocks * figures.f_frsize
    return {
        "total_bytes": total,
        "usable_bytes": max(0, total - kept),
        "free_bytes": figures.f_bavail * figures.f_frsize,
        "total_inodes": figures.f_files,
        "free_inodes": figures.f_favail,
    }


def write_probe(path: str) -> str:
    """Write, read back and delete a small file; return what went wrong, or nothing."""
    name = os.path.join(os.path.expanduser(path), ".leasehold-probe-%d" % os.getpid())
    text = os.urandom(64)
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, text)
            os.fsync(fd)
            os.lseek(fd, 0, os.SEEK_SET)
            same = os.read(fd, 100) == text
        finally:
            os.close(fd)
            os.unlink(name)
    except OSError as error:
        return "%s: %s" % (name, error.strerror or error)
    return "" if same else "%s: read back other bytes than were written" % name


def memory() -> Dict[str, Any]:
    """Return the limit at which we are killed: the tightest of our cgroup and its parents, else the machine's."""
    total, available = _meminfo()
    for controller, limit_file, used_file, idle, source in _MEMORY_FILES:
        limits = [(_number(os.path.join(folder, limit_file)), folder) for folder in _own_cgroups(controller)]
        real = [(limit, folder) for limit, folder in limits if limit is not None and limit < (total or _NO_LIMIT)]
        if real:
            limit, folder = min(real)
            used = _number(os.path.join(folder, used_file))
            if used is not None:  # page cache that the kernel can drop causes no kill
                used -= min(used, _stat(os.path.join(folder, "memory.stat"), idle))
            return {"limit_bytes": limit, "used_bytes": used, "source": source, "oom_kills": oom_kills()}
    used = total - available if total is not None and available is not None else None
    return {"limit_bytes": total, "used_bytes": used, "source": "machine", "oom_kills": oom_kills()}


def oom_kills() -> Optional[int]:
    """Return how often the kernel killed in this cgroup."""
    for controller, name in (("", "memory.events"), ("memory", "memory.oom_control")):
        for folder in reversed(_own_cgroups(controller)):
            found = _stat(os.path.join(folder, name), "oom_kill", -1)
            if found >= 0:
                return found
    return None


def cpu() -> Dict[str, Any]:
    """Return the cores we may use: the cgroup's quota, and what the scheduler shows."""
    quotas = []
    for folder in _own_cgroups(""):
        words = _text(os.path.join(folder, "cpu.max")).split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
            quotas.append(int(words[0]) / int(words[1]))
    for folder in _own_cgroups("cpu"):
        quota = _number(os.path.join(folder, "cpu.cfs_quota_us"))
        period = _number(os.path.join(folder, "cpu.cfs_period_us"))
        if quota is not None and period and quota > 0:
            quotas.append(quota / period)
    shown = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"quota": min(quotas) if quotas else None, "visible": shown}


def mount_of(path: str) -> Tuple[str, str]:
    """Return the mount point above path, and its filesystem."""
    best, kind = "/", ""
    for line in _text("/proc/self/mounts").splitlines():
        words = line.split()
        if len(words) < 3:
            continue
        point = words[1].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, words[2]
    return best, kind


def _meminfo() -> Tuple[Optional[int], Optional[int]]:
    found = {}
    for line in _text("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if rest.split()[:1] and rest.split()[0].isdigit():
            found[name] = int(rest.split()[0]) * 1024
    return found.get("MemTotal"), found.get("MemAvailable")


def _own_cgroups(controller: str) -> List[str]:
    """List the folder of the controller's mount and those down to our own cgroup, as far as they are there.

    In a container the mount is our own; on a shared node (Slurm, systemd) ours lies deeper. "" is version 2.
    """
    folders = [os.path.join(_CGROUPS, controller)]
    for line in _text(_OWN_CGROUPS).splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        if controller not in names.split(","):
            continue
        for part in path.split("/"):
            deeper = os.path.join(folders[-1], part)
            if part == ".." or not os.path.isdir(deeper):
                break  # the path is the host's, and this mount is not
            if part:
                folders.append(deeper)
    return folders


def _stat(path: str, word: str, default: int = 0) -> int:
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == word and words[1].isdigit():
            return int(words[1])
    return default


def _number(path: str) -> Optional[int]:
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
