"""From a hub's list to files: names, hashes, versions, endpoints; and lists that are not to be trusted."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterator

import pytest

from leasehold.caretaker.downloads.download_file import LIMITS, Failed
from leasehold.caretaker.downloads.sources import Listing, list_item
from leasehold.kit.tables.download_sources import parse_source
from tests.support.web import Hub, Web, web

QUICK = {**LIMITS, "stall_s": 60.0, "pause_s": 0.0, "tries": 3}
FILES = {"config.json": b"{}", "model.safetensors": b"weights", "sub/shard.bin": b"shard", "README.md": b"hello"}


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as found:
        yield found


def listed(text: str, environ: Dict[str, str], **item: Any) -> Listing:
    return list_item([parse_source(text)], {"to": "w", **item}, environ, QUICK)


def test_a_repository_is_listed_with_hashes_and_pinned_to_its_commit(server: Web) -> None:
    hub = Hub(server, "org/name", FILES)
    found = listed("hf:org/name", {"HF_ENDPOINT": server.base, "HF_TOKEN": "hf_x"})
    assert found.commit == hub.commit
    assert [file.path for file in found.files] == ["w/" + name for name in FILES]
    by_name = {file.path: file for file in found.files}
    assert by_name["w/model.safetensors"].sha256 == hashlib.sha256(b"weights").hexdigest()
    assert by_name["w/README.md"].blob == hashlib.sha1(b"blob 5\0hello").hexdigest()
    assert by_name["w/sub/shard.bin"].routes[0].url == "%s/org/name/resolve/%s/sub/shard.bin" % (
        server.base,
        hub.commit,
    )
    assert server.asked[0].query == {"blobs": ["true"]}
    assert server.asked[0].headers["authorization"] == "Bearer hf_x"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("*.safetensors", ["model.safetensors"]), ("config.json", ["config.json"]), ("**/*.bin", ["sub/shard.bin"])],
)
def test_only_the_files_that_were_asked_for(server: Web, pattern: str, names: list) -> None:
    Hub(server, "org/name", FILES)
    found = listed("hf:org/name:" + pattern, {"HF_ENDPOINT": server.base})
    assert [file.path for file in found.files] == ["w/" + name for name in names]


def test_a_dataset_has_its_own_paths(server: Web) -> None:
    hub = Hub(server, "org/set", {"train.bin": b"x"}, "datasets")
    (file,) = listed("hf-dataset:org/set", {"HF_ENDPOINT": server.base}).files
    assert file.routes[0].url == "%s/datasets/org/set/resolve/%s/train.bin" % (server.base, hub.commit)


def test_further_endpoints_are_further_routes_and_stand_in_for_a_dead_one(server: Web) -> None:
    with web() as mirror:
        Hub(server, "org/name", FILES)
        environ = {"HF_ENDPOINT": mirror.base, "HF_ENDPOINTS": " %s/ , %s" % (server.base, mirror.base)}
        found = listed("hf:org/name:config.json", environ)
        assert [route.host for route in found.files[0].routes] == [mirror.base[7:], server.base[7:]]


def test_a_pattern_that_matches_nothing_is_said(server: Web) -> None:
    Hub(server, "org/name", FILES)
    with pytest.raises(Failed, match=r"org/name has no file that matches \*.gguf"):
        listed("hf:org/name:*.gguf", {"HF_ENDPOINT": server.base})


def test_a_missing_repository_is_said_at_once(server: Web) -> None:
    with pytest.raises(Failed, match="HTTP 404"):
        listed("hf:org/absent", {"HF_ENDPOINT": server.base})
    assert len(server.asked) == 1


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a//b", None, 7])
def test_a_list_that_reaches_out_of_its_folder_is_refused(server: Web, name: Any) -> None:
    body = json.dumps({"sha": "1" * 40, "siblings": [{"rfilename": name}]}).encode()
    server.reply("/api/models/org/name/revision/main", lambda handler, asked: handler.plain(200, body))
    with pytest.raises(Failed, match="not to be trusted"):
        listed("hf:org/name", {"HF_ENDPOINT": server.base})


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b"\xff"])
def test_a_list_that_is_none_is_said(server: Web, body: bytes) -> None:
    server.reply("/api/models/org/name/revision/main", lambda handler, asked: handler.plain(200, body))
    with pytest.raises(Failed, match="could not be fetched"):
        listed("hf:org/name", {"HF_ENDPOINT": server.base})


def test_modelscope_is_asked_in_its_own_way(server: Web) -> None:
    sha = hashlib.sha256(b"w").hexdigest()
    listing = [
        {"Path": "sub", "Type": "tree", "Size": 0},
        {"Path": "sub/m.bin", "Type": "blob", "Size": 1, "Sha256": sha},
    ]
    body = json.dumps({"Code": 200, "Data": {"Files": listing}}).encode()
    server.reply("/api/v1/models/org/name/repo/files", lambda handler, asked: handler.plain(200, body))
    (file,) = listed("modelscope:org/name@v1", {"MODELSCOPE_DOMAIN": server.base}).files
    assert (file.path, file.size, file.sha256) == ("w/sub/m.bin", 1, sha)
    assert file.routes[0].url == server.base + "/api/v1/models/org/name/repo?Revision=v1&FilePath=sub%2Fm.bin"
    assert server.asked[0].query == {"Revision": ["v1"], "Recursive": ["true"]}
