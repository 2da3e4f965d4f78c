"""Prepare every shell of ours on this platform: variables before the interpreter starts, and the hook before all.

The hook is shell text of the profile. It runs in the same shell that then becomes the command, so its exports reach
the command. What must hold after it (the job's own variables, ours, the no_proxy union) is set in between by `settle`.
A file marks that a hook is due; it is removed only when the hook has passed, so that no way of failing is missed.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_atomic
from leasehold.kit.run.python_aliases import with_python

SETTLE = "LEASEHOLD_SETTLE"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_ALWAYS_NEAR = ("127.0.0.1", "localhost")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_MAX_THREADS")
_HUB = "huggingface.co"
_FOLDERS = ("_HOME", "_DIR", "_CACHE")  # variables of these names mean folders
_OWN_SWITCHES = ("LEASEHOLD_PAUSE", "LEASEHOLD_FETCH")
_LAST_BYTES = 4000
_LAST_LINES = 6
# A function, so that `set --`, `shift` and `return` in a hook do not affect the command; its `cd` is undone.
_WITH_HOOK = (
    "_leasehold_place=$PWD; "
    '_leasehold_hook() { _leasehold_text=$1; shift; eval "$_leasehold_text"; }; '
    '_leasehold_hook "$1" >&2; _leasehold_code=$?; shift; '
    'if [ "$_leasehold_code" -ne 0 ]; then exit "$_leasehold_code"; fi; '
    'cd "$_leasehold_place" && exec "$@"'
)

_PARCEL = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))  # where `leasehold` lies


class Outfit(NamedTuple):
    """The environment that a command is started with: our paths, the platform's variables, the job's, and our own."""

    root: str
    platform: Mapping[str, Any]
    env: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    ours: Mapping[str, str] = {}
    gpus: int = 1
    without: Sequence[str] = ()  # names that must not be in the environment

    @property
    def hook(self) -> str:
        """The profile's shell text, or an empty string."""
        return str(self.platform.get("hook") or "")

    @property
    def wins(self) -> Dict[str, str]:
        """Variables that no hook and no platform may change."""
        return {**self.env, **self.secrets, **self.ours}

    def environ(self, base: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
        """Layer the platform's variables, caps and PATH over the box's own, and the job's over all."""
        values = dict(os.environ if base is None else base)
        for name in _OWN_SWITCHES:
            values.pop(name, None)
        values["PYTHONUNBUFFERED"] = "1"
        values.update(_filled(self.root, self.platform))
        for name, count in _caps(self.gpus).items():
            values.setdefault(name, count)
        values["PATH"] = _path(values.get("PATH") or os.defpath, str(self.platform.get("interpreter") or ""))
        values.update(self.wins)
        _spare_the_mirror(values)
        for name in self.without:
            values.pop(name, None)
        return with_parcel(with_python(values, self.root))

    def dress(self, argv: Sequence[str], own: Sequence[str], due: str) -> "Dressed":
        """Build a command with its environment; `own` is the command line of our `settle` door."""
        environ = self.environ()
        near = [str(item) for item in self.platform.get("no_proxy") or []]
        if not self.hook:
            return Dressed(list(argv), {**environ, **no_proxy(environ, near)})
        write_atomic(due, self.hook.encode("utf-8"))
        environ[SETTLE] = json.dumps({"wins": self.wins, "no_proxy": near, "due": due, "root": self.root})
        return Dressed([*_shell(), "-c", _WITH_HOOK, "hook", self.hook, *own, *argv], environ)


def _shell() -> List[str]:
    """Choose bash, for which vendors write hooks, without ssh's variables: with them it would read ~/.bashrc."""
    return ["/bin/bash", "--norc"] if os.access("/bin/bash", os.X_OK) else ["/bin/sh"]


class Dressed(NamedTuple):
    """A command line and the environment that it starts with."""

    argv: List[str]
    environ: Dict[str, str]


def outfit_of(folder: RunFolder, plan: Mapping[str, Any], ours: Mapping[str, str]) -> Outfit:
    """Collect what commands of a run start with."""
    job = plan["job"]
    return Outfit(
        root=folder.root,
        platform=folder.platform(),
        env=job.get("env") or {},
        secrets=read_json(folder.secrets) or {},
        ours=ours,
        gpus=int((job.get("gpu") or {}).get("count") or 1),
    )


def with_parcel(environ: Dict[str, str]) -> Dict[str, str]:
    """Put our parcel last on PYTHONPATH: `from leasehold.checkpoint import Checkpointer` needs no install."""
    others = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != _PARCEL]
    return {**environ, "PYTHONPATH": os.pathsep.join([*others, _PARCEL])}


