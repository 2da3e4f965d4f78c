"""Start something after a restart of the box: by cron, systemd for one user, or the platform's own start file.

Each line or unit of ours carries a tag, and only what carries it is ever removed: what a person wrote stays
unchanged, byte for byte.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import subprocess
from typing import Dict, List, NamedTuple, Optional, Tuple

from leasehold.kit.files.atomic import write_atomic

_ASK_TIMEOUT_S = 20.0
_NO_CRONTAB = re.compile(rb"no crontab for", re.IGNORECASE)
_DAEMONS = ("cron", "crond", "fcron", "dcron", "busybox-crond")
_WAIT = 'n=0; until [ -e %s ] || [ "$n" -ge 120 ]; do sleep 5; n=$((n+1)); done; exec %s'
_MARK, _MARK_NEWLINE = "# leasehold:", "# leasehold+newline:"  # the second: the text before it did not end its line
_SHEBANG = b"#!/bin/bash\n"
_UNIT = """# leasehold:%(tag)s
[Unit]
Description=leasehold: go on with %(run)s after a restart

[Service]
Type=oneshot
RemainAfterExit=yes
KillMode=process
ExecStart=/bin/sh -c %(script)s

[Install]
WantedBy=default.target
"""


class Hook(NamedTuple):
    """What to start: the owner (the tag), the run, and the command."""

    tag: str
    run: str
    argv: Tuple[str, ...]  # the interpreter, its flags, our entry point, and the action

    @property
    def script(self) -> str:
        """Return one shell line that waits for our disk, ten minutes at most, and then starts the command."""
        entry = next(word for word in self.argv if word.startswith("/") and word != self.argv[0])
        return _WAIT % (shlex.quote(entry), " ".join(shlex.quote(word) for word in self.argv))


class Refusal(Exception):
    """This mechanism is not available here; str() gives the reason."""


def install(way: str, hook: Hook) -> str:
    """Install by one mechanism, once; return where it lies. Raises Refusal with the reason if it cannot."""
    if any("\n" in word or "\0" in word for word in hook.argv):
        raise Refusal("a path of ours contains a line break")
    name, _, place = way.partition(":")
    if name == "cron":
        return _install_cron(hook)
    if name == "systemd":
        return _install_systemd(hook)
    if name == "onstart" and place.startswith("/"):
        return _install_onstart(hook, place)
    raise Refusal("%r is not a known mechanism" % way)


def remove(way: str, tag: str) -> bool:
    """Remove what carries the tag, and nothing else; return whether it was there. A second call does nothing."""
    name, _, place = way.partition(":")
    if name == "cron":
        return _remove_cron(tag)
    if name == "systemd":
        return _remove_systemd(tag)
    return _remove_onstart(tag, place)


def with_line(text: bytes, line: str, tag: str) -> bytes:
    """Add a tagged line at the end; replace one that is there already."""
    before = without(text, tag)
    ends = not before or before.endswith(b"\n")
    mark = _MARK if ends else _MARK_NEWLINE
    return before + (b"" if ends else b"\n") + os.fsencode("%s %s%s\n" % (line, mark, tag))


def without(text: bytes, tag: str) -> bytes:
    """Remove the tagged line, with the line break that was added for it."""
    kept: List[bytes] = []
    for line in text.splitlines(keepends=True):
        bare = line.rstrip(b"\n")
        if bare.endswith(os.fsencode(_MARK + tag)):
            continue
        if bare.endswith(os.fsencode(_MARK_NEWLINE + tag)):
            if kept:
                kept[-1] = kept[-1][:-1]
            continue
        kept.append(line)
    return b"".join(kept)


def _install_cron(hook: Hook) -> str:
    if not _cron_runs():
        raise Refusal("no cron daemon runs here")
    line = "@reboot " + hook.script.replace("%", "\\%")  # cron ends the command at a bare percent sign
    before = _crontab()
    wanted = with_line(before, line, hook.tag)
    _write_crontab(wanted)
    if _crontab() != wanted:
        raise Refusal("the crontab does not read as it was written")
    return "crontab: " + line


def _remove_cron(tag: str) -> bool:
    try:
        before = _crontab()
    except Refusal:
        return False
    after = without(before, tag)
    if after == before:
        return False
    if after:
        _write_crontab(after)
    else:
        _ask(["crontab", "-r"])
    return True


def _crontab() -> bytes:
    code, said = _ask(["crontab", "-l"])
    if code == 0:
        return said
    if _NO_CRONTAB.search(said):
        return b""
    raise Refusal("crontab -l: %s" % said.decode("utf-8", "replace").strip()[:200])


def _write_crontab(text: bytes) -> None:
    code, said = _ask(["crontab", "-"], text)
    if code != 0:
        raise Refusal("crontab refused it: %s" % said.decode("utf-8", "replace").strip()[:200])


def _cron_runs() -> bool:
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            with contextlib.suppress(OSError), open("/proc/%s/comm" % pid) as file:
                if file.read().strip() in _DAEMONS:
                    return True
    return False


def _install_systemd(hook: Hook) -> str:
    code, said = _ask(["loginctl", "show-user", str(os.getuid()), "--property=Linger"])
    if code != 0 or b"Linger=yes" not in said:
        raise Refusal("lingering is off (loginctl enable-linger), so nothing of this user starts before a login")
    path = _unit_path(hook.tag)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = _UNIT % {"tag": hook.tag, "run": hook.run, "script": _unit_word(hook.script)}
    write_atomic(path, os.fsencode(text))
    for words in (["daemon-reload"], ["enable", os.path.basename(path)]):
        code, said = _ask(["systemctl", "--user", *words])
        if code != 0:
            os.unlink(path)
            raise Refusal("systemctl --user %s: %s" % (words[0], said.decode("utf-8", "replace").strip()[:200]))
    return path


def _remove_systemd(tag: str) -> bool:
    path = _unit_path(tag)
    if not os.path.exists(path):
        return False
    _ask(["systemctl", "--user", "disable", os.path.basename(path)])
    os.unlink(path)
    _ask(["systemctl", "--user", "daemon-reload"])
    return True


def _unit_path(tag: str) -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "systemd", "user", "leasehold-relaunch-%s.service" % tag)


def _unit_word(text: str) -> str:
    """Quote for ExecStart: systemd interprets backslashes, quotes, percent and dollar signs itself."""
    for char, instead in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(char, instead)
    return '"%s"' % text


def _install_onstart(hook: Hook, place: str) -> str:
    line = "( %s ) >/dev/null 2>&1 &" % hook.script
    try:
        before, mode = _start_file(place)
        write_atomic(place, with_line(before if before is not None else _SHEBANG, line, hook.tag), mode=mode)
        os.chmod(place, mode)
    except OSError as error:
        raise Refusal("%s: %s" % (place, error.strerror)) from None
    return "%s: %s" % (place, line)


def _remove_onstart(tag: str, place: str) -> bool:
    try:
        before, mode = _start_file(place)
        after = without(before or b"", tag)
        if before is None or after == before:
            return False
        if after == _SHEBANG:
            os.unlink(place)
            return True
        write_atomic(place, after, mode=mode)
        os.chmod(place, mode)
    except OSError:
        return False
    return True


def _start_file(place: str) -> Tuple[Optional[bytes], int]:
    try:
        with open(place, "rb") as file:
            return file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return None, 0o755


def _ask(argv: List[str], given: bytes = b"") -> Tuple[int, bytes]:
    environ: Dict[str, str] = {**os.environ, "LC_ALL": "C"}
    environ.setdefault("XDG_RUNTIME_DIR", "/run/user/%d" % os.getuid())  # an ssh command may come without it
    try:
        done = subprocess.run(
            argv, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_ASK_TIMEOUT_S, check=False,
            env=environ,
        )  # fmt: skip
    except FileNotFoundError:
        return 127, b"%s is not installed" % os.fsencode(argv[0])
    except (OSError, subprocess.TimeoutExpired) as error:
        return 126, str(error).encode("utf-8", "replace")
    return done.returncode, done.stdout
