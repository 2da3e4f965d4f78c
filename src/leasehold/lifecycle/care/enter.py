"""A person's own shell or command on a box: in its default environment, or in a run's folder and environment."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence

from leasehold.errors import BoxError, UserError
from leasehold.ledger import books, box_book
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box, find_box
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.sweep.report.find_runs import one_with_cell, runs_named
from leasehold.model.lease.box import K8S, LOCAL, SSH
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.entered import Entered
from leasehold.transport.process import LocalTransport

_TO_FOLDER = "cd {folder} && exec {command}"
_LOGIN = '"${SHELL:-/bin/sh}" -l'


def ssh(home: Home, word: str, words: Sequence[str], *, capture: bool) -> Entered:
    """Open a shell, or run words through the shell there: in a box's home folder, or in a run's folder."""
    box, record = _aim(home, word)
    text = " ".join(words)
    if record is not None:
        root = box.root or "~/.leasehold"
        if isinstance(box.transport, LocalTransport):
            root = str(home.box_root(box.name)) if not box.root else box.root
        folder = f"{_shell_path(root)}/active/{shlex.quote(record.run)}"
        text = _TO_FOLDER.format(folder=folder, command=f"sh -c {shlex.quote(text)}" if text else _LOGIN)
    return _run(box, text, record.run if record else box.name, capture=capture)


def enter(home: Home, word: str, cell: str, words: Sequence[str], *, capture: bool) -> Entered:
    """Run a command, or a shell, in a run's working folder with its trainer's variables."""
    records = runs_named(home, word)
    record = one_with_cell(home, records, cell) if cell or len(records) > 1 else records[0]
    box = box_of(home, books.find_lease(home.ledger, record.lease))
    with box.connect() as engine:
        told = engine.work.enter(record.run, cell)
    argv = told.get("argv")
    if not isinstance(argv, list) or not all(isinstance(part, str) for part in argv):
        raise BoxError("enter.strange", f"{box.name} did not say how to enter {record.run}")
    return _run(box, shlex.join([*argv, *words]), record.run, capture=capture)


def _aim(home: Home, word: str) -> tuple[Box, RunRecord | None]:
    """Resolve a word: a box of the book or an address, else a run."""
    named = word == LOCAL or word.startswith((SSH, K8S)) or box_book.find(home.ledger, word) is not None
    if named:
        return find_box(home, word), None
    try:
        record = books.find_run(home.ledger, word)
    except UserError as error:
        if error.code != "run.unknown":
            raise
        hint = "lease status lists the runs, lease box list the boxes"
        raise UserError("enter.unknown", f"{word!r} is neither a run nor a box of the book", hint=hint) from None
    return box_of(home, books.find_lease(home.ledger, record.lease)), record


def _shell_path(root: str) -> str:
    return "~/" + shlex.quote(root[2:]) if root.startswith("~/") else shlex.quote(root)


def _run(box: Box, command: str, where: str, *, capture: bool) -> Entered:
    person_argv = getattr(box.transport, "person_argv", None)
    if person_argv is not None:
        argv = person_argv(command, terminal=sys.stdin.isatty() and not capture)
    else:
        argv = ["/bin/sh", "-c", command or f"exec {_LOGIN}"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("LEASE_")}
    given = subprocess.DEVNULL if capture else None
    done = subprocess.run(argv, env=env, stdin=given, capture_output=capture, check=False)
    out, err = ((part or b"").decode("utf-8", "replace") for part in (done.stdout, done.stderr))
    return Entered(done.returncode, where, out, err)
