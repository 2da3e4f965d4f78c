"""Remove secrets from what is stored: known values in every usual encoding, and strings with the shape of a token.

A secret is overwritten byte for byte, so that nothing changes its length or place: a log can be cleaned while its
trainer appends to it, and offsets into it stay valid. A second pass changes nothing more.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Pattern, Tuple

CONTEXT_BYTES = 8 << 10  # no shape or value is longer; a caller that cleans a piece needs this much around it
_LEAST = 6  # shorter values would remove words and numbers from every line
_WHOLE_WORD = 12  # shorter ones count only as whole words
_SPELLED = 12  # from this length on, other encodings are searched for too
_PART = 12  # this much of an encoding must be fixed


class Span(NamedTuple):
    """A range of bytes to overwrite, and the replacement."""

    start: int
    mask: bytes


class Redactor:
    """Knows some secret values by name, and the shapes of tokens; without values, the shapes alone."""

    def __init__(self, values: Optional[Mapping[str, str]] = None) -> None:
        self._forms: Dict[bytes, str] = {}  # an encoded value, and the name of its secret
        for name, value in (values or {}).items():
            for form in forms(str(value)):
                self._forms.setdefault(form, name)

    def clean(self, data: bytes) -> bytes:
        """Return bytes of the same length without secrets; the same object if there are none."""
        return _shaped(self._known(data))

    def spans(self, data: bytes) -> List[Span]:
        """Find the ranges to overwrite, in order."""
        cleaned = self.clean(data)
        if cleaned is data:
            return []
        changed = bytes(1 if old != new else 0 for old, new in zip(data, cleaned))
        return [Span(run.start(), cleaned[run.start() : run.end()]) for run in re.finditer(b"\x01+", changed)]

    def _known(self, data: bytes) -> bytes:
        """Find the longest encodings first: a shorter one may be a part of them."""
        for form in sorted((form for form in self._forms if form in data), key=len, reverse=True):
            edge = rb"(?<!\w)%s(?!\w)" if len(form) < _WHOLE_WORD else rb"%s"
            mask = _mask(self._forms[form], form)
            data = re.sub(edge % re.escape(form), lambda _, mask=mask: mask, data)  # type: ignore[misc]
        return data

    def text(self, text: str) -> str:
        """Return text without secrets."""
        data = text.encode("utf-8", "surrogatepass")
        cleaned = self.clean(data)
        return text if cleaned is data else cleaned.decode("utf-8", "surrogatepass")

    def tree(self, value: Any, keep: FrozenSet[str] = frozenset()) -> Any:
        """Return a JSON value whose strings hold no secrets; values under the keys of `keep` stay unchanged."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key) if isinstance(key, str) else key: item if key in keep else self.tree(item, keep)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.tree(item, keep) for item in value]
        return value


def forms(value: str) -> Iterator[bytes]:
    """Return the encodings in which a value may occur: plain, line by line, escaped, percent-encoded, base64, hex."""
    for line in _lines(value):
        yield line
    if len(value) < _SPELLED:
        return
    raw = value.encode("utf-8", "surrogatepass")
    for spelled in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]):
        yield spelled.encode("utf-8", "surrogatepass")
    yield from _percent_encoded(raw)
    yield from (spelled for spelled in _in_base64(raw) if len(spelled) >= _PART)
    yield raw.hex().encode()
    yield raw.hex().upper().encode()


def in_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """Select the variables whose names indicate a secret."""
    says = re.compile(_SECRET_NAME, re.IGNORECASE)  # imported here: a box's processes never need it
    return {name: value for name, value in environ.items() if len(value) >= _SPELLED and says.match(name)}


def _lines(value: str) -> List[bytes]:
    lines = (line.strip().encode("utf-8", "surrogatepass") for line in re.split(r"[\r\n]+", value))
    return [line for line in lines if len(line) >= _LEAST]


