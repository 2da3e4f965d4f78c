"""Write what the doctor reads from facts/catalogue/*.yaml: the matcher's book, the texts, and docs/catalogue.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import catalogue_rules
import yaml
from written import written

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "leasehold"
TIERS = ("hardware", "kernel", "disk", "cuda", "framework", "network", "dynamics", "", "fallback")
CLASSES = ("probabilistic", "disk-full", "bug", "hardware", "transport", "clock", "advice")
FOUND_BY = ("log", "probe", "preflight", "design", "advice")
SEVERITIES = ("crash", "hang", "data-loss", "wrong-result", "slow", "money")
NEEDED = ("id", "title", "symptom", "cause", "fix", "class", "severity", "found_by", "source")
MARKS = ("tier", "soft", "follows", "notice", "least", "refines", "platform", "exits", "states", "signs")
ALLOWED = {*NEEDED, *MARKS, "aliases", "zh", "do", "take"}
IN_SIGN = {"log", "by", "any", "after", "fires", "given", "cite", "spares"}


def main() -> int:
    """Generate the three files, or compare them."""
    topics = read()
    entries = [entry for _, listed in topics for entry in listed]
    check(entries)
    texts = {entry["id"]: _texts(entry, topic) for topic, entry in _flat(topics)}
    drifted = [
        written("src/leasehold/kit/failure/catalogue.json", _json(book(entries))),
        written("src/leasehold/facts/catalogue.json", _json(texts)),
        written("docs/catalogue.md", page(topics)),
    ]
    return max(drifted)


def read() -> list[tuple[str, list[dict[str, Any]]]]:
    """Read every topic, in name order."""
    files = sorted((PACKAGE / "facts" / "catalogue").glob("*.yaml"))
    return [(file.stem, yaml.safe_load(file.read_text(encoding="utf-8"))) for file in files]


def check(entries: list[dict[str, Any]]) -> None:
    """Refuse a catalogue whose parts do not fit together."""
    wrong: list[str] = []
    ids = [entry.get("id", "?") for entry in entries]
    names = ids + [alias for entry in entries for alias in entry.get("aliases", ())]
    wrong += [f"{name}: twice" for name in sorted({name for name in names if names.count(name) > 1})]
    for entry in entries:
        wrong += [f"{entry.get('id')}: {problem}" for problem in _problems(entry, set(ids))]
    if wrong:
        raise SystemExit("catalogue:\n  " + "\n  ".join(wrong))


def book(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Compile the matching half: what ships to the box."""
    compiled, literals = [], set()
    for entry in entries:
        signs = [_sign(sign) for sign in entry.get("signs", ()) if "log" in sign]
        if not (signs or entry.get("exits") or entry.get("states") or entry.get("signs")):
            continue
        literals |= {text for sign in signs for text in sign["any"]}
        item: dict[str, Any] = {"id": entry["id"], "class": entry["class"]}
        item["tier"] = TIERS.index(entry.get("tier", "")) + 1
        if entry.get("notice"):
            item["kind"] = "notice"
        for key in ("soft", "follows", "least", "refines", "platform", "exits", "states"):
            if entry.get(key):
                item[key] = entry[key]
        if signs:
            item["signs"] = signs
        compiled.append(item)
    return {"format": 1, "anchors": catalogue_rules.choose_anchors(literals), "entries": compiled}


def page(topics: list[tuple[str, list[dict[str, Any]]]]) -> str:
    """Format the catalogue as a page."""
    lines = ["# Catalogue of failures", ""]
    lines += ["Generated from `src/leasehold/facts/catalogue/`; `lease doctor ID` prints an entry.", ""]
    for topic, entries in topics:
        lines += [f"## {topic}", "", "| id | what | class | what to do |", "|---|---|---|---|"]
        for entry in entries:
            also = f" ({', '.join(entry['aliases'])})" if entry.get("aliases") else ""
            cells = (entry["id"] + also, entry["title"], entry["class"], entry["fix"])
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _sign(sign: dict[str, Any]) -> dict[str, Any]:
    made = {"re": sign["log"], "any": sign.get("any") or catalogue_rules.needed_literals(sign["log"])}
    if sign.get("after"):
        made["after"] = sign["after"]
    return made


def _texts(entry: dict[str, Any], topic: str) -> dict[str, Any]:
    kept = [key for key in NEEDED if key != "id"] + ["refines", "aliases", "zh", "do", "take"]
    return {"topic": topic, **{key: entry[key] for key in kept if entry.get(key)}}


def _flat(topics: list[tuple[str, list[dict[str, Any]]]]) -> list[tuple[str, dict[str, Any]]]:
    return [(topic, entry) for topic, entries in topics for entry in entries]


def _problems(entry: dict[str, Any], ids: set[str]) -> list[str]:
    found = [f"{key} is missing" for key in NEEDED if not entry.get(key)]
    found += [f"unknown key {key}" for key in entry if key not in ALLOWED]
    for key, known in (("class", CLASSES), ("severity", SEVERITIES), ("found_by", FOUND_BY)):
        if entry.get(key) not in known:
            found.append(f"{key} {entry.get(key)!r} is none of {', '.join(known)}")
    if entry.get("tier", "") not in TIERS:
        found.append(f"tier {entry['tier']!r} is none of {', '.join(filter(None, TIERS))}")
    found += [f"refines {other}, which does not exist" for other in entry.get("refines", ()) if other not in ids]
    if entry.get("found_by") == "log" and not entry.get("signs"):
        found.append("is found in a log but has no sign")
    signs = entry.get("signs", ())
    shown = any("fires" in sign and "spares" in sign for sign in signs)
    if signs and all("log" in sign for sign in signs) and not shown:
        found.append("has no line that fires it with a near miss that does not")
    for sign in signs:
        found += [f"sign has unknown key {key}" for key in sign if key not in IN_SIGN]
        found += [f"fires without cite: {sign['fires'][:60]}"] if sign.get("fires") and not sign.get("cite") else []
        for key in ("log", "after"):
            problem = catalogue_rules.check(sign[key]) if key in sign else ""
            found += [f"{problem}: {sign[key]}"] if problem else []
    return found


def _json(value: dict[str, Any]) -> str:
    """One entry a line: small, and a change shows as a line."""
    if "entries" in value:
        head = json.dumps({key: item for key, item in value.items() if key != "entries"}, ensure_ascii=False)
        body = ",\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in value["entries"])
        return f'{head[:-1]}, "entries": [\n{body}\n]}}\n'
    body = ",\n".join(f"{json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in value.items())
    return f"{{\n{body}\n}}\n"


if __name__ == "__main__":
    sys.exit(main())
