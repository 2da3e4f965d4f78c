"""Parse one line of a training log: a bar of tqdm, rich or Keras, a dict, or words and numbers."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Match, NamedTuple, Optional, Pattern, Tuple

_USER_LINE_CHARS = 1024
_MAX_VALUES, _MAX_METRICS, _MAX_NAME_CHARS = 64, 16, 32


def _re(*parts: str) -> Pattern[str]:
    return re.compile("".join(parts), re.ASCII)


# Applied to lower-case lines: ignoring case makes each search several times slower. Every repeat is bounded, so that no
# line costs more than a constant times its length.
_N = r"\d{1,3}(?:,\d{3}){1,3}|\d{1,12}"
_OF = r"(?P<step>\d{1,12})/(?P<total>\d{1,12}|\?|unknown)"
_ABOUT = r"(?:\(\w{1,8}\))?['\"]?\s{0,3}[:=#]?\s{0,8}['\"]?[\[(]?\s{0,8}"  # between a word and its number
_END = r"(?![\w%]|[.,]\d)"
_CLOCK = r"(?P<clock>\d{1,4}(?::\d\d){1,2}|\d{1,6}s)"
_REAL = r"\d{1,9}(?:\.\d{1,6})?"
_UNIT = r"(?:it|iter|step|batch|ba|update)"
_EXPONENT = r"(?:e[-+]?\d{1,3})?"
_FLOAT = r"[-+]?(?:\d{1,18}(?:\.\d{0,18})?%s|\.\d{1,18}%s|nan|inf(?:inity)?)" % (_EXPONENT, _EXPONENT)

_HINT = _re(r"loss|step|iter|epoch|batch|update|\bit(?:[:=]| \d)|/(?:\d{1,12}|\?|unknown) {0,4}[\[━-]|•|[a-z] \[\d\d:")
_BARS = (  # tqdm, tqdm without an end, rich, Keras; each with a marker that is faster to search for
    ("<", _re(r"(?<![\d.])", _OF, r"\s?\[[\d:]{4,12}<(?P<left>[\d:?]{1,12})(?P<pace>[^\]]{0,40})")),
    (" [", _re(r"(?<![\d./])(?P<step>\d{1,12})\s?[a-z]{1,16}\s\[[\d:]{4,12},(?P<pace>[^\]]{1,40})")),
    ("•", _re(r"(?<!━)━[━╸╺ ]{0,200}\s", _OF, r"\s{1,4}[\d:]{4,12}\s•\s(?P<left>[\d:-]{4,12})(?P<pace>.{0,40})")),
    ("/", _re(r"\A\s{0,12}", _OF, r"\s{1,4}(?:\[[=>.]{1,80}\]|[━╸╺╶ ]{4,120}|(?:-\s)?(?=eta|\d{1,6}s\s))")),
)
_KERAS_LEFT = _re(_CLOCK, r"\s\d{1,6}[mu]?s/step")
_EPOCH = _re(
    r"(?<![\w/.-])(?<!per )epoch",
    _ABOUT,
    r"(?P<epoch>\d{1,7}(?:\.\d{1,18})?)(?:\s{0,4}(?:/|of)\s{0,4}(?P<epochs>\d{1,7}))?",
    _END,
)
_IN_EPOCH = _re(
    r"\s{0,3}[\])]?\s{0,3}[:,]?\s{0,3}\[?\s{0,8}(?P<step>\d{1,12})\s{0,4}/\s{0,8}(?P<total>\d{1,12})(?![\d/])"
)
_STEP = _re(
    r"(?<![\w/.-])(?P<word>(?:global|train)[_ ]?step|step|iter(?:ation)?|batch|update|num_updates",
    r"|it(?=\s?[:=]|\s\d{1,12}\s?/))",
    _ABOUT,
    rf"(?P<step>{_N})(?:\s{{0,8}}(?:/|of)\s{{0,8}}(?P<total>{_N}))?",
    _END,
)
_BRACKET = _re(r"\[\s{0,8}(?P<step>\d{1,12})\s{0,3}/\s{0,8}(?P<total>\d{1,12})\s{0,3}[\](]")
_VALUE = _re(
    r"(?<![\w./@-])((?:learning |grad )?[a-z_][\w./@-]{0,60})['\"]?(\s{0,3}[:=]\s{0,8}|\s{1,8})['\"]?(?:tensor\()?",
    rf"({_FLOAT})(?![\w/%-]|[.:]\d)",
)
_ETA = _re(r"\beta['\"]?\s{0,3}[:=]?\s{0,3}['\"]?(?:(?P<days>\d{1,4}) days?, )?", _CLOCK)
_PER_S = _re(rf"({_REAL})\s?{_UNIT}(?:e?s)?/s")
_S_PER = _re(rf"({_REAL})\s?([mu]?s)/{_UNIT}")
_NOT_STEPS = _re(r"[\d.]\s?(?:[kmgtp]?i?b|examples?|files?|rows?|tables?|tokens?|objects?)/s")
_OTHERS = _re(  # the last of these words before a number names its owner
    r"(?:(train\w{0,20})|(val|valid|validation|validating|eval\w{0,8}|test|testing|dev)",
    r"|sanity|predict\w{0,6}|infer\w{0,6}|generat\w{0,6}|download\w{0,4}|upload\w{0,4}|load\w{0,4}|shards?|map",
    r"|filter\w{0,4}|tokeniz\w{0,4}|cach\w{0,4}|sav\w{0,4}|fetch\w{0,4}|extract\w{0,4}|preprocess\w{0,4}",
    r"|captur\w{0,4}|compil\w{0,6}|best|lowest|target|previous)(?![\w/]|\.\w)",
)
_LOSSES = (
    ("loss",),
    ("train_loss", "train/loss", "loss/train", "training_loss"),
    ("total_loss", "lm_loss", "avg_loss"),
)
_NOT_LOSS = _re(r"val|test|dev|scale|best")
_COUNTERS = _re(r"(?:(?:global|train)?[_ ]?(?:step|iter|iteration|batch|update)|num_updates|epoch|it|eta)\Z")
_SPACED = _re(r"[\w.-]*loss[\w.-]*\Z|(?:lr|acc|accuracy|ppl|perplexity|grad_norm)\Z")  # "lr 3e-4", no sign between
_DULL = _re(r"(?:v_num|cuda|size|samples|iterations|scale)\Z")
_SOURCES = (".py", ".cpp", ".cc", ".c", ".cu", ".h", ".rs")
_NEEDS_COMPANY = ("batch", "update", "it")  # without a total or a loss these are settings or English

ANY_LOSS = len(_LOSSES) + 1


class Sight(NamedTuple):
    """The progress that one line shows."""

    track: str = ""  # the key of this counter in the log; "epoch" if it counts epochs alone
    step: Optional[int] = None
    total: Optional[int] = None
    sure: bool = False  # a total or a loss beside the step
    side: bool = False  # validation, loading and the like
    epoch: Optional[float] = None
    epochs: Optional[int] = None
    loss: Optional[float] = None
    loss_rank: int = ANY_LOSS  # 0 is plain `loss`; a lower one takes precedence
    metrics: Dict[str, float] = {}
    rate_per_s: Optional[float] = None
    eta_s: Optional[float] = None
    eta_is_runs: bool = False
    is_loop: bool = False  # counts epochs, according to its label


class _Values(NamedTuple):
    """The named numbers of a line, and the words that name the owner of the others."""

    loss: Optional[float]
    loss_rank: int
    metrics: Dict[str, float]
    owners: List[Tuple[int, str]]


def worth_reading(text: str, limit: int) -> Iterator[str]:
    """Yield the beginnings of the lines that may show progress; fast, because most lines of most logs do not."""
    found = _HINT.search(text)
    while found:
        start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
        end = len(text) if end < 0 else end
        if end - start <= limit or _HINT.search(text, start, start + limit):
            yield text[start : min(end, start + limit)]
        found = _HINT.search(text, end)


def read_line(line: str) -> Optional[Sight]:
    """Parse one line, in lower case, of any trainer we know."""
    for mark, shape in _BARS:
        found = shape.search(line) if mark in line else None
        if found:
            return _bar(line, found)
    return _plain_line(line)


def user_pattern(text: str) -> Pattern[str]:
    """Compile a user's regex; refuse one that names no step or could run for ever on a line from a box."""
    bare = re.sub(r"\\.", "_", text)
    if re.search(r"\)\s*[*+{]", bare):
        raise ValueError("repeats a group, which can take forever; repeat single characters or sets instead")
    if len(re.findall(r"\.[*+]", bare)) > 3:
        raise ValueError("has more than three of .* and .+, which can take forever")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError("is not a regex: %s" % error) from None
    if "step" not in pattern.groupindex:
        raise ValueError(r"has no group named step; for example: it (?P<step>\d+)/(?P<total>\d+)")
    return pattern


