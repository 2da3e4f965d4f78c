"""Send notices from a short-lived process: HTTP, mail and TLS cost megabytes that the caretaker must not carry."""

from __future__ import annotations

import http.client
import json
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Mapping

from leasehold.kit.failure.back_off import pause_after
from leasehold.kit.tables.notice_channels import KINDS, secrets_of
from leasehold.kit.text.redact import Redactor

from .http_post import Trouble, hide, post
from .vendors import VENDORS

TRIES = 3
_PAUSES_S = (1.0, 4.0)
_MOST_PAUSE_S = 20.0  # a longer wait is left to the next process
LIMIT_S = 120

Channel = Mapping[str, Any]
Message = Mapping[str, Any]


def send_all(sends: List[Dict[str, Any]], sleep: Callable[[float], None] = time.sleep) -> List[Dict[str, Any]]:
    """Send each message to its channel; return for each what went wrong ("" is nothing) and how long to wait."""
    known = [secret for item in sends for secret in secrets_of(item["channel"])]
    redactor = Redactor()  # text from a box may hold a secret of the job
    results = [send(item["channel"], redactor.tree(item["message"]), sleep) for item in sends]
    return [dict(result, problem=hide(result["problem"], known)) for result in results]


def send(channel: Channel, message: Message, sleep: Callable[[float], None] = time.sleep) -> Dict[str, Any]:
    """Send one message, with a retry where that may help; what is returned names no address and no secret."""
    trouble = Trouble("not tried")
    for number in range(TRIES):
        try:
            _send_once(channel, message)
        except Trouble as error:
            trouble = error
        except (OSError, http.client.HTTPException) as error:
            trouble = Trouble(_spell(error), again=True)
        except (ValueError, KeyError, TypeError) as error:
            trouble = Trouble("%s: %s" % (type(error).__name__, error))
        else:
            return {"problem": "", "wait_s": 0.0}
        pause_s = max(trouble.wait_s, pause_after(number + 1, _PAUSES_S))
        if not trouble.again or pause_s > _MOST_PAUSE_S or number == TRIES - 1:
            break
        sleep(pause_s)
    said = hide(str(trouble), secrets_of(channel))[:300]  # hidden before it is cut: half a secret is one too
    return {"problem": said, "wait_s": trouble.wait_s}


def _send_once(channel: Channel, message: Message) -> None:
    kind = str(channel.get("kind"))
    if kind not in KINDS:
        raise Trouble("unknown kind of channel: %s" % kind[:40])
    if kind == "smtp":
        from .mail import mail  # few send mail

        mail(channel, message)
        return
    vendor = VENDORS[kind]
    answer = post(vendor.write(channel, message, time.time()))
    vendor.judge(answer)


def _spell(error: BaseException) -> str:
    """Format what the system reports; some errors wrap the real one, and some hold an address."""
    reason = getattr(error, "reason", None)
    error = reason if isinstance(reason, BaseException) else error
    return str(getattr(error, "strerror", None) or "") or str(error) or type(error).__name__


def notice(stream: Any) -> int:
    """Entry point of the sender: messages on stdin, results on stdout; it ends itself if it hangs."""
    signal.alarm(LIMIT_S)
    results = send_all(json.loads(stream.read())["sends"])
    sys.stdout.write(json.dumps({"results": results}))
    return 1 if any(result["problem"] for result in results) else 0
