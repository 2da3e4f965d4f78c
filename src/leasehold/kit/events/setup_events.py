"""Events before and after the training: downloads, the environment, links, the durable copy."""

from __future__ import annotations

from typing import Any, Dict

from leasehold.kit.tables.env_rules import say_build
from leasehold.kit.tables.topics import HIGH
from leasehold.kit.text.units import count, say_bytes

from .gate_lines import finding_lines, gate_line
from .sentence import Event, Sentence, after, listed, number


def _started(event: Event) -> str:
    total = say_bytes(number(event, "total")) if event.get("total") else "size unknown"
    kept = ", %s already here" % say_bytes(number(event, "have")) if event.get("have") else ""
    return "downloading %s: %s, %s%s" % (_what(event), _files(event), total, kept)


def _progress(event: Event) -> str:
    have, total = number(event, "have"), number(event, "total")
    share = " of %s (%d%%)" % (say_bytes(total), 100 * have // total) if total else ""
    return "downloading %s: %s%s, %s" % (event.get("to"), say_bytes(have), share, _rate(event))


def _route(event: Event) -> str:
    seen = [one for one in listed(event, "routes") if isinstance(one, dict)]
    each = ", ".join(
        "%s (%s) %s" % (one.get("route"), one.get("via"), one.get("problem") or _rate(one)) for one in seen
    )
    return "speed by route: %s%s" % (each, "; using %s" % event.get("used") if len(seen) > 1 else "")


def _done(event: Event) -> str:
    version = after(", version ", str(event.get("commit") or "")[:12])
    said = (event.get("to"), _files(event), say_bytes(number(event, "bytes")), _rate(event), version)
    return "downloaded %s: %s, %s, %s%s" % said


def download_failed(event: Event) -> str:
    """Report which download failed and why; addresses are shown without their query."""
    tries = number(event, "tries")
    tried = " after %d tries" % tries if tries > 1 else ""
    sources, target = _sources(event), event.get("file") or event.get("to")
    return "%s to %s%s: %s" % (sources, target, tried, event.get("error"))


def _retry(event: Event) -> str:
    return "downloading %s: try %s failed: %s; retrying" % tuple(map(event.get, ("file", "tries", "error")))


def _files(event: Event) -> str:
    return count(number(event, "files"), "file")


def _what(event: Event) -> str:
    return "%s to %s" % (_sources(event), event.get("to"))


def _sources(event: Event) -> str:
    return " or ".join(str(source) for source in listed(event, "from"))


def _rate(event: Event) -> str:
    return "%s/s" % say_bytes(number(event, "bytes_per_s"))


def hook_failed(event: Event) -> str:
    """Report how the platform's hook ended a command before it started."""
    said = after(": ", " / ".join(str(line) for line in listed(event, "lines")[-2:]))
    return "the platform's hook `%s` ended with exit code %s%s" % (event.get("hook"), event.get("code"), said)


def _recorded(event: Event) -> str:
    seen = event.get("frameworks")
    builds = {name: facts for name, facts in seen.items() if isinstance(facts, dict)} if isinstance(seen, dict) else {}
    has = ", ".join("%s %s" % (name, say_build(builds[name])) for name in sorted(builds) if builds[name].get("file"))
    line = "before set-up this box has %s%s" % (has or "no torch", "; set-up keeps it" if event.get("kept") else "")
    return "\n".join([line, *("  left out: %s" % one for one in listed(event, "left_out"))])


def _judged(event: Event) -> str:
    findings = [one for one in listed(event, "findings") if isinstance(one, dict)]
    outcome = str(event.get("outcome"))
    checks = len(findings) if outcome == "passed" else 0
    note = ", as before" if event.get("cached") else ", skipped" if event.get("skipped") else ""
    return "\n".join([gate_line("env after set-up", outcome, checks, note), *finding_lines(findings)])


def _copied(event: Event) -> str:
    sizes = [event.get(key) for key in ("bytes", "of_bytes")]
    done, total = (say_bytes(value) if isinstance(value, int) else "?" for value in sizes)
    return "%s, %s of %s" % (event.get("phase", "starting"), done, total)


def _waiting(event: Event) -> str:
    said: Any = (event.get("to"), event.get("silent_s"), _copied(event), event.get("limit_s"))
    return "%s has not answered for %s s (%s); giving up after %s s" % said


SENTENCES: Dict[str, Sentence] = {
    "download_started": Sentence(_started),
    "download_progress": Sentence(_progress),
    "download_route": Sentence(_route),
    "download_done": Sentence(_done),
    "download_failed": Sentence(lambda event: "download failed: %s" % download_failed(event)),
    "download_retry": Sentence(_retry),
    "download_found": Sentence(lambda event: "%s is already downloaded" % event.get("to")),
    "downloads_found": Sentence(lambda event: "all downloads (%s) are already there" % event.get("items")),
    "downloads_ready": Sentence(lambda event: "all downloads are complete and verified"),
    "download_waiting": Sentence(lambda event: "waiting: another run downloads %s" % event.get("to")),
    "download_worker_lost": Sentence(lambda event: "the download process died; downloading continues where it was"),
    "hook_failed": Sentence(hook_failed),
    "tensorboard_linked": Sentence(
        lambda event: "TensorBoard: %s%s" % (event.get("link"), after(": ", event.get("problem")))
    ),
    "env_recorded": Sentence(_recorded),
    "env_judged": Sentence(_judged),
    "durable_started": Sentence(lambda event: "copying the results to %s" % event.get("to")),
    "durable_copied": Sentence(lambda event: "cell %s: %s, in %s" % tuple(map(event.get, ("cell", "how", "to")))),
    "durable_skipped": Sentence(
        lambda event: "no durable copy: %s; the results can be pulled as usual" % event.get("why")
    ),
    "durable_progress": Sentence(lambda event: "durable copy: %s" % _copied(event)),
    "durable_waiting": Sentence(_waiting),
    "publish_started": Sentence(lambda event: "publishing the results to %s" % event.get("to")),
    "publish_progress": Sentence(lambda event: "publishing: %s" % _copied(event)),
    "publish_retry": Sentence(
        lambda event: "publishing was cut (%s); again in %.0f s" % (event.get("why"), float(event.get("again_s") or 0))
    ),
    "published": Sentence(
        lambda event: (
            "published: %s, %s, in %s"
            % (count(int(event.get("files") or 0), "file"), event.get("how"), event.get("to"))
        )
    ),
    "publish_failed": Sentence(
        lambda event: (
            "the results were NOT published to %s: %s; they can be pulled as usual"
            % (event.get("to"), event.get("why"))
        ),
        "failed",
        HIGH,
    ),
    "durable_failed": Sentence(lambda event: "the durable copy FAILED: %s" % event.get("why"), "failed", HIGH),
}
