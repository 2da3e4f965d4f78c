"""List what the cluster offers, and apply a job's constraint on cards to it."""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional

from .batch_script import seconds_of
from .commands import SlurmRefused, ask

_GPU = re.compile(r"gpu(?::(?P<type>[^:(,\s]+))??(?::(?P<count>\d+))?(?:\([^)]*\))?\Z")


class Offer(NamedTuple):
    """Nodes of one kind in a partition."""

    partition: str
    is_default: bool
    nodes: int
    cards: Dict[str, int]  # by type, count per node; "" where the site gives them no type
    features: List[str]
    limit_s: Optional[int]  # of a job; None where there is none


def settle(wishes: Dict[str, Any]) -> Dict[str, Any]:
    """Choose cards by name among those of the partition; refuse what it cannot give, listing what it can."""
    if not wishes.get("gpu_name") and not wishes.get("time"):
        return wishes
    offers = _of_partition(read_offers(), str(wishes.get("partition") or ""))
    _refuse_long(wishes, offers)
    name, count = str(wishes.get("gpu_name") or ""), int(wishes.get("gpu_count") or 1)
    if not name or not offers:
        return wishes
    types = {card: offer.nodes for offer in offers for card in offer.cards if card and _alike(name, card)}
    if types:
        card = max(types, key=lambda one: (_plain(one) == _plain(name), types[one]))
        _refuse_many(card, count, offers)
        return dict(wishes, gres="gpu:%s:%d" % (card, count))
    features = [word for offer in offers if offer.cards for word in offer.features if _alike(name, word)]
    if features:
        both = [str(wishes["constraint"]), features[0]] if wishes.get("constraint") else [features[0]]
        return dict(wishes, constraint="&".join(both))
    raise SlurmRefused("no card here is named %r (resources.gpu.name): %s" % (name, say_offers(offers)))


def read_offers() -> List[Offer]:
    """Ask Slurm which nodes there are."""
    found = []
    for line in ask(["sinfo", "-h", "-o", "%P|%D|%G|%f|%l"]).splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) != 5:
            continue
        nodes = int(words[1]) if words[1].isdigit() else 1
        features = [] if words[3] == "(null)" else words[3].split(",")
        name = words[0].rstrip("*")
        found.append(Offer(name, words[0].endswith("*"), nodes, cards_of(words[2]), features, seconds_of(words[4])))
    return found


def say_offers(offers: List[Offer]) -> str:
    """Format which cards there are, by partition."""
    said = []
    for offer in offers:
        for card, count in offer.cards.items():
            named = "gpu:%s" % card if card else "gpu without a type"
            said.append("%s has %s, %d on each of %d nodes" % (offer.partition, named, count, offer.nodes))
    return "; ".join(dict.fromkeys(said)) or "the partition has no cards"


def cards_of(text: str) -> Dict[str, int]:
    """Read sinfo's list of generic resources: gpu:a100:4(S:0-1),gpu:2."""
    found: Dict[str, int] = {}
    for word in re.split(r",(?![^(]*\))", text):
        seen = _GPU.match(word.strip())
        if seen is not None:
            card = seen.group("type") or ""
            found[card] = max(found.get(card, 0), int(seen.group("count") or 1))
    return found


def _of_partition(offers: List[Offer], wanted: str) -> List[Offer]:
    names = wanted.split(",") if wanted else []
    return [offer for offer in offers if (offer.partition in names if names else offer.is_default)]


def _refuse_long(wishes: Dict[str, Any], offers: List[Offer]) -> None:
    asked_s = seconds_of(str(wishes.get("time") or "")) or 0
    limits = [offer.limit_s for offer in offers]
    most_s = max((limit for limit in limits if limit is not None), default=None)
    if asked_s and most_s is not None and None not in limits and asked_s > most_s:
        names = ", ".join(sorted({offer.partition for offer in offers}))
        said = (
            "slurm.time asks for %d min, and %s allows %d: a longer job would wait for ever; it resumes after its wall"
        )
        raise SlurmRefused(said % (asked_s // 60, names, most_s // 60))


def _refuse_many(card: str, count: int, offers: List[Offer]) -> None:
    most = max(offer.cards.get(card, 0) for offer in offers)
    if count > most:
        raise SlurmRefused("it asks for %d cards %s on one node: %s" % (count, card, say_offers(offers)))


def _alike(name: str, other: str) -> bool:
    ours, theirs = _plain(name), _plain(other)
    return bool(ours and theirs) and (ours in theirs or (len(theirs) > 2 and theirs in ours))


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
