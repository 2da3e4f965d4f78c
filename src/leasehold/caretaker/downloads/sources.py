"""Resolve a source to its files: a URL is one file, a bucket's folder and a hub's repository are asked for their lists.

The hubs' answers are checked like any outside input: names must stay below their folder.
Sources of the formats: huggingface_hub (HfApi.repo_info with files_metadata, hf_hub_url) and modelscope's hub client
(get_model_files, get_file_download_url).
"""

from __future__ import annotations

import json
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple
from urllib.parse import quote, urlencode

from leasehold.kit.files.globbing import compile_pattern
from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.tables.download_sources import BUCKET, Source

from .download_file import Failed, Wanted
from .http import TROUBLE, Gone, Route, get_text, say

_HUB = "https://huggingface.co"
_MODELSCOPE = "https://www.modelscope.cn"
_LIST_BYTES = 64 << 20
_HEX = set("0123456789abcdef")


class Listing(NamedTuple):
    """Files of an item, and the exact version that was listed."""

    files: List[Wanted]
    commit: str = ""


def list_item(
    sources: Sequence[Source], item: Mapping[str, Any], environ: Mapping[str, str], limits: Mapping[str, float]
) -> Listing:
    """List every file of an item with its routes; raises Failed."""
    if all(source.kind == "url" for source in sources):
        routes = tuple(Route(source.name) for source in sources)
        size, sha = int(item.get("size_bytes") or 0), str(item.get("sha256") or "")
        return Listing([Wanted(str(item["to"]), routes, size, sha)])
    source = sources[0]
    if source.kind == BUCKET:
        from .object_route import list_objects  # loads the client only where a job names a bucket

        return Listing(list_objects(source, item, environ))
    listing = _from_modelscope if source.kind == "modelscope" else _from_hub
    found = listing(source, str(item["to"]), environ, limits)
    if not found.files:
        what = "no file that matches %s" % source.pattern if source.pattern else "no files"
        raise Failed("%s has %s" % (source.name, what))
    return found


def _from_hub(source: Source, to: str, environ: Mapping[str, str], limits: Mapping[str, float]) -> Listing:
    token = environ.get("HF_TOKEN", "")
    ends = [environ.get("HF_ENDPOINT") or _HUB, *(environ.get("HF_ENDPOINTS") or "").split(",")]
    endpoints = list(dict.fromkeys(end.strip().rstrip("/") for end in ends if end.strip()))
    kind, prefix = ("datasets", "datasets/") if source.kind == "hf-dataset" else ("models", "")
    revision = quote(source.revision or "main", safe="")
    asked = [
        Route("%s/api/%s/%s/revision/%s?blobs=true" % (end, kind, source.name, revision), token) for end in endpoints
    ]
    answer = _ask(asked, limits)
    commit = str(answer.get("sha") or source.revision or "main")
    files = []
    for entry in _entries(answer.get("siblings"), "rfilename", source):
        lfs: Dict[str, Any] = entry["lfs"] if isinstance(entry.get("lfs"), dict) else {}
        size = lfs.get("size") or entry.get("size") or 0
        where = "%s%s/resolve/%s/%s" % (prefix, source.name, quote(commit, safe=""), quote(entry["rfilename"]))
        routes = tuple(Route("%s/%s" % (end, where), token) for end in endpoints)
        sha, blob = _hex(lfs.get("sha256"), 64), "" if lfs else _hex(entry.get("blobId"), 40)
        files.append(Wanted("%s/%s" % (to, entry["rfilename"]), routes, _count(size), sha, blob))
    return Listing(files, commit)


def _from_modelscope(source: Source, to: str, environ: Mapping[str, str], limits: Mapping[str, float]) -> Listing:
    domain = environ.get("MODELSCOPE_DOMAIN", "").rstrip("/")
    end = (domain if "://" in domain else "https://" + domain) if domain else _MODELSCOPE
    base = "%s/api/v1/models/%s/repo" % (end, source.name)
    revision = source.revision or "master"
    asked = Route("%s/files?%s" % (base, urlencode({"Revision": revision, "Recursive": "true"})))
    answer = _ask([asked], limits).get("Data")
    listed = answer.get("Files") if isinstance(answer, dict) else None
    files = []
    for entry in _entries(listed, "Path", source):
        if entry.get("Type") == "tree":
            continue
        query = urlencode({"Revision": revision, "FilePath": entry["Path"]})
        route = Route("%s?%s" % (base, query))
        path = "%s/%s" % (to, entry["Path"])
        files.append(Wanted(path, (route,), _count(entry.get("Size")), _hex(entry.get("Sha256"), 64)))
    return Listing(files, revision)


def _ask(routes: Sequence[Route], limits: Mapping[str, float]) -> Dict[str, Any]:
    """Request a list from the first endpoint that gives one."""
    last, tries, left = "", 0, list(routes)
    while left and tries < limits["tries"]:
        tries += 1
        try:
            found = json.loads(get_text(left[0], limits["stall_s"], _LIST_BYTES).decode("utf-8"))
            if isinstance(found, dict):
                return found
            raise Gone("the list is no object")
        except Gone as error:
            last = "%s: %s" % (left[0].host, error)
            left.pop(0)
        except (*TROUBLE, RecursionError) as error:
            last = "%s: %s" % (left[0].host, say(error))
            left.append(left.pop(0))
            if tries < limits["tries"]:
                time.sleep(limits["pause_s"])
    raise Failed("the list of files could not be fetched: %s" % last, tries)


def _entries(listed: Any, key: str, source: Source) -> List[Dict[str, Any]]:
    wanted = compile_pattern(source.pattern) if source.pattern else None
    found = []
    for entry in listed if isinstance(listed, list) else []:
        name = entry.get(key) if isinstance(entry, dict) else None
        try:
            check_relative(name)
        except UnsafePath as error:
            raise Failed("the list of files is not to be trusted: %s" % error) from None
        if wanted is None or wanted.match(str(name)):
            found.append(entry)
    return found


def _hex(value: Any, digits: int) -> str:
    text = value.lower() if isinstance(value, str) else ""
    return text if len(text) == digits and set(text) <= _HEX else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def spelled(item: Mapping[str, Any]) -> Tuple[str, ...]:
    """Format the item's sources for people."""
    from leasehold.kit.tables.download_sources import plain_url

    return tuple(plain_url(str(source)) for source in item["source"])
