"""The table of a sweep: a row per cell, or per setting with its seeds as mean ± sd, and the best by each metric."""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Mapping, Sequence

from leasehold.errors import UserError
from leasehold.model.job.cells import SEED, spell
from leasehold.model.run.sweep import Best, CellRow, Group, Spread

from .parquet import Value, write_parquet

_LESS = re.compile(
    r"(?:^|[._/ -])(?:loss|nll|err|error|ppl|perplexity|mae|mse|rmse|wer|cer|fid|bpb|bpc|kl|eer)\d*\Z", re.I
)
_MORE = re.compile(
    r"(?:^|[._/ -])(?:acc|accuracy|auc|auroc|f1|iou|miou|map|ap|bleu|rouge\w*|dice|r2|score|precision|recall|psnr|ssim"
    r"|reward|top\d)(?:[@._-]?\d+)?\Z",
    re.I,
)


def group(rows: Sequence[CellRow]) -> list[Group]:
    """Join cells that differ only in their seed, in order of their first cell; leave out cells without numbers."""
    found: dict[tuple[tuple[str, str], ...], list[CellRow]] = {}
    for row in rows:
        if row.metrics:
            key = tuple((name, repr(value)) for name, value in sorted(row.params.items()) if name != SEED)
            # cells of one setting must differ in a seed: two named cells without parameters are two settings
            found.setdefault(key if SEED in row.params else (*key, ("", row.cell)), []).append(row)
    return [_joined(same) for same in found.values()]


def best(groups: Sequence[Group], wanted: Sequence[str]) -> list[Best]:
    """Return the best setting by each wanted metric (`loss:min`, or `loss` where the name implies it)."""
    known = sorted({name for one in groups for name in one.metrics})
    named = [_direction(word, known) for word in wanted]
    chosen = named or [(name, _guess(name), True) for name in known if _guess(name)]
    found = []
    for metric, direction, guessed in chosen:
        with_it = [one for one in groups if metric in one.metrics]
        pick = min if direction == "min" else max
        top = pick(with_it, key=lambda one: one.metrics[metric].mean)
        found.append(Best(metric, direction, guessed, top.params, top.metrics[metric], len(with_it)))
    return found


def columns(rows: Sequence[CellRow]) -> dict[str, list[Value]]:
    """Arrange a row per cell as columns: cell, state, parameters, metrics; parameters and metrics may share a name."""
    params = list(dict.fromkeys(key for row in rows for key in row.params))
    metrics = list(dict.fromkeys(key for row in rows for key in row.metrics))
    table: dict[str, list[Value]] = {"cell": [row.cell for row in rows], "state": [row.state for row in rows]}
    if any(row.from_log for row in rows):
        table["numbers"] = ["log" if row.from_log else "artifacts" if row.metrics else None for row in rows]
    for key in params:
        table[key if key not in table else f"param.{key}"] = [row.params.get(key) for row in rows]
    for key in metrics:
        table[key if key not in table else f"metric.{key}"] = [row.metrics.get(key) for row in rows]
    return table


def spelled(table: Mapping[str, Sequence[Value]], how: str) -> bytes:
    """Format columns as csv, markdown or Parquet."""
    if how == "parquet":
        return write_parquet(dict(table))
    lines = [list(table), *([_cell(value) for value in row] for row in zip(*table.values(), strict=True))]
    if how == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(lines)
        return out.getvalue().encode("utf-8")
    escaped = [[word.replace("|", "\\|").replace("\n", " ") for word in line] for line in lines]
    rule = ["---"] * len(escaped[0])
    return "".join("| " + " | ".join(line) + " |\n" for line in [escaped[0], rule, *escaped[1:]]).encode("utf-8")


def _joined(same: list[CellRow]) -> Group:
    names = dict.fromkeys(name for row in same for name in row.metrics)
    metrics = {name: _spread([row.metrics[name] for row in same if name in row.metrics]) for name in names}
    params = {key: value for key, value in same[0].params.items() if key != SEED}
    return Group(params, tuple(row.cell for row in same), metrics)


def _spread(values: list[float]) -> Spread:
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), sd, len(values))


def _guess(name: str) -> str:
    if _LESS.search(name):
        return "min"
    return "max" if _MORE.search(name) else ""


def _direction(word: str, known: list[str]) -> tuple[str, str, bool]:
    name, _, direction = word.rpartition(":") if word.endswith((":min", ":max")) else (word, "", "")
    if name not in known:
        raise UserError(
            "sweep.no_metric", f"no cell measured {name!r}", hint=f"measured: {', '.join(known[:20]) or 'nothing'}"
        )
    if direction:
        return name, direction, False
    guess = _guess(name)
    if not guess:
        hint = f"--metric {name}:min or --metric {name}:max"
        raise UserError("sweep.which_way", f"is a small or a large {name!r} better? Its name does not say", hint=hint)
    return name, guess, True


def _cell(value: Value) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else spell(value)
