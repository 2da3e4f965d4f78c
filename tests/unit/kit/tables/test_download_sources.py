"""Where downloads may come from, and what is never shown of an address."""

from __future__ import annotations

import pytest

from leasehold.kit.tables.download_sources import BadSource, Source, parse_source, plain_url

GOOD = {
    "https://a.example/x/y.bin?sig=1": Source("url", "https://a.example/x/y.bin?sig=1"),
    "hf:gpt2": Source("hf", "gpt2"),
    "hf:org/name@refs/pr/3:**/*.safetensors": Source("hf", "org/name", "refs/pr/3", "**/*.safetensors"),
    "hf-dataset:org/set:data/train-00.parquet": Source("hf-dataset", "org/set", "", "data/train-00.parquet"),
    "modelscope:org/name@v1.0": Source("modelscope", "org/name", "v1.0"),
}
BAD = [
    "", "x", "ftp://a.example/x", "file:///etc/passwd", "https://", "https://a.example/", "https://u:p@a.example/x",
    "hf:", "hf:../x", "hf:a/b/c", "hf:org/name@../x", "hf:org/name:/etc/passwd", "hf:org/name:../x", "modelscope:name",
    "https://a.example/x y", "hf:org/name\n", "https://[::1/x", None, 7,
]  # fmt: skip


@pytest.mark.parametrize("text", list(GOOD))
def test_a_source_is_read(text: str) -> None:
    assert parse_source(text) == GOOD[text]


@pytest.mark.parametrize("text", BAD, ids=repr)
def test_what_is_no_source_is_refused(text: object) -> None:
    with pytest.raises(BadSource):
        parse_source(text)


def test_only_https_and_this_machine_are_safe() -> None:
    assert parse_source("https://a.example/x").safe and parse_source("http://127.0.0.1:1/x").safe
    assert not parse_source("http://a.example/x").safe


def test_query_and_user_are_never_shown() -> None:
    assert plain_url("https://me:secret@a.example:8443/x?token=secret#y") == "https://a.example:8443/x"
    assert plain_url("hf:org/name") == "hf:org/name"