def read_by(pattern: Pattern[str], line: str) -> Optional[Sight]:
    """Parse one line by a user's regex."""
    found = pattern.search(line[:_USER_LINE_CHARS])
    groups = found.groupdict() if found else {}
    step = _whole(groups.get("step"))
    if step is None:
        return None
    values = _values(line.lower())
    loss, epoch = _real(groups.get("loss")), _real(groups.get("epoch"))
    return Sight(
        track="user",
        step=step,
        total=_whole(groups.get("total")),
        sure=True,
        epoch=epoch,
        loss=values.loss if loss is None else loss,
        loss_rank=0,
        metrics=values.metrics,
        rate_per_s=_rate(line.lower()),
    )


def _bar(line: str, found: Match[str]) -> Sight:
    groups = found.groupdict()
    label = _label(line[: found.start()])
    total, pace = groups.get("total"), groups.get("pace") or line[found.end() :]
    epoch, values = _EPOCH.search(label), _values(line)
    return Sight(
        track="bar %s %s" % (re.sub(r"[\d.]+", "", label)[-40:], total),
        step=int(groups["step"]),
        total=_whole(total),
        sure=True,
        side=bool(_whose(values.owners, found.start()) or _NOT_STEPS.search(pace)),
        epoch=_real(epoch["epoch"]) if epoch else None,
        epochs=_whole(epoch["epochs"]) if epoch else None,
        loss=values.loss,
        loss_rank=values.loss_rank,
        metrics=values.metrics,
        rate_per_s=_rate(pace),
        eta_s=0.0 if total == groups["step"] else _bar_eta(groups.get("left"), pace, line),
        is_loop="epoch" in label and not epoch,
    )


