"""A run's handbook: how to see, resume and end it without Leasehold. Both ends render the same page."""

from __future__ import annotations

import re
import shlex
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from leasehold.kit.text.units import utc_minute

from .run_states import FINISHED, TERMINAL

HERE, BOX, OTHER = "sh here", "sh on the box", "sh here, with OTHER filled in"
_NAME = re.compile(r"(.+-[0-9a-f]{10})(?:-(\d{1,6}))?\Z")  # a run's name and its count; not a sweep's share
_SHOWN_CELLS = 8

Facts = Mapping[str, Any]


def render(facts: Facts, place: Facts, state: Facts, now_unix: float) -> str:
    """Render the page: facts that home knows, where the run is on the box, and its state."""
    parts = [
        _title(facts, state, now_unix),
        _first(facts, place),
        _what(facts),
        _where(facts, place, state),
        _look(facts, place, state),
        _resume(facts, place, state),
        _elsewhere(facts, place, state),
        _stop(facts, place, state),
        _bring_home(facts, place),
        _never(facts),
        _chain(),
        _whom(facts),
    ]
    return "\n".join(line for part in parts for line in [*part, ""])


def _title(facts: Facts, state: Facts, now_unix: float) -> List[str]:
    reason = ": %s" % _line(state.get("reason")) if state.get("reason") else ""
    stamp = utc_minute(now_unix)
    return [
        "# Handbook of %s" % facts["run"],
        "",
        "%s%s, as of %s." % (state.get("state"), reason, stamp),
        "This page is written again when that changes; `journal.jsonl` on the box is the truth.",
    ]


def _first(facts: Facts, place: Facts) -> List[str]:
    ways = ["lease watch %s" % facts["run"]]
    other = "lease attach %s --on %s" % (facts["run"], shlex.quote(str(facts.get("box", ""))))
    other += " --root %s" % shlex.quote(str(facts["root"])) if facts.get("root") else ""
    return [
        "## First, when you come back",
        "",
        *_block(HERE, ways),
        "On a machine that did not start it: `%s`. Without Leasehold:" % other,
        "",
        *_block(HERE, [_from_here(facts, "cat %s" % _q(place, "status.json"))]),
        "`heartbeat_unix` in it is seconds since 1970; older than a minute means that no caretaker watches the run.",
    ]


def _what(facts: Facts) -> List[str]:
    price = ", " + str(facts["price"]) if facts.get("price") else ""
    secrets = ", ".join(str(name) for name in facts.get("secrets") or []) or "none"
    rows = [
        ("job", facts.get("name")),
        ("command", "`%s`" % _line(facts.get("command")).replace("`", "'")),
        ("code", "tree %s" % str(facts.get("tree", ""))[:12]),
        ("box", "%s (%s)%s" % (facts.get("box"), facts.get("platform"), price)),
        ("promised", ", ".join("`%s`" % _line(item) for item in facts.get("artifacts") or [])),
        ("needs secrets", secrets + " (names; a resume sends the values again)" if secrets != "none" else secrets),
    ]
    return ["## What this is", "", *_table(rows)]


def _where(facts: Facts, place: Facts, state: Facts) -> List[str]:
    rows = [("run folder", _code(place["folder"]))]
    for name, cell in _cells(state):
        attempt = "attempt-%04d" % int(cell.get("attempt") or 1)
        rows += [
            ("log of %s" % name, _code("%s/cells/%s/%s/log" % (place["folder"], name, attempt))),
            ("results of %s" % name, _code("%s/out/%s" % (place["folder"], name))),
            ("its working folder", _code("%s/work/%s" % (place["folder"], name))),
        ]
    rows += [
        ("events, state", _code("%s/journal.jsonl" % place["folder"]) + ", `status.json`"),
        ("data", _code("%s/data" % place["root"])),
        ("log in", _code(facts["login"]) if facts.get("login") else "it is this machine"),
    ]
    if facts.get("results"):
        rows.append(("results at home", _code("%s/export/%s" % (facts["results"], facts["run"]))))
    return ["## Where everything is", "", *_table(rows)]


