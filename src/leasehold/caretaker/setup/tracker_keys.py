"""Ask trackers whose key this is, from a short-lived process: the keys come by stdin and go nowhere but into a header.

Nothing is retried and no redirect is followed: a key is sent to the host that the job's own trainer would use, and
to no other. Whatever a server answers is cut, and stripped of escapes and of the key, before it is passed on.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from leasehold.caretaker.attempt.platform_shell import Outfit
from leasehold.caretaker.attempt.short_command import run_dressed
from leasehold.caretaker.process.own_command import own_argv
from leasehold.kit.tables.env_rules import PASSED, REFUSED, UNKNOWN
from leasehold.kit.tables.trackers import BASIC, BEARER, Tracker, tracker_of
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.wire.http_opener import open_here

TIMEOUT_S = 20.0
_GRACE_S = 5.0
_ANSWER = b'{"answers"'  # a hook may have printed something before
_MAX_ANSWER_BYTES = 1 << 16
_MAX_NAME = 64
_MAX_ECHO = 12  # this many consecutive characters of a key are too many


class Said(NamedTuple):
    """The meaning of a tracker's answer, in a text without the key."""

    outcome: str
    text: str


def ask_all(secrets: Mapping[str, str], outfit: Outfit) -> List[Dict[str, Any]]:
    """Ask in a child of our own; only secrets of known trackers are sent to it, and none by argv or environment."""
    known = {name: value for name, value in secrets.items() if tracker_of(name) is not None}
    if not known:
        return []
    env = {name: value for name, value in outfit.env.items() if name not in known}
    outfit = outfit._replace(env=env, without=tuple(known))
    body = json.dumps({"secrets": known}).encode("utf-8")
    problem = "the process that asks gave no answer"
    try:
        done, hooked = run_dressed(outfit, own_argv("whoami"), TIMEOUT_S + _GRACE_S, body)
        problem = hooked or problem
        return list(json.loads(done.stdout[done.stdout.rindex(_ANSWER) :].decode("utf-8", "replace"))["answers"])
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return [_spell(name, Said(UNKNOWN, "could not be asked: %s" % problem)) for name in known]


def answer_stream(reader: Any, writer: Any) -> int:
    """Entry point: secrets as JSON on stdin, one answer for each on stdout."""
    asked = json.loads(reader.read())
    answers = ask_here(asked["secrets"], os.environ)
    writer.write(json.dumps({"answers": answers}))
    writer.flush()
    os._exit(0)  # a thread that still waits for a server must not delay the exit


