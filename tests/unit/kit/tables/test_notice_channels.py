"""Channels as data: texts are cut to a vendor's limit between characters, and secrets are known as such."""

from __future__ import annotations

import itertools

from leasehold.kit.tables.notice_channels import BYTES, KINDS, UTF16, cut, secrets_of


def test_a_cut_text_fits_and_is_a_beginning_of_the_whole() -> None:
    texts = ["a" * 50, "训练" * 20, "😀" * 20, "e\u0301" * 20, "ab训😀" * 9]
    for text, counts, limit in itertools.product(texts, (BYTES, UTF16), range(5, 40)):
        short = cut(text, limit, counts)
        size = len(short.encode("utf-8")) if counts == BYTES else len(short.encode("utf-16-le")) // 2
        case = (text, counts, limit, short)
        assert size <= limit, case
        assert short == text or (short.endswith(" …") and text.startswith(short[:-2])), case


def test_a_cut_wastes_less_than_one_character() -> None:
    assert cut("训" * 10, 13) == "训训训 …"
    assert len(cut("训" * 5000, 4096).encode("utf-8")) > 4096 - 3 - 4


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert cut("训练", 6) == "训练"
    assert cut("😀" * 2048, 4096, UTF16) == "😀" * 2048


def test_every_kind_says_what_is_secret_and_how_to_get_one() -> None:
    for kind in KINDS.values():
        assert any(field.secret for field in kind.fields), kind.name
        assert any(field.needed for field in kind.fields), kind.name
        assert kind.how and all(field.what for field in kind.fields)


def test_the_secrets_of_a_channel_are_its_values_and_not_its_names() -> None:
    channel = {"name": "phone", "kind": "telegram", "token": "12:abcdef", "chat_id": "42", "url": "https://own.example"}
    assert secrets_of(channel) == ("12:abcdef",)
    assert secrets_of({"kind": "pigeon", "coop": "behind the house"}) == ("behind the house",)