def _label(head: str) -> str:
    """Return the text before the bar, without its percentage."""
    cut = head.find("%|") if "%|" in head else head.rfind("%")
    return head[:cut].rstrip("0123456789 ") if cut >= 0 else head


def _bar_eta(left: Optional[str], pace: str, line: str) -> Optional[float]:
    if left:
        return _seconds(left)
    keras = _KERAS_LEFT.search(pace)
    return _seconds(keras["clock"]) if keras else _eta(line)


def _plain_line(line: str) -> Optional[Sight]:
    values, epoch = _values(line), _EPOCH.search(line) if "epoch" in line else None
    found = _counter(line, epoch, values.loss is not None)
    if found is None and epoch is None and values.loss is None:
        return Sight(metrics=values.metrics, side=True) if values.metrics and line.lstrip()[:1] == "{" else None
    track, step, total, start = found or _epoch_alone(epoch)
    eta = _eta(line)
    return Sight(
        track=track,
        step=step,
        total=total,
        sure=total is not None or values.loss is not None,
        side=bool(_whose(values.owners, start)),
        epoch=_real(epoch["epoch"]) if epoch else None,
        epochs=_whole(epoch["epochs"]) if epoch else None,
        loss=values.loss,
        loss_rank=values.loss_rank,
        metrics=values.metrics,
        rate_per_s=_rate(line),
        eta_s=eta,
        eta_is_runs=eta is not None,
        is_loop=track == "epoch",
    )


_Counter = Tuple[str, Optional[int], Optional[int], int]  # track, step, total, where its words begin


