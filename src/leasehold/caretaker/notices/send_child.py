"""The sending child: reads messages from stdin, sends them through the platform's hook, writes the results."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any, Dict, List

from leasehold.caretaker.attempt.platform_shell import Outfit
from leasehold.caretaker.attempt.short_command import run_dressed
from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json

from .dispatcher import named
from .send import LIMIT_S

if TYPE_CHECKING:
    from leasehold.caretaker.wire.connection import Request


def tell(folder: RunFolder, stream: Any) -> int:
    """Send each message to its channel; return 0 if every one was accepted."""
    signal.alarm(2 * LIMIT_S + 30)
    asked = json.loads(stream.read())
    channels = named(read_json(folder.notify) or {})
    names = [name for name in asked["tells"] if name in channels]
    sends = [{"channel": channels[name], "message": asked["tells"][name]} for name in names]
    heard = send_dressed(Outfit(folder.root, folder.platform()), sends)
    results = {name: [result["problem"], result["wait_s"]] for name, result in zip(names, heard)}
    with contextlib.suppress(OSError):  # on a full disk the exit code reports it
        write_json(folder.notices_done, {"began_unix": asked["began_unix"], "results": results})
    return 1 if any(problem for problem, _ in results.values()) else 0


def answer(request: "Request") -> None:
    """Send what home passes, from here; nothing of it is kept."""
    platform = request.args.get("platform")
    outfit = Outfit(request.root, platform if isinstance(platform, dict) else {})
    request.reply({"results": send_dressed(outfit, list(request.args.get("sends") or []))})


def send_dressed(outfit: Outfit, sends: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Send through the platform's hook; if the hook fails, without it: a notice must not be lost because of it."""
    body = json.dumps({"sends": sends}).encode("utf-8")
    try:
        said = _through_hook(outfit, body) or _bare(body)
        results: List[Dict[str, Any]] = json.loads(said.decode("utf-8", "replace").splitlines()[-1])["results"]
        return results
    except subprocess.TimeoutExpired:
        why = "no answer in %d s" % LIMIT_S
    except (OSError, ValueError, KeyError, IndexError):
        why = "the sender ended without a result"
    return [{"problem": why, "wait_s": 0.0} for _ in sends]


def _through_hook(outfit: Outfit, body: bytes) -> bytes:
    """Return the sender's results; nothing where the hook failed, or where a full disk has no room for its mark."""
    try:
        done, problem = run_dressed(outfit, own_argv("notice"), LIMIT_S, body)
    except OSError:
        return b""
    return b"" if problem else done.stdout


def _bare(body: bytes) -> bytes:
    return subprocess.run(
        own_argv("notice"), input=body, stdout=subprocess.PIPE, timeout=LIMIT_S, check=False
    ).stdout  # fmt: skip
