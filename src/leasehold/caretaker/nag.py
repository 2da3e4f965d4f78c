"""A finished box nags: after the run has ended, say so again and again until somebody hushes it or the box is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

from leasehold.kit import journal
from leasehold.kit.atomic import read_json, write_json
from leasehold.kit.runstate import FINISHED, RunState, fold

from .dressing import run_dressed
from .keeper import own_argv
from .layout import RunFolder
from .locks import try_lock
from .platform_shell import Outfit

_AFTER_S = (15 * 60, 3600)
_EVERY_S = 4 * 3600
_SLICE_S = 30.0
_GIVE_UP_S = 30 * 86400.0
_SEND_LIMIT_S = 300.0


def nag(folder: RunFolder) -> int:
    """Send the first notice when due, then on; leave when hushed, resumed, or already nagging elsewhere."""
    if try_lock(os.path.join(folder.path, "nag.lock")) is None:
        return 0
    while True:
        wishes = read_json(folder.notify)
        run = fold(journal.read_from(folder.journal, 0)[0])
        if not wishes or not wishes.get("channels") or not run.terminal or os.path.exists(folder.hush):
            return 0
        sent = _sent(folder, run)
        due = run.changed_unix + due_after_s(sent, wishes)
        if time.time() - run.changed_unix > _GIVE_UP_S:
            return 0
        if time.time() < due:
            time.sleep(min(_SLICE_S, max(0.01, due - time.time())))
            continue
        _send(folder, wishes["channels"], message(folder, run, wishes))
        sent += 1
        while run.changed_unix + due_after_s(sent, wishes) <= time.time():
            sent += 1  # this box slept through some: one notice says it all
        write_json(folder.nagged, {"sent": sent, "seq": run.seq, "last_unix": time.time()})


def due_after_s(sent: int, wishes: Dict[str, Any]) -> float:
    """When notice number `sent` is due, counted from the end of the run: 15 min, 1 h, then every 4 h."""
    after: List[float] = [float(item) for item in wishes.get("after_s") or _AFTER_S]
    every = float(wishes.get("every_s") or _EVERY_S)
    if sent < len(after):
        return after[sent]
    return after[-1] + every * (sent - len(after) + 1)


def message(folder: RunFolder, run: RunState, wishes: Dict[str, Any]) -> Dict[str, Any]:
    """Spell the notice: what ended, how long ago, what it costs, what to do."""
    idle_min = int((time.time() - run.changed_unix) / 60)
    price = wishes.get("price")
    meter = " The box still bills %s." % price if price else " The box may still bill."
    ended = "%s %d min ago" % (run.state, idle_min) if idle_min else "just %s" % run.state
    reason = " (%s)" % run.reason if run.reason else ""
    todo = "lease logs %s; the same lease run resumes it" % folder.run
    if run.state == FINISHED:
        todo = "lease pull %s, then lease down %s" % (folder.run, folder.run)
    text = "%s %s%s.%s Next: %s" % (folder.run, ended, reason, meter, todo)
    return {
        "title": "%s %s" % (folder.run, run.state),
        "text": text,
        "event": "run_%s" % run.state,
        "run": folder.run,
        "state": run.state,
        "idle_s": idle_min * 60,
        "box": wishes.get("box", ""),
        "priority": "default" if run.state == "finished" else "high",
    }


def _sent(folder: RunFolder, run: RunState) -> int:
    """How many notices of this very ending went out; a run that was resumed and ended again begins anew."""
    noted = read_json(folder.nagged) or {}
    return int(noted.get("sent", 0)) if noted.get("seq") == run.seq else 0


def begin(folder: RunFolder) -> None:
    """Become the nagging process, if the user named a channel; called by the caretaker as its last act."""
    if read_json(folder.notify):
        argv = own_argv("nag", folder.path)
        os.execv(argv[0], argv)


def notice(stream: Any) -> int:
    """The short-lived sender's door: channels and message on stdin, problems on stdout."""
    from .notices import send_all

    wanted = json.loads(stream.read())
    problems = send_all(wanted["channels"], wanted["message"])
    sys.stdout.write(json.dumps({"problems": problems}))
    return 1 if problems else 0


def _send(folder: RunFolder, channels: List[Dict[str, str]], what: Dict[str, Any]) -> Optional[str]:
    """Send through the platform's hook; a notice about a box must not be lost because that fails."""
    body = json.dumps({"channels": channels, "message": what}).encode("utf-8")
    try:
        done, problem = run_dressed(Outfit(folder.root, folder.platform()), own_argv("notice"), _SEND_LIMIT_S, body)
        if problem:
            done, _ = run_dressed(Outfit(folder.root, {}), own_argv("notice"), _SEND_LIMIT_S, body)
    except subprocess.TimeoutExpired:
        return "no answer in %g s" % _SEND_LIMIT_S
    return done.stdout.decode("utf-8", "replace") if done.returncode else None
