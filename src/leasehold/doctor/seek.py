"""Find catalogue entries by symptom, in plain English or Chinese, offline: words, their stems, and a small lexicon."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from importlib import resources
from math import log
from typing import Any

from leasehold.facts.ailments import Ailment, all_ailments, find

_WORD = re.compile(r"[a-z0-9_]+")
_CJK = re.compile(r"[\u4e00-\u9fff]+")
_WEIGHTS = {"id": 6.0, "title": 3.0, "zh": 3.0, "symptom": 2.0, "cause": 1.0, "fix": 0.5}


def search(words: str, most: int = 10) -> list[tuple[Ailment, float]]:
    """Rank entries by how well they match the words; an id finds its entry alone."""
    exact = find(words.strip())
    if exact is not None:
        return [(exact, 1.0)]
    wanted = _terms(words)
    chinese = "".join(_CJK.findall(words))
    rarity = _rarity()
    scored = [(entry, _score(entry, wanted, chinese, rarity)) for entry in all_ailments().values()]
    return sorted((item for item in scored if item[1] > 0), key=lambda item: (-item[1], item[0].id))[:most]


def _score(entry: Ailment, wanted: list[str], chinese: str, rarity: dict[str, float]) -> float:
    score = 0.0
    matched = set()
    for name, weight in _WEIGHTS.items():
        held = set(_stems(str(getattr(entry, name))))
        for term in wanted:
            if term in held:
                score += weight * rarity.get(term, 1.0)
                matched.add(term)
    score += 4.0 * _shared_pairs(chinese, entry.zh)
    if entry.found_by == "log" or entry.klass != "advice":
        score *= 1.15  # a failure matches a symptom better than advice does
    return score * (0.4 + 0.6 * len(matched) / len(set(wanted))) if wanted else score


def _shared_pairs(asked: str, held: str) -> int:
    pairs = {asked[i : i + 2] for i in range(len(asked) - 1)}
    return sum(1 for pair in pairs if pair in held)


@functools.cache
def _lexicon() -> dict[str, Any]:
    """Read the lexicon: synonyms, Chinese to the catalogue's English, stop words."""
    found: dict[str, Any] = json.loads(resources.files("leasehold.facts").joinpath("lexicon.json").read_text("utf-8"))
    return found


def _terms(words: str) -> list[str]:
    text, english = words, []
    for chinese in sorted(_lexicon()["zh"], key=len, reverse=True):
        if chinese in text:
            english.append(_lexicon()["zh"][chinese])
            text = text.replace(chinese, " ")
    spoken = f"{' '.join(english)} {words}".lower()
    plain = [_lexicon()["same"].get(word, word) for word in _WORD.findall(spoken)]
    return [stem for stem in _stems(" ".join(plain)) if stem not in _lexicon()["stop"]]


def _stems(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    for ending in ("ings", "ing", "ies", "ied", "ed", "es", "s"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            return word[: -len(ending)]
    return word


def _rarity() -> dict[str, float]:
    entries = all_ailments().values()
    seen: Counter[str] = Counter()
    for entry in entries:
        seen.update(set(_stems(f"{entry.title} {entry.symptom} {entry.cause}")))
    return {word: log(1 + len(entries) / count) / 3 for word, count in seen.items()}
