"""Lists of a bucket, page by page: objects, unfinished uploads, and their parts."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Tuple
from urllib.parse import unquote_plus

from leasehold.kit.refuge.place import LYING, PlaceError

from .bucket import Bucket, Request, unix_of
from .replies import Node

_MOST_PAGES = 100000


class Listed(NamedTuple):
    """An object in a list; `key` is the whole key."""

    key: str
    bytes: int
    modified_unix: float


class Upload(NamedTuple):
    """An unfinished upload."""

    key: str
    id: str
    begun_unix: float


class Part(NamedTuple):
    """A part that the store has."""

    number: int
    bytes: int
    tag: str
    sha256: str  # base64; empty if the store does not say


def objects(bucket: Bucket, prefix: str, most: int = 1000) -> Iterator[Listed]:
    """List objects whose key begins with a prefix."""
    token = ""
    for _ in range(_MOST_PAGES):
        query = [("list-type", "2"), ("prefix", prefix), ("max-keys", str(most)), ("encoding-type", "url")]
        page = bucket.ask_xml(
            Request("GET", query=query + ([("continuation-token", token)] if token else []), verb="list")
        )
        decode = page.say("EncodingType") == "url"
        for node in page.all("Contents"):
            key = unquote_plus(node.say("Key")) if decode else node.say("Key")
            if key.startswith(prefix):
                yield Listed(key, max(0, node.whole("Size")), unix_of(node.say("LastModified")) or 0.0)
        last, token = token, page.say("NextContinuationToken")
        if page.say("IsTruncated") != "true":
            return
        if not token or token == last:
            break
    raise PlaceError(LYING, "%s: the list says that it goes on and does not" % str(bucket.address))


def uploads(bucket: Bucket, prefix: str) -> Iterator[Upload]:
    """List unfinished uploads whose key begins with a prefix."""
    marks: List[Tuple[str, str]] = []
    for _ in range(_MOST_PAGES):
        query = [("uploads", ""), ("prefix", prefix), ("encoding-type", "url"), *marks]
        page = bucket.ask_xml(Request("GET", query=query, verb="list the unfinished uploads"))
        decode = page.say("EncodingType") == "url"
        for node in page.all("Upload"):
            key = unquote_plus(node.say("Key")) if decode else node.say("Key")
            if key.startswith(prefix) and node.say("UploadId"):
                yield Upload(key, node.say("UploadId"), unix_of(node.say("Initiated")) or 0.0)
        following = [("key-marker", page.say("NextKeyMarker")), ("upload-id-marker", page.say("NextUploadIdMarker"))]
        if page.say("IsTruncated") != "true" or following == marks or not following[0][1]:
            return
        marks = following


def parts(bucket: Bucket, key: str, upload: str) -> Dict[int, Part]:
    """List the parts that an upload has."""
    found: Dict[int, Part] = {}
    mark = 0
    for _ in range(_MOST_PAGES):
        query = [("uploadId", upload), ("max-parts", "1000")] + ([("part-number-marker", str(mark))] if mark else [])
        page = bucket.ask_xml(Request("GET", key, query=query, verb="list the parts of"))
        for node in page.all("Part"):
            part = _part(node)
            found[part.number] = part
        following = page.whole("NextPartNumberMarker")
        if page.say("IsTruncated") != "true" or following <= mark:
            return found
        mark = following
    return found


def _part(node: Node) -> Part:
    tag = node.say("ETag").strip().strip('"')
    return Part(node.whole("PartNumber"), node.whole("Size"), tag, node.say("ChecksumSHA256").strip())