def _counter(line: str, epoch: Optional[Match[str]], has_loss: bool) -> Optional[_Counter]:
    """Find the step: right after the epoch, after its word, or in brackets beside a loss."""
    found = _IN_EPOCH.match(line, epoch.end()) if epoch else None
    found = found or _STEP.search(line) or (_BRACKET.search(line) if has_loss else None)
    if found is None:
        return None
    groups = found.groupdict()
    word, step, total = groups.get("word") or "[]", _whole(groups["step"]), _whole(groups["total"])
    if step is None or (total is not None and step > total):
        return None
    if word in _NEEDS_COMPANY and total is None and not has_loss:
        return None
    return "line " + word, step, total, found.start("step")


def _epoch_alone(epoch: Optional[Match[str]]) -> _Counter:
    if epoch is None or "." in epoch["epoch"]:
        return "", None, None, epoch.start("epoch") if epoch else 0
    return "epoch", int(epoch["epoch"]), _whole(epoch["epochs"]), epoch.start("epoch")


def _values(line: str) -> _Values:
    """Collect name=number pairs; the best-named loss of the training is the loss."""
    loss, best, chosen, owners = None, ANY_LOSS, "", _owners(line)
    metrics: Dict[str, float] = {}
    for count, found in enumerate(_VALUE.finditer(line)):
        name, between, number = found.groups()
        rank = _loss_rank(name)
        if count >= _MAX_VALUES:
            break
        if name.endswith(_SOURCES) and ":" in between:  # trainer.py:1614 names a line of code
            continue
        if _COUNTERS.match(name) or (between.isspace() and not _SPACED.match(name)):
            continue
        whose = _whose(owners, found.start()) if rank is not None and "train" not in name else ""
        if whose == "other":
            continue
        name = ("val_" + name if whose else name)[:_MAX_NAME_CHARS]
        if rank is not None and not whose and rank < best:
            loss, best, chosen = float(number), rank, name
        if len(metrics) < _MAX_METRICS and not _DULL.match(name):
            metrics[name] = float(number)
    metrics.pop(chosen, None)
    return _Values(loss, best, metrics, owners)


def _loss_rank(name: str) -> Optional[int]:
    if "loss" not in name or _NOT_LOSS.search(name):
        return None
    return next((rank for rank, names in enumerate(_LOSSES) if name in names), len(_LOSSES))


def _owners(line: str) -> List[Tuple[int, str]]:
    """Find the words that name the owner of the numbers after them; those inside paths and names do not count."""
    found = [(word.start(), _owner(word)) for word in _OTHERS.finditer(line)]
    return [(at, whose) for at, whose in found if at == 0 or not (line[at - 1].isalnum() or line[at - 1] in "_/.")]


def _owner(word: Match[str]) -> str:
    return "" if word[1] else "val" if word[2] else "other"


def _whose(owners: List[Tuple[int, str]], position: int) -> str:
    """Return the owner of a number: the training (empty), the validation (val), or another."""
    return next((whose for at, whose in reversed(owners) if at < position), "")


def _rate(text: str) -> Optional[float]:
    if "/s" not in text and "s/" not in text:
        return None
    per_s, s_per = _PER_S.search(text), _S_PER.search(text)
    if per_s:
        return float(per_s[1]) or None
    if s_per and float(s_per[1]):
        return {"s": 1.0, "ms": 1e3, "us": 1e6}[s_per[2]] / float(s_per[1])
    return None


def _eta(line: str) -> Optional[float]:
    found = _ETA.search(line) if "eta" in line else None
    seconds = _seconds(found["clock"]) if found else None
    return None if found is None or seconds is None else seconds + 86400 * int(found["days"] or 0)


def _seconds(clock: str) -> Optional[float]:
    total = 0
    for part in clock.rstrip("s").split(":"):
        if not part.isdigit():
            return None
        total = total * 60 + int(part)
    return float(total)


def _whole(text: Optional[str]) -> Optional[int]:
    digits = (text or "").replace(",", "")
    return int(digits) if digits.isdigit() and digits.isascii() and len(digits) <= 18 else None


def _real(text: Optional[str]) -> Optional[float]:
    try:
        return float(text) if text else None
    except ValueError:
        return None
