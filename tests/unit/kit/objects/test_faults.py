"""An object store that is busy, cut, full, lying or wrongly timed: what is tried again, and what is said."""

from __future__ import annotations

import hashlib
import io
import os
import time
from typing import Callable, Iterator, List, Optional

import pytest

from leasehold.kit.objects import put_object, read_ranges, upload_parts
from leasehold.kit.objects.bucket import Timing
from leasehold.kit.objects.object_place import ObjectPlace, open_bucket
from leasehold.kit.refuge.place import Absent, PlaceError, SourceChanged
from tests.support.fault_store import Asked, FaultStore, Reply, error
from tests.support.object_stores import BUCKET

PART = 1 << 20
TWELVE = os.urandom(PART * 11) + b"the twelfth part"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut objects into small parts, so that twelve of them are quick."""
    monkeypatch.setattr(upload_parts, "PART_BYTES", PART)
    monkeypatch.setattr(put_object, "SINGLE_BYTES", PART)
    monkeypatch.setattr(read_ranges, "RANGE_BYTES", PART)


@pytest.fixture
def store() -> Iterator[FaultStore]:
    with FaultStore() as found:
        yield found


@pytest.fixture
def pauses() -> List[float]:
    return []


@pytest.fixture
def place(store: FaultStore, pauses: List[float]) -> Iterator[ObjectPlace]:
    found = open_bucket("s3://%s/p" % BUCKET, store.environ, Timing(sleep=pauses.append, stall_s=20.0))
    yield found
    found.close()


def put(place: ObjectPlace, key: str, data: bytes) -> None:
    place.put(key, io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest())


def times(
    count: int, reply: Reply, when: Callable[[Asked], bool] = lambda _: True
) -> Callable[[Asked], Optional[Reply]]:
    left = [count]

    def order(asked: Asked) -> Optional[Reply]:
        if left[0] and when(asked):
            left[0] -= 1
            return reply
        return None

    return order


@pytest.mark.parametrize(
    "reply",
    [
        error(503, "SlowDown"),
        error(500, "InternalError"),
        Reply(502, b"<html>bad gateway</html>"),
        Reply(200, b"", cut=-1),
    ],
    ids=["503 SlowDown", "500", "502 of a proxy", "cut"],
)
def test_a_busy_store_is_asked_again_with_pauses(
    store: FaultStore, place: ObjectPlace, pauses: List[float], reply: Reply
) -> None:
    store.order = times(3, reply)
    put(place, "k", b"data")
    assert store.objects == {"p/k": b"data"}
    assert len(pauses) == 3 and pauses[2] > pauses[0] > 0


def test_a_store_that_stays_busy_is_unreachable(store: FaultStore, place: ObjectPlace) -> None:
    store.order = lambda _: error(503, "SlowDown", "Please reduce your request rate.")
    with pytest.raises(PlaceError, match="s3://kept/p/k: cannot put: the store stays busy.*SlowDown") as caught:
        put(place, "k", b"data")
    assert caught.value.kind == "unreachable"
    assert len(store.asked) == 6


def test_a_cut_in_part_7_of_12_sends_the_missing_parts_only(store: FaultStore, place: ObjectPlace) -> None:
    store.order = lambda asked: Reply(200, b"", cut=-1) if asked.part >= 7 else None
    with pytest.raises(PlaceError) as caught:
        put(place, "k", TWELVE)
    assert caught.value.kind == "unreachable"
    there = set(next(iter(store.uploads.values()))[1])
    assert there == {1, 2, 3, 4, 5, 6}
    store.order, store.asked[:] = (lambda _: None), []
    put(place, "k", TWELVE)
    assert store.parts_sent() == [7, 8, 9, 10, 11, 12]
    assert store.objects == {"p/k": TWELVE} and store.uploads == {}


def test_a_part_of_other_bytes_is_sent_again(store: FaultStore, place: ObjectPlace) -> None:
    store.uploads["old"] = ("p/k", {1: b"x" * PART, 2: TWELVE[PART : 2 * PART]})
    put(place, "k", TWELVE)
    assert store.parts_sent() == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert store.objects == {"p/k": TWELVE}


def test_parts_that_lie_by_their_etag_are_found_and_sent_again(store: FaultStore, place: ObjectPlace) -> None:
    store.uploads["old"] = ("p/k", {1: TWELVE[:PART]})

    def spoilt(asked: Asked, reply: Reply) -> Reply:
        if asked.query.get("uploadId") == "old" and asked.method == "POST":
            store.objects["p/k"] = b"!" + store.objects["p/k"][1:]
        return reply

    store.after = spoilt
    put(place, "k", TWELVE)
    assert store.objects == {"p/k": TWELVE}


def test_an_upload_that_was_ended_meanwhile_begins_anew(store: FaultStore, place: ObjectPlace) -> None:
    def order(asked: Asked) -> Optional[Reply]:
        if asked.part == 12 and not any(one.part == 12 for one in store.asked[:-1]):
            store.uploads.clear()
        return None

    store.order = order
    put(place, "k", TWELVE)
    assert store.objects == {"p/k": TWELVE}


def test_an_upload_of_another_program_is_left_alone(store: FaultStore, place: ObjectPlace) -> None:
    store.uploads["foreign"] = ("p/k", {1: b"x" * (PART // 2)})
    put(place, "k", TWELVE)
    assert list(store.uploads) == ["foreign"]


def test_a_completion_that_was_cut_counts_if_the_object_is_there(store: FaultStore, place: ObjectPlace) -> None:
    cut = times(1, Reply(200, b"", cut=-1), lambda asked: asked.method == "POST" and "uploadId" in asked.query)
    store.after = lambda asked, reply: cut(asked) or reply
    put(place, "k", TWELVE)
    assert store.objects == {"p/k": TWELVE}


def test_an_error_inside_a_success_is_an_error(store: FaultStore, place: ObjectPlace, pauses: List[float]) -> None:
    late = Reply(200, b"<?xml version='1.0'?>   <Error><Code>InternalError</Code></Error>")
    store.order = times(1, late, lambda asked: asked.method == "POST" and "uploadId" in asked.query)
    put(place, "k", TWELVE)
    assert store.objects == {"p/k": TWELVE} and len(pauses) == 1


def test_a_wrong_clock_is_corrected_once_by_the_stores(store: FaultStore, place: ObjectPlace) -> None:
    store.ahead_s = 3600.0

    def order(asked: Asked) -> Optional[Reply]:
        stamp = time.strftime("%Y%m%dT%H", time.gmtime(time.time() + 3600))
        right = asked.headers["x-amz-date"].startswith(stamp)
        return None if right else error(403, "RequestTimeTooSkewed")

    store.order = order
    put(place, "k", b"data")
    put(place, "l", b"data")
    assert len(store.asked) == 3


def test_a_clock_that_stays_wrong_is_told(store: FaultStore, place: ObjectPlace) -> None:
    store.ahead_s = 3600.0
    store.order = lambda _: error(403, "RequestTimeTooSkewed")
    with pytest.raises(PlaceError, match="this machine's clock is wrong") as caught:
        put(place, "k", b"data")
    assert caught.value.kind == "refused" and len(store.asked) == 2


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (error(400, "ExpiredToken", "The provided token has expired."), "refused", "session token has expired"),
        (error(403, "AccessDenied", "Access Denied"), "refused", "the keys may not do this"),
        (error(403, "InvalidAccessKeyId"), "refused", "does not accept the keys"),
        (error(404, "NoSuchBucket"), "refused", "has no bucket 'kept'"),
        (error(507, "XMinioStorageFull"), "full", "no room or a reached quota"),
        (error(403, "QuotaExceeded"), "full", "no room or a reached quota"),
        (error(405, "MethodNotAllowed"), "read_only", "takes no writes"),
        (error(400, "BadDigest"), "lying", "other bytes arrived than were sent"),
        (error(301, "PermanentRedirect"), "refused", "the store refused"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_refusal_has_a_kind_and_names_what_to_do(
    store: FaultStore, place: ObjectPlace, reply: Reply, kind: str, text: str
) -> None:
    store.order = lambda _: reply
    with pytest.raises(PlaceError) as caught:
        put(place, "k", b"data")
    assert caught.value.kind == kind
    assert text in str(caught.value) and "s3://kept/p/k" in str(caught.value)


def test_a_full_bucket_gets_its_unfinished_parts_back(store: FaultStore, place: ObjectPlace) -> None:
    store.order = lambda asked: error(403, "QuotaExceeded") if asked.part == 3 else None
    with pytest.raises(PlaceError) as caught:
        put(place, "k", TWELVE)
    assert caught.value.kind == "full" and not store.uploads


def test_another_region_is_taken_from_the_answer(store: FaultStore, place: ObjectPlace) -> None:
    def order(asked: Asked) -> Optional[Reply]:
        right = "/eu-west-3/s3/" in asked.headers["authorization"]
        return None if right else error(400, "AuthorizationHeaderMalformed", "", "<Region>eu-west-3</Region>")

    store.order = order
    put(place, "k", b"data")
    assert len(store.asked) == 2


def test_a_store_without_checksums_is_asked_without(store: FaultStore, place: ObjectPlace) -> None:
    def order(asked: Asked) -> Optional[Reply]:
        if any("checksum" in name for name in asked.headers):
            return error(
                400, "InvalidArgument", "Unsupported header 'x-amz-checksum-sha256' received for this API call"
            )
        return None

    store.order = order
    put(place, "k", b"data")
    put(place, "big", TWELVE)
    assert place.put_new("new", b"1") and not place.put_new("new", b"2")
    assert store.objects == {"p/k": b"data", "p/big": TWELVE, "p/new": b"1"}


def test_bytes_that_changed_in_the_store_show_on_reading_back(store: FaultStore, place: ObjectPlace) -> None:
    put(place, "k", b"data")
    store.objects["p/k"] = b"dada"
    store.after = lambda _, reply: reply._replace(headers=(("ETag", '"%s"' % hashlib.md5(b"data").hexdigest()),))
    assert place.read_back("k") == hashlib.sha256(b"dada").hexdigest()


def test_a_read_that_is_cut_goes_on_where_it_stopped(store: FaultStore, place: ObjectPlace) -> None:
    store.objects["p/k"] = TWELVE
    begun: List[str] = []

    def after(asked: Asked, reply: Reply) -> Reply:
        begun.append(asked.headers.get("range", ""))
        return reply._replace(cut=PART // 4) if len(begun) in (3, 4) else reply

    store.after = after
    assert b"".join(place.get("k")) == TWELVE
    firsts = sorted(int(one[6:].partition("-")[0]) for one in begun)
    assert sum(first % PART == PART // 4 for first in firsts) >= 1  # a part that goes on may be cut again, elsewhere


def test_an_object_replaced_while_it_is_read_is_told(store: FaultStore, place: ObjectPlace) -> None:
    store.objects["p/k"] = TWELVE
    blocks = place.get("k")
    next(blocks)
    store.objects["p/k"] = TWELVE[::-1]
    with pytest.raises(PlaceError, match="replaced while it was read") as caught:
        b"".join(blocks)
    assert caught.value.kind == "unreachable"


def test_a_range_of_other_bytes_is_refused(store: FaultStore, place: ObjectPlace) -> None:
    store.objects["p/k"] = TWELVE
    store.after = lambda asked, reply: (
        reply if "bytes=0-" in asked.headers.get("range", "")
        else reply._replace(headers=(("Content-Range", "bytes 0-9/%d" % len(TWELVE)),))
    )  # fmt: skip
    with pytest.raises(PlaceError, match="was answered bytes 0-9") as caught:
        b"".join(place.get("k"))
    assert caught.value.kind == "lying"


def test_a_list_that_claims_to_go_on_for_ever_ends(store: FaultStore, place: ObjectPlace) -> None:
    more = b"<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
    body = b"<ListBucketResult>%s</ListBucketResult>" % more
    store.order = lambda _: Reply(200, body)
    with pytest.raises(PlaceError, match="says that it goes on") as caught:
        list(place.list(""))
    assert caught.value.kind == "lying"


@pytest.mark.parametrize(
    "body",
    [
        b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><l>&b;</l>',
        b'<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><l>&x;</l>',
        b"<a>" * 5000,
        b"<l>" + b"<a/>" * 100000 + b"</l>",
        b"<l><Key>" + b"k" * 200000 + b"</Key></l>",
        b"not xml",
        b"",
    ],
    ids=["entities", "a file", "depth", "elements", "text", "none", "empty"],
)
def test_xml_that_is_not_s3s_is_refused_within_bounds(store: FaultStore, place: ObjectPlace, body: bytes) -> None:
    store.order = lambda _: Reply(200, body)
    with pytest.raises(PlaceError, match="the answer is not S3's"):
        list(place.list(""))


def test_a_create_whose_answer_was_cut_knows_its_own_object(store: FaultStore, place: ObjectPlace) -> None:
    assert place.creator.by == "If-None-Match"
    cut = times(1, Reply(200, b"", cut=-1), lambda asked: asked.key == "p/claim")
    store.after = lambda asked, reply: cut(asked) or reply
    assert place.put_new("claim", b"mine")
    assert not place.put_new("claim", b"another's")


def test_the_ticket_of_a_dead_contender_blocks_for_a_while_only(pauses: List[float]) -> None:
    with FaultStore(obeys=False) as store:
        place = open_bucket("s3://%s/p" % BUCKET, store.environ, Timing(sleep=pauses.append))
        assert place.creator.by == "tickets"
        folder = "p/leasehold/tickets/%s/" % hashlib.sha256(b"p/claim").hexdigest()[:32]
        store.objects[folder + "dead"] = b""
        with pytest.raises(PlaceError, match="others try to create it"):
            place.put_new("claim", b"1")
        store.born[folder + "dead"] = "2026-11-19T19:50:00.000Z"
        assert place.put_new("claim", b"1")
        assert store.objects == {"p/claim": b"1"}
        place.close()


def test_an_absent_object_is_not_an_absent_bucket(store: FaultStore, place: ObjectPlace) -> None:
    with pytest.raises(Absent):
        place.get("none")
    store.order = lambda _: error(404, "NoSuchBucket")
    with pytest.raises(PlaceError) as caught:
        place.get("none")
    assert caught.value.kind == "refused"


def test_a_source_that_changed_leaves_no_parts_behind(store: FaultStore, place: ObjectPlace) -> None:
    with pytest.raises(SourceChanged):
        place.put("k", io.BytesIO(TWELVE), len(TWELVE), hashlib.sha256(b"other").hexdigest())
    assert store.objects == {} and store.uploads == {}


def test_uploads_that_nobody_continues_are_ended(store: FaultStore, place: ObjectPlace) -> None:
    store.uploads["old"] = ("p/a/k", {1: b"x"})
    store.uploads["other"] = ("q/k", {1: b"x"})
    assert place.end_unfinished("a", 0.0) == 1
    assert list(store.uploads) == ["other"]


def test_secrets_are_in_no_message(store: FaultStore) -> None:
    environ = dict(store.environ, AWS_SECRET_ACCESS_KEY="verysecret", AWS_SESSION_TOKEN="verytoken")
    store.order = lambda _: error(403, "SignatureDoesNotMatch", "no")
    place = open_bucket("s3://kept", environ)
    with pytest.raises(PlaceError) as caught:
        place.get("k")
    assert "very" not in str(caught.value) + repr(place.bucket.account)
    place.close()
