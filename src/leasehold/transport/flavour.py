"""Detect over real connections what a box's ssh server permits: commands, sftp, or only a terminal.

Our own protocol needs commands and nothing else; a relay that only carries a terminal cannot be used.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import selectors
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from leasehold.errors import BoxError, LinkError
from leasehold.kit.text.safe_text import one_line, plain
from leasehold.model.lease.box import Flavour
from leasehold.model.run.verdict import Finding, passes, refuses, unknown

from . import parcel
from .openssh import SshTransport

if TYPE_CHECKING:
    from .contract import Transport
    from .process import LocalTransport, ProcessLink

DIRECT_ADDRESS = (
    "use the direct TCP address that the console shows, not the proxy; if this is the box itself, use an account whose "
    "login shell runs commands (its ForceCommand or login shell answers instead)"
)
_ONLY_FILES = "this account may only copy files; a run needs one that may run commands"
SWALLOWED = (
    "does a ~/.bashrc or ~/.profile there start another shell (`exec zsh`) or wait for input? Let it do so for people "
    "only: case $- in *i*) … ;; esac. If this is a provider's proxy: use the direct TCP address that the console shows"
)
_NO_PYTHON = "install python3 on the box, or choose an image that has it"
_DOOR_SPEAKS = re.compile(r"request failed on channel|pty|terminal|not allowed|not supported|restricted", re.IGNORECASE)
_NOISE_BYTES = 32 << 20
_HELD_BYTES = 64 << 10
_LATER_S = 5.0  # how much later than the first time a slow login may answer the second time
_PINGS = 3
_SFTP_INIT = b"\x00\x00\x00\x05\x01\x00\x00\x00\x03"
_SFTP_VERSION = 2


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds.

    hello_s: for the first word; quiet_s: of silence before a server counts as running no commands; doubt_s: of silence
    before our side hangs up as a test, (without any output from it, after some output); answer_s; terminal_s;
    prompt_s: of silence until a terminal's output counts as complete.
    """

    hello_s: float = 40.0
    quiet_s: float = 10.0
    doubt_s: tuple[float, float] = (5.0, 1.5)
    answer_s: float = 60.0
    terminal_s: float = 10.0
    prompt_s: float = 1.0


@dataclass(frozen=True)
class DoorReading:
    """The findings of first contact, each part with its evidence in findings."""

    flavour: Flavour
    findings: tuple[Finding, ...]
    shell: str = ""
    system: str = ""
    python: str = ""
    python_version: str = ""
    noise: str = ""
    connect_s: float = 0.0
    round_trip_s: float = 0.0
    root_state: str = ""  # good, unmade, unwritable, unreadable, undeletable; empty if not tested
    root: str = ""
    signs: Mapping[tuple[str, str], str] = field(default_factory=dict)  # yes, no, unknown, by kind and value


def detect(
    transport: SshTransport | LocalTransport,
    root: str | None = None,
    patience: Patience | None = None,
    signs: Sequence[tuple[str, str]] = (),
) -> DoorReading:
    """Probe the server; with a root, also write, read and delete a file in it. Raises LinkError if nothing answers.

    signs identify a platform's boxes, as (kind, value): env, file or mount, and its name.
    """
    patience = patience or Patience()
    begun = time.monotonic()
    talk = _enter(transport, patience)
    if isinstance(talk, DoorReading):
        return talk
    try:
        heard = _Heard(talk.noise_text(), time.monotonic() - begun, *_converse(talk, root, patience.answer_s))
        seen = _ask_signs(talk, signs, patience.answer_s)
    finally:
        talk.link.close()
    sftp = _ask_sftp(transport, patience) if isinstance(transport, SshTransport) else None
    return replace(_reading(heard, sftp), signs=seen)


def refuse_closed_door(transport: Transport, *, thorough: bool = False) -> None:
    """Raise if an ssh server lets us in and runs no commands; return silently if it does.

    If our line ran late, after we had hung up, it counts as open unless thorough: then it must also receive input.
    """
    ssh = transport if isinstance(transport, SshTransport) else getattr(transport, "called", None)
    if not isinstance(ssh, SshTransport) or (ssh.proven and not thorough) or getattr(transport, "ended", False):
        return
    entered = _enter(ssh, Patience(), hear_late=not thorough)
    if isinstance(entered, DoorReading):
        refuse_shell_only(ssh.name, str(ssh.address), entered)
    else:
        entered.link.close()
    ssh.proven = True


def refuse_shell_only(name: str, address: str, reading: DoorReading) -> None:
    """Raise for a server that runs no commands, and name the alternative."""
    if reading.flavour is Flavour.SHELL_ONLY:
        first = reading.findings[0]
        box = name if address in name else f"{name} ({address})"
        raise BoxError("box.shell_only", f"{box} lets us in and runs no commands", seen=first.what, hint=first.hint)