def _look(facts: Facts, place: Facts, state: Facts) -> List[str]:
    logs = [
        _from_here(facts, "tail -n 40 %s" % _q(place, "cells/%s/attempt-%04d/log" % (name, int(cell["attempt"]))))
        for name, cell in _cells(state)
        if cell.get("attempt")
    ]
    there = ["cd %s" % _q(place), "tail -n 5 journal.jsonl", "df -h . && df -i ."]
    pids = [int(c["pid"]) for c in (state.get("cells") or {}).values() if c.get("state") == "running" and c.get("pid")]
    there += ["ps -o pid,etime,rss,args -p %s" % ",".join(str(pid) for pid in pids)] if pids else []
    if state.get("state") not in TERMINAL:
        there.append("ps -o pid,etime,args -p \"$(cut -d' ' -f1 caretaker.lock)\"")
    return ["## Look, without Leasehold", "", *_block(HERE, logs), *_block(BOX, there)]


def _resume(facts: Facts, place: Facts, state: Facts) -> List[str]:
    if state.get("state") == FINISHED:
        return ["## Resume", "", "It has finished: there is nothing to resume."]
    again = ["cd %s" % shlex.quote(str(facts["project"])), str(facts["again"])] if facts.get("project") else []
    ended = state.get("state") in TERMINAL
    words = [str(word) for word in place.get("care") or []] + (["setsid", "by-hand"] if ended else [])
    there = "setsid %s > /dev/null 2>&1 < /dev/null &" % " ".join(shlex.quote(word) for word in words)
    why = "The lock of a cell is held while its trainer lives, so none of this can start a second one."
    return ["## Resume", "", *_block(HERE, again), *(_block(BOX, [there]) if words else []), why]


def _elsewhere(facts: Facts, place: Facts, state: Facts) -> List[str]:
    title = ["## Continue on another box", ""]
    if state.get("state") == FINISHED:
        return [*title, "It has finished: there is nothing to continue."]
    if facts.get("engine") == "slurm":
        return [*title, "Another node goes on from the checkpoint: the run folder is on the cluster's shared disk."]
    found = _NAME.match(str(facts["run"]))
    if not found or not facts.get("elsewhere"):
        return [*title, "Its cells move by themselves: lease run --on BOX,OTHER gives them to the boxes that answer."]
    fresh = "%s-%d" % (found[1], int(found[2] or 0) + 1)
    out = "~/.leasehold/active/%s/out" % fresh
    pack = _from_here(facts, "tar cf - -C %s ." % _q(place, "out"))
    return [
        *title,
        "`lease move %s --to OTHER` stops it here and goes on there from its newest state." % facts["run"],
        "",
        "Without a home that knows it: another run there continues from its files, copied before its launch.",
        "They lie below %s. The run there is called" % _code("%s/out" % place["folder"]),
        "`%s`, unless `lease status` lists that name already (then count on). Our folder there is" % fresh,
        "`~/.leasehold`, or the `root` that `lease box show OTHER` prints. Stop the run here first.",
        "",
        *_block(
            OTHER,
            [
                "%s | ssh OTHER 'mkdir -p %s && tar xf - -C %s'" % (pack, out, out),
                "cd %s" % shlex.quote(str(facts["project"])),
                str(facts["elsewhere"]),
            ],
        ),
        "Its first line of progress shows whether it continued: a first step of 0 or 1 says that it did not.",
    ]


def _stop(facts: Facts, place: Facts, state: Facts) -> List[str]:
    if state.get("state") in TERMINAL:
        return [
            "## Stop",
            "",
            "Nothing runs. The box may still bill; below is how to end that.",
        ]
    wish = '{"id": "by-hand-%d", "by": "by hand", "grace_s": 30}' % int(state.get("seq") or 0)
    there = "printf %%s %s > %s" % (shlex.quote(wish), _q(place, "stop.json"))
    return [
        "## Stop",
        "",
        *_block(HERE, ["lease stop %s" % facts["run"]]),
        "Without Leasehold; the trainer gets SIGTERM and 30 s to save:",
        "",
        *_block(BOX, [there]),
    ]


def _bring_home(facts: Facts, place: Facts) -> List[str]:
    name = "%s-by-hand" % facts["run"]
    sums = _q(place, "by-hand.sha256")
    pack = "cd %s && find . -type f -exec sha256sum {} + > %s && tar cf - ." % (_q(place, "out"), sums)
    return [
        "## Bring the results home by hand",
        "",
        *_block(
            HERE,
            [
                "mkdir -p %s" % name,
                "%s | tar xf - -C %s" % (_from_here(facts, pack), name),
                "%s > %s.sha256" % (_from_here(facts, "cat %s" % sums), name),
                "(cd %s && sha256sum -c --quiet ../%s.sha256)" % (name, name),
            ],
        ),
        "That proves the bytes. Only `lease pull %s` also loads them and writes the receipt" % facts["run"],
        "that `lease down` asks for.",
    ]