def ask_here(secrets: Mapping[str, str], env: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> List[Dict[str, Any]]:
    """Ask every tracker at once; without an answer in time, the key's owner is unknown."""
    said: Dict[str, Said] = {}

    def work(name: str, tracker: Tracker, value: str) -> None:
        outcome, text = _ask(tracker, value, env, timeout_s)
        said[name] = Said(outcome, _hide(text, value))

    threads = []
    for name, value in secrets.items():
        tracker = tracker_of(name)
        if tracker is not None:
            threads.append((name, threading.Thread(target=work, args=(name, tracker, value), daemon=True)))
    for _, thread in threads:
        thread.start()
    for _, thread in threads:
        thread.join(timeout_s + 1.0)
    late = Said(UNKNOWN, "no answer within %d s, so it was not checked" % timeout_s)
    return [_spell(name, said.get(name, late)) for name, _ in threads]


def _spell(name: str, said: Said) -> Dict[str, Any]:
    tracker = tracker_of(name)
    assert tracker is not None
    return {"secret": name, "tracker": tracker.name, "outcome": said.outcome, "said": said.text, "page": tracker.page}


def _ask(tracker: Tracker, value: str, env: Mapping[str, str], timeout_s: float) -> Said:
    off = _switched_off(tracker, env)
    if off:
        return Said(PASSED, "not asked, for %s" % off)
    base = _base(tracker, env)
    if not base.startswith(("https://", "http://")):
        shown = "is not set" if not base else "is no http address"
        return Said(PASSED, "not asked, for %s %s" % (tracker.base_variable, shown))
    host = urllib.parse.urlsplit(base).hostname or "?"
    try:
        headers, body = _headers(tracker, value), tracker.body.encode() or None
        request = urllib.request.Request(base + tracker.path, data=body, headers=headers)
        with open_here(request, timeout_s) as reply:
            return _read(tracker, reply.read(_MAX_ANSWER_BYTES), host, value)
    except urllib.error.HTTPError as error:
        return _judge_code(error.code, error.headers.get("Location", ""), host)
    except OSError as error:  # URLError, time-outs, TLS
        reason = getattr(error, "reason", error)
        words = str(getattr(reason, "strerror", None) or reason or type(reason).__name__)
        return Said(UNKNOWN, "%s could not be reached (%s), so it was not checked" % (host, _hide(words, value)[:120]))
    except ValueError:  # http.client quotes the whole header in its message, so that is not passed on
        return Said(REFUSED, "cannot take it: it holds a line end or a character that no header can carry")
    except Exception as error:  # noqa: BLE001 - the process boundary: a server may answer with anything
        return Said(UNKNOWN, "%s answered in a way that is no HTTP (%s)" % (host, type(error).__name__))


def _headers(tracker: Tracker, value: str) -> Dict[str, str]:
    auth = value
    if tracker.auth == BASIC:
        auth = "Basic " + base64.b64encode(("api:" + value).encode("utf-8")).decode("ascii")
    elif tracker.auth == BEARER:
        auth = "Bearer " + value
    return {
        "Authorization": auth,
        "User-Agent": "leasehold",
        "Accept": "application/json",
        "Content-Type": "application/json",
    }


def _base(tracker: Tracker, env: Mapping[str, str]) -> str:
    base = (env.get(tracker.base_variable) or tracker.base).strip().rstrip("/")
    if tracker.origin_only and "://" in base:
        parts = urllib.parse.urlsplit(base)
        base = "%s://%s" % (parts.scheme, parts.netloc)
    return base if not base or base.endswith(tracker.base_end) else base + tracker.base_end


def _switched_off(tracker: Tracker, env: Mapping[str, str]) -> str:
    for name, values in tracker.offline:
        if env.get(name, "").strip().lower() in values:
            return "%s=%s" % (name, env[name].strip())
    return ""


def _judge_code(code: int, location: str, host: str) -> Said:
    if code in (401, 403):
        return Said(REFUSED, "does not accept it (%s answered %d)" % (host, code))
    if 300 <= code < 400:
        to = urllib.parse.urlsplit(location).hostname or "another place"
        return Said(UNKNOWN, "%s sends us on to %s, where the key was not taken; not checked" % (host, to[:80]))
    return Said(UNKNOWN, "%s answered %d, so it was not checked" % (host, code))


def _read(tracker: Tracker, data: bytes, host: str, secret: str) -> Said:
    try:
        answer = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return Said(UNKNOWN, "%s answered with something that is no JSON object, so it was not checked" % host)
    if tracker.proof and not _at(answer, tracker.proof):
        above, _, last = tracker.proof.rpartition(".")
        holder = _at(answer, above) if above else answer
        if isinstance(holder, dict) and last in holder:  # the query was understood, and there is no user
            return Said(REFUSED, "does not accept it (%s knows nobody by it)" % host)
        return Said(UNKNOWN, "%s answered with other JSON than expected, so it was not checked" % host)
    names = [_at(answer, path) for path in tracker.account]
    name = next((_hide(found, secret) for found in names if isinstance(found, str) and found.strip()), "")[:_MAX_NAME]
    return Said(PASSED, "accepted, account %s" % name if name else "accepted")


def _at(value: Any, path: str) -> Optional[Any]:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _hide(text: str, secret: str) -> str:
    """Remove the key from a text, in every form in which we sent it; drop a text that still holds a part of it."""
    text = one_line(text)
    shapes = {secret, secret.strip(), urllib.parse.quote(secret), base64.b64encode(b"api:" + secret.encode()).decode()}
    for shape in sorted(filter(None, shapes), key=len, reverse=True):
        text = text.replace(shape, "(secret)")
    parts = (secret[at : at + _MAX_ECHO] for at in range(len(secret) - _MAX_ECHO + 1))
    return "(withheld: it repeats the key)" if any(part in text for part in parts) else text
