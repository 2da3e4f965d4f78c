"""People who may approve by signature: keys enrolled on a terminal, by name, announced and recorded.

A line in allowed_signers alone allows nothing: whatever can write to that file could have put it there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from leasehold.errors import HomeError, UserError
from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.approval.allowed_signers import (
    VERIFY_REQUIRED,
    AllowedSigners,
    Signer,
    SignersError,
    mark_of,
    parse_signers,
)
from leasehold.lifecycle.approval.approve import NAMESPACE
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home, person
from leasehold.model.run.note import Note, Report
from leasehold.model.values.wording import utc_minute

from .announce import announce

_NAME = re.compile(r'[^\s",#]{1,100}\Z')
_HEADER = b"# Keys that may approve. A line counts once `lease signer add` or `confirm` was typed for it.\n"


@dataclass(frozen=True)
class Enrolled:
    """One key of the file, and since when a person allows it; 0: nobody confirmed this line."""

    number: int
    line: str
    name: str
    kind: str
    fingerprint: str
    options: tuple[str, ...]
    since_unix: float = 0.0

    @property
    def mark(self) -> str:
        """Return the hash by which the ledger knows the line, whose text could look like a secret."""
        return mark_of(self.line)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json and the ledger."""
        return {
            "name": self.name,
            "kind": self.kind,
            "fingerprint": self.fingerprint,
            "options": list(self.options),
            "line": self.number,
            "allowed": bool(self.since_unix),
            "since_unix": self.since_unix,
        }

    @property
    def words(self) -> str:
        """Describe the key for display."""
        demands = f" ({', '.join(self.options)})" if self.options else ""
        return f"{one_line(self.name)}, {self.kind} key {self.fingerprint}{demands}"


def allowed_lines(ledger: Ledger) -> dict[str, float]:
    """Return the lines that a person enrolled, as hash of the text -> enrolment time."""
    known: dict[str, float] = {}
    told = [*ledger.events(kind="signer_allowed"), *ledger.events(kind="signer_removed")]
    for event in sorted(told, key=lambda one: one.seq):
        mark = str(event.data["line_sha256"])
        known.pop(mark, None)
        if event.kind == "signer_allowed":
            known[mark] = event.t
    return known


def listing(home: Home) -> list[Enrolled]:
    """List the keys of the file, including those that nobody confirmed."""
    since = allowed_lines(home.ledger)
    return [_entry(signer, since.get(signer.mark, 0.0)) for signer in _read(home).signers]


def add(home: Home, key: str, name: str, options: tuple[str, ...], ask: Ask, report: Report) -> Enrolled:
    """Have a person enrol a public key."""
    if not _NAME.match(name):
        raise UserError("signer.bad_name", f"{name!r} cannot name a signer", hint="one word without quotes or commas")
    words = key.split()
    if "PRIVATE" in words or len(words) < 2:
        raise UserError("signer.bad_key", "that is not a public key", hint="give the file that ends in .pub")
    wanted = ",".join((f'namespaces="{NAMESPACE}"', *options))
    line = f"{name} {wanted} {words[0]} {words[1]}"
    try:
        (signer,) = parse_signers(line).signers
    except (ValueError, SignersError):
        raise UserError(
            "signer.bad_key", f"not a public key: {one_line(key)[:60]}", hint="one line: KIND BASE64"
        ) from None
    new = _entry(signer, 0.0)
    _allow(home, new, ask, report)
    before = _text(home)
    if line not in before.split("\n"):
        _write(home, before + line + "\n")
    return new


def confirm(home: Home, word: str, ask: Ask, report: Report) -> Enrolled:
    """Have a person confirm a line that something else put into the file."""
    found = _find(home, word)
    if found.since_unix:
        raise UserError("signer.known", f"{found.words} is allowed already, since {utc_minute(found.since_unix)}")
    _allow(home, found, ask, report)
    return found


def remove(home: Home, word: str, report: Report) -> Enrolled:
    """Remove a key from the file; a removal only tightens the rules, so no phrase is typed."""
    found = _find(home, word)
    home.ledger.append("signer_removed", line_sha256=found.mark, by=person(), key=found.as_dict())
    lines = [line for line in _text(home).split("\n") if line.strip() != found.line]
    _write(home, "\n".join(lines))
    _announce(home, f"{found.words} may no longer approve: removed by {person()}", report)
    return found


def _allow(home: Home, entry: Enrolled, ask: Ask, report: Report) -> None:
    """Ask, announce, and only then record: no key is allowed before it was announced, as far as possible."""
    proves = "proves a touch" if entry.kind.startswith("sk-") else (
        "proves no person: whatever may use it (an ssh-agent, an unencrypted file) can approve what deletes data"
    )  # fmt: skip
    question = f"{entry.words}\nA signature of this key {proves}.\nto let it approve on this home"
    require_phrase(ask, question, f"allow {entry.name}", "no key was allowed")
    _announce(
        home, f"{entry.words} may approve from now on: allowed by {person()}. Not you? lease signer remove", report
    )
    home.ledger.append("signer_allowed", line_sha256=entry.mark, by=person(), key=entry.as_dict())
    report(Note("signer", f"allowed: {entry.words}"))


def _announce(home: Home, text: str, report: Report) -> None:
    sent, problems = announce(home, "leasehold: who may approve", text, "signer")
    for problem in problems:
        report(Note("warning", f"not announced on {problem}"))
    if sent:
        report(Note("announced", f"announced on {sent} notice channel{'s' if sent > 1 else ''}"))
    elif not problems:
        report(Note("warning", "no notice channel is set up: nobody else was told (lease notify add)"))


def _find(home: Home, word: str) -> Enrolled:
    fitting = [one for one in listing(home) if word in (one.fingerprint, one.name, str(one.number))]
    if len(fitting) != 1:
        what = f"{len(fitting)} keys are" if fitting else "no key is"
        raise UserError("signer.unknown", f"{what} called {word}", hint="lease signer list; SHA256:… names one exactly")
    return fitting[0]


def _entry(signer: Signer, since_unix: float) -> Enrolled:
    options = tuple(option for option in signer.options if option == VERIFY_REQUIRED)
    if signer.cert_authority:
        options = (*options, "cert-authority")
    return Enrolled(
        signer.number, signer.line, signer.name, signer.kind, signer.fingerprint, options, since_unix
    )  # fmt: skip


def _read(home: Home) -> AllowedSigners:
    try:
        return parse_signers(_text(home))
    except SignersError as error:
        raise UserError("approval.bad_signers", f"{home.signers}, {error}") from None


def _text(home: Home) -> str:
    try:
        return home.signers.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return _HEADER.decode()
    except OSError as error:
        raise HomeError("signer.unreadable", f"{home.signers}: {error.strerror}") from None


def _write(home: Home, text: str) -> None:
    if text and not text.endswith("\n"):
        text += "\n"
    home.path.mkdir(parents=True, exist_ok=True)
    write_atomic(str(home.signers), text.encode("utf-8", "surrogateescape"), mode=0o600)