def _enter(
    transport: SshTransport | LocalTransport, patience: Patience, late_s: float = 0.0, hear_late: bool = False
) -> _Talk | DoorReading:
    """Open a conversation with the probe line, or report why there is none.

    In doubt we close our side without sending anything: a menu that reads a choice then ends, a slow login continues
    and sends hello. With hear_late that is enough; else connect again, and wait as long as its hello took.
    """
    begun = time.monotonic()
    nonce = secrets.token_hex(8)
    talk = _Talk(transport.open(f"{parcel.shell_line('flavour.sh')} leasehold {nonce}"), nonce)
    quiet_s = (patience.hello_s, patience.quiet_s)
    try:
        if talk.hear("hello", patience.hello_s, quiet_s if late_s else patience.doubt_s) is not None:
            return talk
        came_late = talk.open and not late_s and talk.hang_up_and_hear(patience.hello_s, quiet_s)
        if came_late and hear_late:
            return talk
        closed = None if came_late else _unanswered(transport, talk, patience)
    except BaseException:
        talk.link.close()
        raise
    talk.link.close()
    limit_s = time.monotonic() - begun + _LATER_S
    return closed or _enter(transport, replace(patience, hello_s=limit_s, quiet_s=limit_s), limit_s)


@dataclass
class _Talk:
    """A conversation with the probe line; anything before its first word is noise."""

    link: ProcessLink
    nonce: str
    noise: bytearray = field(default_factory=bytearray)
    _buffer: bytes = b""
    _skipped_bytes: int = 0
    open: bool = True

    def say(self, text: str) -> None:
        try:
            self.link.writer.write(text.encode() + b"\n")
            self.link.writer.flush()
        except OSError:
            raise self.link.failure() from None

    def hang_up_and_hear(self, limit_s: float, quiet_s: tuple[float, float]) -> bool:
        """Close our side; return whether the probe line still answers hello."""
        with contextlib.suppress(OSError):
            self.link.writer.close()
        return self.hear("hello", limit_s, quiet_s) is not None

    def hear(self, word: str, limit_s: float, quiet_s: tuple[float, float] | None = None) -> str | None:
        """Wait for one of our lines that starts with word; None at the end, or after silence.

        quiet_s limits silence before anything was received, and after.
        """
        mark = f"LEASEHOLD-PROBE/1 {self.nonce} {word}".encode()
        deadline = time.monotonic() + limit_s
        while self._skipped_bytes < _NOISE_BYTES:
            before, found, after = self._buffer.partition(mark)
            heard, end, after = after.partition(b"\n")
            if end:
                self._skip(before)
                self._buffer = after
                return heard.decode("utf-8", "replace").strip()
            if not found and len(self._buffer) > _HELD_BYTES:
                self._skip(self._buffer[: -len(mark)])
                self._buffer = self._buffer[-len(mark) :]
            left_s = deadline - time.monotonic()
            patience_s = quiet_s[bool(self.noise or self._buffer)] if quiet_s else left_s
            chunk = _read(self.link, min(left_s, patience_s))
            if not chunk:
                self.open = chunk is None
                return None
            self._buffer += chunk
        return None

    def _skip(self, noise: bytes) -> None:
        """Count noise, and keep its beginning."""
        self._skipped_bytes += len(noise)
        self.noise += noise[: _HELD_BYTES - len(self.noise)]

    def must_hear(self, word: str, limit_s: float) -> str:
        heard = self.hear(word, limit_s)
        if heard is None:
            raise self.link.failure() if not self.open else LinkError("link.timeout", f"no answer in {limit_s:.0f} s")
        return heard

    def noise_text(self) -> str:
        return _first_line(bytes(self.noise) + self._buffer)


@dataclass(frozen=True)
class _Heard:
    noise: str
    connect_s: float
    round_trip_s: float
    facts: dict[str, str]


def _converse(talk: _Talk, root: str | None, answer_s: float) -> tuple[float, dict[str, str]]:
    trips = []
    for number in range(_PINGS):
        sent = time.monotonic()
        talk.say(f"ping {number}")
        talk.must_hear(f"ping {number}", answer_s)
        trips.append(time.monotonic() - sent)
    talk.say("facts")
    facts = {word: talk.must_hear(word, answer_s) for word in ("shell", "system", "python")}
    if root is not None:
        talk.say(f"root {_octal(root)}")
        facts["root"] = talk.must_hear("root", answer_s)
    return min(trips), facts


def _ask_signs(talk: _Talk, signs: Sequence[tuple[str, str]], answer_s: float) -> dict[tuple[str, str], str]:
    """Check for signs of platforms, all in one round trip."""
    if signs:
        talk.say("\n".join(f"sign {n} {kind} {_octal(value)}" for n, (kind, value) in enumerate(signs)))
    return {sign: talk.must_hear(f"sign {n} ", answer_s) for n, sign in enumerate(signs)}


def _octal(text: str) -> str:
    return "".join(f"\\0{byte:03o}" for byte in text.encode("utf-8"))


