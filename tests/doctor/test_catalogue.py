"""The catalogue: every sign fires on its real line and spares its near miss; no regex can run away."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leasehold.facts.ailments import all_ailments, find
from leasehold.kit.failure.catalogue import shipped
from tests.doctor.excerpts import diagnosed
from tests.doctor.steps import Counter

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import catalogue_rules  # noqa: E402 - a tool, found by the line above
import gen_catalogue  # noqa: E402 - a tool, found by the line above

BOOK = shipped()
ENTRIES = [entry for _, listed in gen_catalogue.read() for entry in listed]
SIGNS = [(entry, sign) for entry in ENTRIES for sign in entry.get("signs", ())]
SHOWN = [pytest.param(entry, sign, id=f"{entry['id']}-{n}") for n, (entry, sign) in enumerate(SIGNS) if "fires" in sign]
PATTERNS = sorted({sign[key] for _, sign in SIGNS for key in ("log", "after") if key in sign})
_MOST_STEPS = 3_000_000


def named(entry: dict[str, Any], text: str) -> set[str]:
    """Every id that a text shows, whether it is reported, refined away or only a notice."""
    from leasehold.kit.failure.evidence import Context

    seen = diagnosed(BOOK, text, Context(platform=entry.get("platform", "")))
    return {name for finding in (*seen.findings, *seen.notices) for name in (finding.id, *finding.instead_of)}


@pytest.mark.parametrize("entry, sign", SHOWN)
def test_a_sign_fires_on_its_real_line(entry, sign):
    text = "\n".join(filter(None, (sign.get("given"), sign["fires"]))) + "\n"
    assert entry["id"] in named(entry, text * entry.get("least", 1))
    assert re.match(r"https?://\S+\.\S+", sign["cite"])


@pytest.mark.parametrize("entry, sign", [item for item in SHOWN if "spares" in item.values[1]])
def test_a_sign_spares_its_near_miss(entry, sign):
    text = sign["spares"] + "\n"
    assert entry["id"] not in named(entry, text * entry.get("least", 1))


def test_every_entry_that_is_found_in_a_log_has_a_line_that_shows_it():
    by_code = {"D20"}  # found by comparing ranks; test_diagnose shows it
    shown = {entry["id"] for entry, sign in SIGNS if "fires" in sign}
    assert {entry["id"] for entry in ENTRIES if entry["found_by"] == "log"} - shown <= by_code


def test_the_compiled_files_are_what_the_yaml_says():
    done = subprocess.run(
        [sys.executable, "tools/gen_catalogue.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_catalogue_is_refused_with_reasons():
    good = ENTRIES[0]
    broken = {**good, "class": "mystery", "refines": ["NOPE"], "signs": [{"log": "(a+)+b", "fires": "x"}]}
    with pytest.raises(SystemExit) as refusal:
        gen_catalogue.check([broken, good])
    for word in ("twice", "mystery", "NOPE", "upper bound", "without cite", "near miss"):
        assert word in str(refusal.value)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_bounded_by_its_structure(pattern):
    assert catalogue_rules.check(pattern) == ""


def _strings_within(pattern: str, rng: random.Random) -> list[str]:
    """Texts made to mislead: the pattern's own literals and filler, repeated, with the end missing."""
    pieces = re.findall(r"[A-Za-z][\w ]{2,}", pattern) or ["x"]
    joined = [" ".join(rng.choice(pieces) for _ in range(30)), rng.choice(pieces) * 40, "a" * 400, "1" * 400, " " * 400]
    return [text[:400] for text in joined] + ["".join(rng.choice(pieces)[:4] for _ in range(120))[:400]]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_text_makes_a_pattern_run_away(pattern):
    rng = random.Random(7)
    for text in _strings_within(pattern, rng):
        counter = Counter(pattern, _MOST_STEPS)
        assert counter.search(text) == (re.search(pattern, text) is not None)


def test_the_step_counter_would_notice_a_runaway():
    from tests.doctor.steps import TooManySteps

    with pytest.raises(TooManySteps):
        Counter("(?:a|aa){1,60}b", 200_000).search("a" * 60)


def test_every_literal_is_led_to_by_an_anchor_and_implied_by_its_sign():
    for entry, sign in SIGNS:
        if "log" in sign and "fires" in sign and "any" not in sign:
            assert any(text in sign["fires"] for text in catalogue_rules.needed_literals(sign["log"])), entry["id"]


def test_ids_and_aliases_find_their_entry():
    assert find("u26") is all_ailments()["U26"]
    assert find("GEN4") is all_ailments()["U26"]
    assert find("no-such-id") is None


def test_each_entry_says_what_why_and_what_to_do():
    for ailment in all_ailments().values():
        assert ailment.symptom and ailment.cause and ailment.fix and ailment.source, ailment.id