def settle(argv: List[str]) -> NoReturn:
    """Run after the hook: set the job's variables last, then become the command."""
    environ = dict(os.environ)
    wanted = json.loads(environ.pop(SETTLE, "{}"))
    environ.update(wanted.get("wins") or {})
    environ.update(no_proxy(environ, wanted.get("no_proxy") or []))
    _spare_the_mirror(environ)
    os.unlink(wanted["due"])
    os.execvpe(argv[0], argv, with_parcel(with_python(environ, wanted["root"])))


def hook_failed(due: str, code: Optional[int], log: str) -> Optional[Dict[str, Any]]:
    """Return how the hook ended a command before it began; None when the hook passed or there was none."""
    try:
        with open(due, encoding="utf-8") as file:
            hook = file.read()
    except OSError:
        return None
    return {"hook": hook, "code": code, "lines": last_lines(log)}


def say_hook(found: Mapping[str, Any]) -> str:
    """Format a failed hook as a reason, whose first word programs read."""
    from leasehold.kit.events import setup_events  # few hooks fail

    return "hook_failed: %s" % setup_events.hook_failed(found)


def last_lines(path: str) -> List[str]:
    """Read the last lines of a log."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
            data = file.read()
    except OSError:
        return []
    return [line[:300] for line in data.decode("utf-8", "replace").splitlines() if line.strip()][-_LAST_LINES:]


def no_proxy(environ: Mapping[str, str], near: Sequence[str]) -> Dict[str, str]:
    """Return the union of what bypasses the proxy, for both spellings; nothing when no proxy is set."""
    if not any(environ.get(name) for name in _PROXIES):
        return {}
    known = ",".join([environ.get("no_proxy", ""), environ.get("NO_PROXY", ""), *near, *_ALWAYS_NEAR])
    words = [_without_star(word.strip()) for word in known.split(",")]
    union = ",".join(dict.fromkeys(word for word in words if word))
    return {"no_proxy": union, "NO_PROXY": union}


def _without_star(word: str) -> str:
    """Drop the star: few programs understand `*.example.org`, all understand `.example.org`."""
    return word[1:] if word.startswith("*.") else word


def _filled(root: str, platform: Mapping[str, Any]) -> Dict[str, str]:
    """Fill the real folders into the platform's variables, and make those folders."""
    places = {"state": root, "durable": platform.get("durable") or root, "scratch": platform.get("scratch") or root}
    values = {}
    for name, template in (platform.get("variables") or {}).items():
        value = str(template)
        for word, place in places.items():
            value = value.replace("{%s}" % word, str(place))
        values[str(name)] = value
        if value != template and value.startswith("/") and str(name).endswith(_FOLDERS):
            with contextlib.suppress(OSError):  # the program that writes there reports it more clearly
                os.makedirs(value, exist_ok=True)
    return values


def _caps(gpus: int) -> Dict[str, str]:
    """Cap thread pools by the cgroup's quota, shared by one process per card; the host's cores are not all ours."""
    from leasehold.caretaker.machine import limits  # brings subprocess, which keeper and caretaker do without

    seen = limits.cpu()
    if seen["quota"] is None:
        return {}
    cores = min(seen["quota"], seen["visible"] or seen["quota"])
    return dict.fromkeys(_THREADS, str(max(1, int(cores / max(1, gpus)))))


def _path(path: str, interpreter: str) -> str:
    """Put the interpreter's folder first: in a shell that is not a login shell `python` may be another one."""
    folder = os.path.dirname(interpreter)
    if not folder.startswith("/") or not os.path.isdir(folder):
        return path
    return os.pathsep.join([folder, *(part for part in path.split(os.pathsep) if part != folder)])


def _spare_the_mirror(environ: Dict[str, str]) -> None:
    """Switch Xet and hf_transfer off behind a hub mirror: it serves plain files, and both bypass it."""
    endpoint = environ.get("HF_ENDPOINT", "").rstrip("/")
    if endpoint and endpoint.partition("://")[2] != _HUB:
        environ.setdefault("HF_HUB_DISABLE_XET", "1")
        environ.setdefault("HF_HUB_ENABLE_HF_TRANSFER", "0")