def _percent_encoded(raw: bytes) -> Iterator[bytes]:
    for safe in (b"-._~", b"-._~/", b"-._~!*'()"):
        for spelling in (b"%%%02X", b"%%%02x"):
            coded = b"".join(
                bytes([byte]) if chr(byte).isalnum() and byte < 128 or byte in safe else spelling % byte for byte in raw
            )
            yield coded
            yield coded.replace(b"%20", b"+")


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Encode in base64 for each alignment within a longer text, without the characters that neighbours determine."""
    import binascii  # imported here: most processes know no secret

    for before in range(3):
        whole = binascii.b2a_base64(b"\0" * before + raw, newline=False)
        sure = whole[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        yield sure
        yield sure.translate(bytes.maketrans(b"+/", b"-_"))


def _mask(name: str, hidden: bytes) -> bytes:
    label = ("<%s>" % name).encode("ascii", "replace") if name else b""
    return label.ljust(len(hidden), b"*") if 0 < len(label) <= len(hidden) else _DARK.sub(b"*", hidden)


_DARK = re.compile(rb"[^\r\n]")

# ---------------------------------------------------------------- shapes

_SECRET_NAME = (
    r"(?!.*_(?:FILE|PATH|DIR|NAME|ID)\Z)(?:.*_)?"
    r"(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|SECRET_KEY|WEBHOOK)(?:_|\Z)"
)
_START, _END = rb"(?<![A-Za-z0-9_])", rb"(?![A-Za-z0-9])"
_LINE_END = rb"(?=[\r\n\\]|\Z)"
# Each is tried where one of its literals occurs (in lower case, which any case matches); group 1 is hidden.
_SHAPES: Tuple[Tuple[Tuple[bytes, ...], bytes], ...] = (
    ((b"hf_",), _START + rb"hf_([A-Za-z0-9]{24,})"),
    ((b"sk-",), _START + rb"sk-((?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]*?[A-Za-z0-9]{20,}[A-Za-z0-9_-]*)"),
    ((b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), _START + rb"gh[pousr]_([A-Za-z0-9]{30,})"),
    ((b"github_pat_",), _START + rb"github_pat_([A-Za-z0-9_]{22,})"),
    ((b"glpat-",), _START + rb"glpat-([A-Za-z0-9_-]{20,})"),
    ((b"akia", b"asia"), _START + rb"(?:AKIA|ASIA)([A-Z0-9]{16})" + _END),
    ((b"xox",), _START + rb"xox[a-z]-([A-Za-z0-9-]{10,})"),
    ((b"wandb_v",), _START + rb"wandb_v[0-9]+_([A-Za-z0-9_]{20,})"),
    ((b"eyj",), _START + rb"(eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"),
    # 40 hex digits may be a commit: matched only after a word for a key, with no word for a hash between.
    (
        (b"wandb", b"api_key", b"api-key", b"api key", b"apikey", b"login"),
        rb"[A-Za-z]{3}(?:(?!(?i:commit|sha|hash|revision|git|version))[^\n]){2,50}?"
        rb"(?<![A-Za-z0-9])([0-9a-f]{40})" + _END,
    ),
    ((b"authorization",), rb".{13}[\"']?\s*[:=]\s*[\"']?(?i:bearer|basic|token)\s+(?![${])([^\s\"',;<*]{6,})"),
    ((b"bearer ",), _START + rb"(?i:bearer) +([A-Za-z0-9._~+/=-]{16,})"),
    ((b"://",), rb"://[^\s/:@\"'<>]{0,100}:(?![${])([^\s/@\"'<>*]{1,200})@"),
    (
        (b"api_key", b"apikey", b"access_key", b"secret", b"passw", b"access_token", b"auth_token", b"api_token")
        + (b"hf_token", b"hub_token"),
        rb"[A-Za-z_]{6,24}[\"']?\s*[:=]\s*[\"']?"
        rb"((?=[A-Za-z0-9_+/.=-]*[0-9])(?=[A-Za-z0-9_+/.=-]*[A-Za-z])[A-Za-z0-9_+/.=-]{16,})",
    ),
    (
        (b"?", b"&"),
        rb"[?&](?i:[a-z_-]*token|[a-z_-]*key|sig|[a-z-]*signature|secret|password)=(?![${])([^&\s\"'<>*]{8,})",
    ),
    ((b"ntfy.sh/",), rb"(?i:ntfy\.sh)/(?![A-Z-]+(?![A-Za-z0-9_]))([A-Za-z0-9_-]{4,64})"),
    ((b"://",), rb"://(?i:[^\s/\"']*hooks?\.[^\s/\"']+/|[^\s\"']{3,80}/(?:web)?hooks?/)([^\s\"'<>*]{8,})"),
    ((b"api.telegram.org",), rb"[^/\s]+/bot([0-9]+:[A-Za-z0-9_-]{20,})"),
    (
        (b"-----begin ",),
        rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----((?:(?:[\r\n]|\\r|\\n)+[ \t]*"
        rb"(?:[A-Za-z0-9+/=]{1,128}|[A-Za-z-]{1,40}: [^\r\n]{0,200})" + _LINE_END + rb"){1,200})",
    ),
)


@lru_cache(maxsize=None)
def _compiled(shape: bytes) -> Pattern[bytes]:
    return re.compile(shape)  # compiled on first need: most processes never use one


def _shaped(data: bytes) -> bytes:
    lower = data.lower()
    found: List[Tuple[int, int]] = []
    for literals, shape in _SHAPES:
        for literal in literals:
            at = lower.find(literal)
            while at >= 0:
                hit = _compiled(shape).match(data, at)
                found += [hit.span(1)] if hit else []
                at = lower.find(literal, at + 1)
    if not found:
        return data
    copy = bytearray(data)
    for start, end in found:
        copy[start:end] = _DARK.sub(b"*", copy[start:end])
    return bytes(copy)
