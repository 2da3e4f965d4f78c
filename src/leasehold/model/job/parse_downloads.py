"""Read `downloads:` of a job file; every error names the entry and what to write instead."""

from __future__ import annotations

import re
from typing import Any

from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.tables.download_sources import ADDRESSES, BadSource, Source, parse_source

from .job import Download
from .keys import DOWNLOAD_WORDS
from .known_keys import Bad, refuse_overlap, refuse_unknown

_SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")
_TOKEN = re.compile(r"(?:sk|hf|ghp|wandb)[-_][A-Za-z0-9]{16,}|AKIA[0-9A-Z]{16}")
_HINT = "for example: {from: 'hf:org/name@main:*.safetensors', to: weights/name}"


def parse_downloads(value: Any, bad: Bad) -> tuple[Download, ...]:
    """Check the whole list."""
    if not isinstance(value, list):
        raise bad("downloads", f"must be a list, not {type(value).__name__}", _HINT)
    found = tuple(_download(item, f"downloads.{place}", bad) for place, item in enumerate(value))
    refuse_overlap((item.to for item in found), "downloads", bad)
    return found


def _download(item: Any, key: str, bad: Bad) -> Download:
    if not isinstance(item, dict):
        raise bad(key, f"must be a mapping with from and to, not {type(item).__name__}", _HINT)
    refuse_unknown(item, key, DOWNLOAD_WORDS, bad)
    spelled, sources = _sources(item.get("from"), f"{key}.from", bad)
    sha256, size = item.get("sha256", ""), item.get("size", 0)
    if sha256 and not (isinstance(sha256, str) and _SHA256.match(sha256)):
        raise bad(f"{key}.sha256", "must be 64 hexadecimal digits", "quote it: YAML may take it for a number")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise bad(f"{key}.size", f"must be a whole number of bytes, not {size!r}", "")
    if (sha256 or size) and sources[0].kind not in ADDRESSES:
        raise bad(key, "a repository brings its own sizes and hashes", "leave sha256 and size out")
    if (sha256 or size) and sources[0].name.endswith("/"):
        raise bad(key, "sha256 and size are of one file, and this is a folder", "name the object itself")
    if not sha256 and not all(source.safe for source in sources):
        raise bad(f"{key}.from", "http can be changed on its way", "use https, or give sha256")
    return Download(spelled, _to(item.get("to"), f"{key}.to", bad), str(sha256).lower(), size)


def _sources(value: Any, key: str, bad: Bad) -> tuple[tuple[str, ...], list[Source]]:
    spelled = [value] if isinstance(value, str) else value
    if not isinstance(spelled, list) or not spelled:
        raise bad(key, "is missing or empty: it names the source", _HINT)
    try:
        sources = [parse_source(text) for text in spelled]
    except BadSource as error:
        raise bad(key, str(error), _HINT) from None
    if len(sources) > 1 and any(source.kind != "url" for source in sources):
        raise bad(key, "only plain addresses of one file can be listed side by side", "one repository an entry")
    if any(_TOKEN.search(text) for text in spelled):
        raise bad(key, "looks as if it held a token, and job files are stored", "secrets: [HF_TOKEN] is used for hf:")
    return tuple(spelled), sources


def _to(value: Any, key: str, bad: Bad) -> str:
    try:
        path = check_relative(value)
    except UnsafePath as error:
        raise bad(key, f"{error}; it is relative to $LEASE_DATA", _HINT) from None
    if path.split("/")[0] == ".leasehold":
        raise bad(key, "the folder .leasehold is ours", "choose another name")
    return path
