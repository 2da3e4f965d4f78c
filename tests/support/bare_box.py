"""A box that spares its tenant no discomfort: any login shell, any PATH, any home, disks full or read-only.

Its sshd runs in a mount namespace of its own, where /etc/passwd names the login shell and the home folder, so that
shell and rc files are the real ones; programs can be hidden there, and disks mounted that the host never sees.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Iterator, List, Mapping, Optional, Sequence

from tests.support.beds import SshBed
from tests.support.parts import box_namespaces
from tests.support.sshd import SshBox

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BINS = ("/usr/bin", "/usr/local/bin")
# Mount what the test wants, then become the server: $1 is the passwd file, $2 the wish, the rest the server.
_ASSEMBLE = 'set -eu; mount --bind "$1" /etc/passwd; eval "$2"; shift 2; exec "$@"'


class BareBox(SshBox):
    """One box behind one sshd with a passwd line, mounts and server options of its own."""

    def __init__(
        self,
        folder: Path,
        home: Optional[Path] = None,
        environment: Optional[Mapping[str, str]] = None,
        shell: str = "/bin/bash",
        mounts: str = "",
        server: Sequence[str] = (),
    ) -> None:
        """Prepare a box.

        mounts is sh that runs in the box's namespace before the server does; it finds $HOME_THERE and $BED, our folder;
        server lines replace those of sshd_config on the same matter.
        """
        super().__init__(folder, home, environment)
        self._shell = shell
        self._mounts = mounts
        self._server_lines = list(server)

    def _server_words(self) -> List[str]:
        self._write_passwd()
        there = "HOME_THERE=%s; BED=%s; " % (_quoted(str(self.home)), _quoted(str(self.folder)))
        assemble = ["sh", "-c", _ASSEMBLE, "assemble", str(self.folder / "passwd"), there + self._mounts]
        return [*box_namespaces("--mount"), *assemble, *super()._server_words()]

    def _write_passwd(self) -> None:
        """Give this user another home and shell; a passwd line holds every name without a colon or line end."""
        me = pwd.getpwuid(os.geteuid())
        line = ":".join([me.pw_name, "x", str(me.pw_uid), str(me.pw_gid), "", str(self.home), self._shell])
        others = [
            entry for entry in Path("/etc/passwd").read_text().splitlines() if entry.split(":")[2] != str(me.pw_uid)
        ]
        (self.folder / "passwd").write_text("\n".join([line, *others]) + "\n", encoding="utf-8")

    def _server_config(self) -> str:
        ours = ("SetEnv", "ForceCommand", *(line.split()[0] for line in self._server_lines))
        kept = [line for line in super()._server_config().splitlines() if not line.startswith(ours)]
        variables = {"PATH": _PATH, **self._environment}
        pairs = " ".join('"%s=%s"' % pair for pair in variables.items())
        return "\n".join([*self._server_lines, *kept, "SetEnv " + pairs]) + "\n"


@contextlib.contextmanager
def bare_bed(folder: Path, environment: Optional[Mapping[str, str]] = None, **options: object) -> Iterator[SshBed]:
    """Give a bare box to live on; options are those of BareBox."""
    sockets = tempfile.mkdtemp(prefix="lh-")  # short: a socket's path has room for 100 characters
    try:
        given = {"TMUX_TMPDIR": sockets, **(environment or {})}
        with BareBox(folder / "box", environment=given, **options) as box:  # type: ignore[arg-type]
            yield SshBed(box)
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


def hide(*names: str) -> str:
    """Spell mounts after which these programs are nowhere on the box."""
    lines = ['mkdir -p "$BED/veil"; mount -t tmpfs tmpfs "$BED/veil"']
    for number, place in enumerate(_BINS):
        veil = '"$BED/veil/%d' % number
        options = 'lowerdir=%s,upperdir=%s/up",workdir=%s/work"' % (place, veil, veil)
        lines.append('mkdir -p %s/up" %s/work"; mount -t overlay overlay -o %s %s' % (veil, veil, options, place))
        lines += ["rm -f %s/%s %s/%s[0-9]*" % (place, name, place, name) for name in names]
    return "; ".join(lines)


def small_tmp(options: str, fill: str = "") -> str:
    """Spell mounts that give the box a /tmp of its own, though the bed itself may lie below the host's."""
    return (
        'mount --bind "$BED/.." /mnt; mount -t tmpfs -o %s,mode=1777 tmpfs /tmp; '
        'case "$BED" in /tmp/*) mkdir -p "$BED/.."; mount --bind /mnt "$BED/.." ;; esac; %s' % (options, fill or ":")
    )


def program(folder: Path, name: str, script: str) -> Path:
    """Write a small sh program for a PATH of the box."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + script, encoding="utf-8")
    (folder / name).chmod(0o755)
    return folder


def stands_for(folder: Path, **names: str) -> Path:
    """Write programs that become others: stands_for(bin, python=sys.executable)."""
    for name, target in names.items():
        program(folder, name, 'exec %s "$@"\n' % _quoted(target))
    return folder


def our_python() -> str:
    """The interpreter that runs the tests, past the links of a virtual environment."""
    return os.path.realpath(sys.executable)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
