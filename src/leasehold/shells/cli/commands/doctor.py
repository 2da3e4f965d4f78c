"""The doctor and lint commands: call the api, render its answer."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from leasehold.api.doctor import DoctorOrder, diagnose, explain_id, search
from leasehold.api.doctor import lint as lint_sources
from leasehold.errors import UserError
from leasehold.model.values.wording import one_line
from leasehold.shells.cli import output

_FOUND, _NONE = 1, 0
_RETRY = {True: ("green", "yes"), False: ("red", "no"), None: ("yellow", "unknown")}


def doctor(args: Namespace) -> int:
    """lease doctor"""
    if args.search:
        return _search(" ".join([*args.search, *args.target]), args.json)
    if not args.target:
        hint = "lease doctor LOG, lease doctor RUN, lease doctor -, lease doctor --search WORDS"
        raise UserError("doctor.no_target", "no target given", hint=hint)
    if len(args.target) == 1:
        explained = explain_id(args.target[0])
        if explained is not None:
            return _explain(explained, args.json)
    order = DoctorOrder(tuple(args.target), args.platform, args.exit_code, tuple(args.state))
    seen = diagnose(order)
    if args.json:
        output.as_json(seen)
        return _FOUND if seen["findings"] else _NONE
    if seen.get("home_copy"):
        output.say(f"this shows the {seen['home_copy']}")
    if seen.get("done"):
        output.lines(["on the box:", *(f"   {one_line(line)}" for line in seen["done"])])
    for number, finding in enumerate(seen["findings"], 1):
        _show(number, finding)
    if args.notices:
        for notice in seen["notices"]:
            output.data(f"note {notice['id']}: {notice['title']} ({_place(notice['evidence'][0])})")
    if not seen["findings"]:
        _say_nothing_found(seen)
    return _FOUND if seen["findings"] else _NONE


def lint(args: Namespace) -> int:
    """lease lint"""
    remarks = lint_sources(tuple(args.source))
    if args.json:
        output.as_json({"remarks": remarks})
        return _FOUND if remarks else _NONE
    for remark in remarks:
        output.data(f"{remark['path']}:{remark['line']}: {remark['rule']} ({remark['id']}): {remark['what']}")
        output.say(f"    {output.paint(remark['code'], 'dim')}\n    -> {remark['fix']}")
    if not remarks:
        output.say("nothing found")
    return _FOUND if remarks else _NONE


def _show(number: int, finding: dict[str, Any]) -> None:
    colour, word = _RETRY[finding["retry"]]
    sure = "" if finding["confidence"] == "certain" else " (likely)"
    output.data(f"{number}. {output.paint_data(finding['id'], 'bold')}  {finding['title']}{sure}")
    for item in finding["evidence"][:3]:
        output.data(f"   {_place(item)}")
        output.data(f"   | {one_line(item['text'])[:200]}")
    if finding.get("note"):
        output.data(f"   {finding['note']}")
    output.data(f"   cause: {finding['cause']}")
    output.data(f"   fix:   {finding['fix']}")
    for command in finding["commands"]:
        output.data(f"          $ {one_line(command)}")
    output.data(f"   retry: {output.paint_data(word, colour)} ({finding['action']})")
    output.data(f"   see:   {finding['source']}")


def _place(item: dict[str, Any]) -> str:
    rank = f" rank {item['rank']}" if "rank" in item else ""
    times = f", {item['count']} times" if item["count"] > 1 else ""
    where = f":{item['line']} (byte {item['offset']})" if "line" in item else ""
    return f"{one_line(item['source'])}{where}{rank}{times}"


def _say_nothing_found(seen: dict[str, Any]) -> None:
    size = sum(int(log["bytes"]) for log in seen["read"])
    output.say(f"nothing known found in {len(seen['read'])} log{'s' * (len(seen['read']) != 1)} ({size:,} bytes)")
    if seen["notices"]:
        output.say(f"{len(seen['notices'])} things worth knowing: --notices")


def _explain(entry: dict[str, Any], as_json: bool) -> int:
    if as_json:
        output.as_json(entry)
        return 0
    output.data(f"{entry['id']}  {entry['title']}")
    for key in ("symptom", "cause", "fix"):
        output.data(f"  {key + ':':9}{entry[key]}")
    for command in entry["commands"]:
        output.data(f"           $ {command}")
    output.data(
        f"  {'retry:':9}{_RETRY[entry['retry']][1]} ({entry['action']})  [{entry['class']}, {entry['severity']}]"
    )
    for key in ("refines", "aliases"):
        if entry.get(key):
            output.data(f"  {key + ':':9}{', '.join(entry[key])}")
    output.data(f"  {'see:':9}{entry['source']}")
    return 0


def _search(words: str, as_json: bool) -> int:
    found = search(words)
    if as_json:
        output.as_json({"entries": found})
    else:
        output.table([[entry["id"], entry["title"], entry["symptom"]] for entry in found], ["id", "what", "looks like"])
        output.say("lease doctor ID explains one" if found else "no entry matches these words")
    return 0 if found else 1
