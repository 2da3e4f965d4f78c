"""Convert GPUs, sizes and times from other tools' notation into a job file's."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CARD = re.compile(
    r"(?P<line>rtx|gtx|quadro|titan)?[\s_-]*(?P<model>[a-z]{0,3}\d{1,4}[a-z]{0,2})(?:[\s_-](?P<rest>.+))?\Z", re.I
)
_MEMORY = re.compile(r"(?:\A|[\s_-])(\d{1,3})\s*g(?:i?b)?(?=[\s_-]|\Z)", re.I)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?\Z", re.I)
_DURATION = re.compile(r"(\d+)\s*([smhdw])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True)
class Cards:
    """A request for GPUs, in the notation of a job file."""

    name: str = ""
    count: int = 1
    memory: str = ""


def read_card(word: str) -> tuple[str, str]:
    """Parse a product name into the driver's name for the GPU and its memory: A100-80GB -> A100, 80GB."""
    found = _CARD.match(word.strip())
    if not found or re.search(r"\dg\.", word):  # a slice of a GPU is not a whole one
        return "", ""
    model = found["model"].upper()
    name = (
        f"{found['line'].upper() if found['line'].lower() != 'titan' else 'TITAN'} {model}" if found["line"] else model
    )
    memory = _MEMORY.search(found["rest"] or "")
    return name, f"{memory[1]}GB" if memory else ""


def read_count(text: str) -> int | None:
    """Parse a number of GPUs that a job may ask for."""
    return int(text) if re.fullmatch(r"\d{1,2}", text) and 1 <= int(text) <= 64 else None


def read_size(value: object, unit: str = "G") -> str:
    """Parse a size in the powers of 1024 that these tools mean; a bare number is in `unit`. Empty if it is no size."""
    if isinstance(value, bool):
        return ""
    found = _SIZE.match(str(value).strip())
    if not found or float(found[1]) <= 0:
        return ""
    number = f"{float(found[1]):g}"
    if "e" in number:
        return ""
    return f"{number}{(found[2] or unit).upper()}iB"


def slurm_seconds(text: str) -> int | None:
    """Parse minutes, m:s, h:m:s, d-h, d-h:m or d-h:m:s; None for no limit or no time."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(re.fullmatch(r"\d{1,6}", part) for part in [*parts, *([days] if dash else [])]) or len(parts) > 3:
        return None
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return int(days) * 86400 + hours * 3600 + minutes * 60 + seconds
    if len(numbers) == 3:
        return numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
    minutes, seconds = (*numbers, 0)[:2]
    return (minutes * 60 + seconds) or None


def dstack_seconds(value: object) -> int | None:
    """Parse seconds, or a number with s, m, h, d or w; None for `off` and for no duration."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    if re.fullmatch(r"\d{1,9}", text):
        return int(text) or None
    found = _DURATION.match(text)
    return int(found[1]) * _SECONDS[found[2]] if found else None


def say_duration(seconds: int) -> str:
    """Format seconds as a job file takes them."""
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"
