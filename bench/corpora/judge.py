"""What an answer of a tool comes to, given what the file is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

OURS = "leasehold"
MEMORY_LIMIT_BYTES = 1 << 30
_BASE_S = 5.0
_BYTES_PER_S = 100_000_000
_MIB = 1 << 20
_WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


@dataclass(frozen=True)
class File:
    """One file of a corpus; truth is `attack`, `code` (a model's own classes) or `plain`."""

    corpus: str
    path: str
    truth: str
    bytes: int
    valid: bool = False  # a real library wrote it, so a refusal is a false alarm
    folder: bool = False


@dataclass(frozen=True)
class Outcome:
    """How one tool did with one file."""

    tool: str
    corpus: str
    path: str
    hostile: bool = False
    valid: bool = False
    executed: bool = False
    missed: bool = False
    alarm: bool = False
    unread: bool = False
    hang: bool = False
    slow: bool = False
    fat: bool = False
    broke: bool = False
    seconds: float = 0.0
    peak_bytes: int = 0
    said: str = ""


def judge(tool: str, file: File, answer: Mapping[str, Any]) -> Outcome:
    """Compare what a tool said with what the file is."""
    views: Mapping[str, Sequence[str]] = {
        view: said for view, said in answer["views"].items() if not file.valid or _concerns(view, file)
    }
    words = [said[0] for said in views.values()]
    hostile = file.truth == "attack" or (file.truth == "code" and tool == OURS)
    fine = {"plain", "code", "unread"} if file.truth == "code" else {"plain", "unread"}
    limit_s = _BASE_S + file.bytes / _BYTES_PER_S
    broke = bool(answer.get("broke")) and not answer["hang"]
    return Outcome(
        tool, file.corpus, file.path, hostile, file.valid,
        executed=bool(answer["signs"]),
        missed=hostile and "plain" in words,
        alarm=file.valid and (broke or any(word not in fine for word in words)),
        unread=bool(words) and all(word == "unread" for word in words),
        hang=bool(answer["hang"]),
        slow=answer["cpu_s"] > limit_s,
        fat=answer["peak_bytes"] > MEMORY_LIMIT_BYTES,
        broke=broke,
        seconds=answer["seconds"],
        peak_bytes=answer["peak_bytes"],
        said="; ".join(f"{view}: {' '.join(said)}" for view, said in views.items()) or str(answer.get("broke", "")),
    )  # fmt: skip


def _concerns(view: str, file: File) -> bool:
    """A valid file is to be read as what it is; only weights are also asked about as a checkpoint."""
    return view != "checkpoint" or file.folder or file.path.endswith(_WEIGHTS)


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """Name every bar that our readers do not reach."""
    ours = [each for each in outcomes if each.tool == OURS]
    valid = [each for each in ours if each.valid]
    found = [
        f"{word}: {each.path} ({each.said[:160]})"
        for each in ours
        for word in ("executed", "missed", "hang", "fat", "slow", "broke")
        if getattr(each, word)
    ]
    alarms = sum(each.alarm for each in valid)
    if not ours or not any(each.hostile for each in ours):
        found.append("no malicious file was read")
    if len(valid) < 300:
        found.append(f"only {len(valid)} valid files were read; 300 are needed")
    if valid and alarms > len(valid) / 100:
        found.append(f"{alarms} false alarms in {len(valid)} valid files, more than 1 %")
    return found


def false_alarms(outcomes: Sequence[Outcome]) -> list[str]:
    """Name each valid file that our readers refused, and what they said."""
    return [f"{each.path} ({each.said[:200]})" for each in outcomes if each.tool == OURS and each.alarm]


_HEAD = (
    "corpus", "tool", "files", "executed", "malicious", "missed", "not read", "valid", "false alarms", "hang",
    "peak memory", "median", "longest",
)  # fmt: skip


def table(outcomes: Sequence[Outcome], tools: Sequence[str]) -> str:
    """Spell one table: each corpus with a row a tool, then all of them together."""
    corpora = list(dict.fromkeys(each.corpus for each in outcomes))
    rows = [list(_HEAD)]
    for corpus in [*corpora, "all"]:
        for tool in tools:
            of = [each for each in outcomes if each.tool == tool and corpus in (each.corpus, "all")]
            if of:
                rows.append(_row(corpus, tool, of))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(corpus: str, tool: str, of: Sequence[Outcome]) -> list[str]:
    hostile = [each for each in of if each.hostile]
    valid = [each for each in of if each.valid]
    alarms = sum(each.alarm for each in valid)
    share = f"{alarms} ({100 * alarms / len(valid):.1f} %)" if valid else "-"
    seconds = [each.seconds for each in of]
    return [
        corpus, tool, f"{len(of):,}", str(sum(each.executed for each in of)), f"{len(hostile):,}",
        str(sum(each.missed for each in hostile)), str(sum(each.unread for each in of)), str(len(valid)), share,
        str(sum(each.hang for each in of)), f"{max(each.peak_bytes for each in of) / _MIB:.0f} MiB",
        f"{median(seconds):.2f} s", f"{max(seconds):.1f} s",
    ]  # fmt: skip