def _reading(heard: _Heard, sftp: tuple[Flavour, Finding] | None) -> DoorReading:
    facts = {word: one_line(text) for word, text in heard.facts.items()}
    state, _, place = facts.get("root", "").partition(" ")
    version, _, python = facts["python"].partition(" ")
    found = [passes(f"commands: they run; shell {facts['shell']}, {facts['system'] or 'system unknown'}")]
    if heard.noise:
        found.append(passes(f"banner: the login prints {heard.noise!r} before our answer; skipped"))
    if python:
        found.append(passes(f"python: {version} at {python}"))
    else:
        found.append(refuses("python: no Python 3.8 or newer was found", _NO_PYTHON))
    found += [sftp[1]] if sftp else []
    trip = f"round trip: {heard.round_trip_s * 1000:.1f} ms, the least of {_PINGS}"
    found.append(passes(f"{trip}; connected in {heard.connect_s:.2f} s"))
    return DoorReading(
        flavour=sftp[0] if sftp else Flavour.LOCAL,
        findings=tuple(found),
        shell=facts["shell"],
        system=facts["system"],
        python=python,
        python_version=version,
        noise=heard.noise,
        connect_s=heard.connect_s,
        round_trip_s=heard.round_trip_s,
        root_state=state,
        root=place,
    )


def _unanswered(transport: SshTransport | LocalTransport, talk: _Talk, patience: Patience) -> DoorReading:
    """Distinguish a server that runs no commands from a box that cannot be reached; the second raises."""
    code, said = talk.link.ended()
    known = talk.link.failure()
    by_ssh = code == 255 and not talk.open and not talk.noise_text()  # ssh's own exit status: perhaps no server at all
    spoke = talk.noise_text() or (_last_line(said) if _DOOR_SPEAKS.search(said) or not by_ssh else "")
    if not isinstance(transport, SshTransport) or (by_ssh and (not spoke or known.code != "link.lost")):
        raise known
    terminal = _ask_terminal(transport, patience)
    if not spoke and not terminal:
        raise LinkError("link.timeout", f"{transport.name} accepts the login but sends nothing", hint=SWALLOWED)
    silent = f"nothing (exit {code})" if not talk.open else "nothing"
    way_out = _ONLY_FILES if "sftp" in spoke else DIRECT_ADDRESS if spoke else SWALLOWED
    findings = [refuses(f"commands: not run; the door answers {repr(spoke) if spoke else silent}", way_out)]
    if terminal:
        findings.append(refuses(f"terminal: only this answers: {terminal!r}", way_out))
    return DoorReading(Flavour.SHELL_ONLY, tuple(findings), noise=spoke)


def _ask_sftp(transport: SshTransport, patience: Patience) -> tuple[Flavour, Finding]:
    """Ask for the sftp subsystem and greet it."""
    link = transport.open_subsystem("sftp")
    try:
        link.writer.write(_SFTP_INIT)
        link.writer.flush()
        answer = _read(link, patience.answer_s) or b""
        if len(answer) >= 9 and answer[4] == _SFTP_VERSION and int.from_bytes(answer[:4], "big") < 1 << 16:
            return Flavour.FULL, passes(f"sftp: version {int.from_bytes(answer[5:9], 'big')} answers")
        code, said = link.ended()
        if code == 255 and not answer and not _DOOR_SPEAKS.search(said):
            return Flavour.UNKNOWN, unknown(f"sftp: could not be asked: {_last_line(said)!r}")
    except OSError:
        said, answer = link.ended()[1], b""
    finally:
        link.close()
    heard = _first_line(answer) or _last_line(said) or "silence"
    return Flavour.NO_SFTP, passes(f"sftp: none ({heard!r}); not needed, all goes over the one channel")


def _ask_terminal(transport: SshTransport, patience: Patience) -> str:
    """Open a terminal as a person would, type nothing, and report what it shows."""
    link = transport.open_terminal()
    shown = b""
    deadline = time.monotonic() + patience.terminal_s
    try:
        while len(shown) < _HELD_BYTES:
            left_s = deadline - time.monotonic()
            chunk = _read(link, min(left_s, patience.prompt_s) if shown else left_s)
            if not chunk:
                break
            shown += chunk
    finally:
        link.close()
    return _first_line(shown)


def _read(link: ProcessLink, limit_s: float) -> bytes | None:
    """Read what is available; empty at the end, None if nothing arrived in time."""
    with selectors.DefaultSelector() as selector:
        selector.register(link.reader, selectors.EVENT_READ)
        if not selector.select(max(0.0, limit_s)):
            return None
    return link.reader.read(1 << 16) or b""


def _first_line(data: bytes) -> str:
    lines = (line.strip() for line in plain(data.decode("utf-8", "replace")).splitlines())
    return one_line(next((line for line in lines if line), ""))[:120]


def _last_line(text: str) -> str:
    return one_line(text.splitlines()[-1])[:200] if text else ""