def _never(facts: Facts) -> List[str]:
    rows = [(str(verb.get("name")), _line(verb.get("what"))) for verb in facts.get("verbs") or []]
    return [
        "## What must not be done",
        "",
        "- Do not start the training command beside the caretaker: two trainers would write to one folder.",
        "- Do not delete `lock` files, `journal.jsonl` or `plan.json`: a resume needs them.",
        "- End the box only with `lease down %s`, after `lease pull`. What the platform's verbs do:" % facts["run"],
        "",
        *_table(rows or [("unknown", "this platform's verbs are not known: assume that every one deletes")]),
    ]


def _chain() -> List[str]:
    rows = [
        ("code and plan", "`plan.json`"),
        ("downloads", "`downloads_ready` in the journal"),
        ("set-up, once per cell", "`cells/<cell>/setup-done`, then `env-passed`"),
        ("training", "`cells/<cell>/attempt-<n>/exit.json` with code 0, then `stage_passed`"),
        ("evaluation, where the job has one", "the same, of a further attempt"),
        ("seal: the promised files are read and hashed", "`cell_sealed`, then `cell_finished`"),
        ("copy to the durable tier, where there is one", "`durable.json`, then `durable_copied`"),
        ("the end", "`run_finished` in the journal: only after all of the above"),
        ("at home", "`lease pull` writes the receipt; `lease verify %s` reads it again" % "RUN"),
    ]
    return ["## The chain and its markers", "", *_table(rows)]


def _whom(facts: Facts) -> List[str]:
    told = facts.get("channels") or 0
    return [
        "## Whom to ask",
        "",
        "%s started it%s. Notices go to %s. `lease doctor %s` says why it died."
        % (
            facts.get("who") or "Nobody known",
            " from %s" % _code(facts["project"]) if facts.get("project") else "",
            "%d of their channels" % told if told else "no channel",
            facts["run"],
        ),
    ]


def _cells(state: Facts) -> List[Tuple[str, Facts]]:
    """List a few cells, running ones first."""
    cells = state.get("cells") or {}
    return sorted(cells.items(), key=lambda item: (item[1].get("state") != "running", item[0]))[:_SHOWN_CELLS]


def _from_here(facts: Facts, command: str) -> str:
    """Format a box command to be typed at home; on this machine it must not change the person's current folder."""
    if facts.get("login"):
        return "%s %s" % (facts["login"], shlex.quote(command))
    return "(%s)" % command if "&&" in command else command


def _q(place: Facts, below: str = "") -> str:
    """Quote a path of the run folder; a leading ~/ must stay bare, or no shell expands it."""
    path = str(place["folder"]) + ("/" + below if below else "")
    return "~/" + shlex.quote(path[2:]) if path.startswith("~/") else shlex.quote(path)


def _block(kind: str, commands: Sequence[str]) -> List[str]:
    """Fence commands; a fence is longer than any run of backticks inside."""
    if not commands:
        return []
    fence = "```"
    while any(fence in command for command in commands):
        fence += "`"
    return [fence + kind, *commands, fence, ""]


def _table(rows: Sequence[Sequence[Any]]) -> List[str]:
    return ["| | |", "|---|---|", *("| %s | %s |" % (left, str(right).replace("|", "\\|")) for left, right in rows)]


def _code(text: Any) -> str:
    return "`%s`" % _line(text).replace("`", "'")


def _line(text: Any) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in str(text or "")).split())


def blank_facts(plan: Facts) -> Dict[str, Any]:
    """Take the facts from the plan, for a run whose home sent no more."""
    job = plan.get("job") or {}
    return {
        "run": plan.get("run"),
        "name": job.get("name"),
        "command": job.get("run"),
        "tree": plan.get("tree"),
        "platform": plan.get("platform"),
        "engine": plan.get("engine") or "",
        "box": "this box",
        "secrets": job.get("secrets") or [],
        "artifacts": plan.get("patterns") or [],
    }
