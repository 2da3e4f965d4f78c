"""No secret survives in any usual spelling; what is none stays byte for byte."""

from __future__ import annotations

import base64
import json
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.text.redact import CONTEXT_BYTES, Redactor, in_environment

VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=12, max_size=60) | st.text(
    "abcdef0123456789/+ %\"'\\&=?-_.~中", min_size=12, max_size=60
).map(lambda text: "x" + text + "x")
AROUND = st.text("abc xyz 0123456789\n:=,.{}[]\"'", max_size=60)

SPELLINGS = {
    "as it is": lambda value: value,
    "json": lambda value: json.dumps(value)[1:-1],
    "json, not ascii": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "repr": lambda value: repr(value)[1:-1],
    "percent": lambda value: urllib.parse.quote(value),
    "percent, all": lambda value: urllib.parse.quote(value, safe=""),
    "form": lambda value: urllib.parse.quote_plus(value),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64, for urls": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "basic auth": lambda value: base64.b64encode(b"api:" + value.encode()).decode(),
    "basic auth, longer user": lambda value: base64.b64encode(b"ada.l:" + value.encode()).decode(),
    "hex": lambda value: value.encode().hex(),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(VALUES, AROUND, AROUND)
def test_a_known_value_survives_in_no_spelling(spelling, value, before, after):
    told = SPELLINGS[spelling](value)
    text = before + told + after
    cleaned = Redactor({"KEY": value}).text(text)
    sure = told.strip("=")[8:-8] if "ba" in spelling else told
    assert sure == "" or sure not in cleaned
    assert len(cleaned.encode()) == len(text.encode())
    assert Redactor({"KEY": value}).text(cleaned) == cleaned


@given(st.recursive(VALUES | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(VALUES, inner)))
def test_a_known_value_survives_nowhere_in_a_tree(tree):
    value = "correct-horse-battery"
    held = {"a": [tree, "x" + value + "y"], value: {"b": (value,)}}
    assert value not in json.dumps(Redactor({"KEY": value}).tree(held), ensure_ascii=False)


def test_what_lies_under_kept_keys_stays():
    tree = {"plan": {"run": "correct-horse-battery"}, "why": "correct-horse-battery"}
    cleaned = Redactor({"KEY": "correct-horse-battery"}).tree(tree, frozenset({"plan"}))
    assert cleaned["plan"] == tree["plan"] and "horse" not in cleaned["why"]


def test_a_value_of_several_lines_is_hidden_line_by_line():
    value = "first-line-of-it\nsecond-line-of-it\n"
    said = "a\n  first-line-of-it\nb second-line-of-it c\n"
    cleaned = Redactor({"KEY": value}).text(said)
    assert "line-of" not in cleaned and cleaned.count("\n") == said.count("\n")


def test_the_mask_names_whose_value_it_was():
    assert Redactor({"HF_TOKEN": "0123456789abcdef"}).text("is 0123456789abcdef!") == "is <HF_TOKEN>******!"


@pytest.mark.parametrize("value", ["1", "true", "abc", "12345"])
def test_a_value_too_short_to_be_one_hides_nothing(value):
    text = "step 12345 abc true 1.0"
    assert Redactor({"KEY": value}).text(text) == text


def test_a_short_value_counts_only_as_a_word():
    assert Redactor({"PIN": "123456"}).text("pin 123456, loss 0.1234567") == "pin <PIN>*, loss 0.1234567"


HEX = "a1b2c3d4" * 5
TOKENS = [
    ("hf_" + "aB3" * 12, "aB3" * 12),
    ("sk-" + "a1B2" * 12, "a1B2" * 12),
    ("sk-proj-" + "a1B2" * 8 + "-xyz", "a1B2" * 8 + "-xyz"),
    ("sk-ant-api03-" + "a1B2" * 8, "a1B2" * 8),
    ("ghp_" + "a1B2" * 9, "a1B2" * 9),
    ("github_pat_" + "a1B2c3_" * 8, "a1B2c3_" * 8),
    ("glpat-" + "a1B2" * 6, "a1B2" * 6),
    ("AKIA" + "A1B2" * 4, "A1B2" * 4),
    ("xoxb-1234567890-abcdefghij", "abcdefghij"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijklmnop", "abcdefghijklmnop"),
    ("wandb login " + HEX, HEX),
    ("WANDB_API_KEY=" + HEX, HEX),
    ("wandb: Appending key for api.wandb.ai: '" + HEX + "'", HEX),
    ("Authorization: Bearer abcdefghij.klmnop", "abcdefghij"),
    ("'Authorization': 'Basic YXBpOmh1bnRlcjI='", "YXBpOmh1bnRlcjI="),
    ("AWS_SECRET_ACCESS_KEY=" + "aB3/" * 10, "aB3/" * 10),
    ("password: 'correct-horse-battery-9'", "correct-horse"),
    ("https://ada:hunter2@example.org/repo.git", "hunter2"),
    ("git clone https://x-access-token:abc123@github.com/a/b", "abc123"),
    ("https://example.org/file?X-Amz-Signature=0123456789abcdef", "0123456789abcdef"),
    ("https://example.org/hub?access_token=0123456789abcdef&x=1", "0123456789abcdef"),
    ("https://ntfy.sh/my-topic-9", "my-topic-9"),
    ("https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnop", "abcdefghijklmnop"),
    ("https://open.feishu.cn/open-apis/bot/v2/hook/0123-4567-89ab", "0123-4567"),
    ("https://discord.com/api/webhooks/1234567890/abcdefghijklmnopqrstuvwxyz", "abcdefghijklm"),
    ("https://api.telegram.org/bot123456:abcdefghijklmnopqrstuvwxyz/sendMessage", "abcdefghijklm"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1\nrZXktdjE=\n-----END OPENSSH PRIVATE KEY-----", "rZXktdjE="),
    ("-----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKC\\n-----END RSA PRIVATE KEY-----", "MIIEowIBAAKC"),
]


@pytest.mark.parametrize("token, secret", TOKENS)
@pytest.mark.parametrize("around", ["{}", "error: {} was refused\n", '{{"said": "{}"}}', "a\n{}\nb"])
def test_what_has_a_tokens_shape_is_hidden(token, secret, around):
    text = around.format(token)
    cleaned = Redactor().text(text)
    assert secret in text and secret not in cleaned
    assert len(cleaned) == len(text) and Redactor().text(cleaned) == cleaned


HARMLESS = [
    "epoch 3/90 step 1200 loss 0.5321 lr 1.0e-04 acc 91.25%",
    "sha256 " + "ab" * 32,
    "commit " + "a1b2c3d4" * 5,
    "wandb: git commit " + "a1b2c3d4" * 5,
    "HEAD is now at a1b2c3d4 login page",
    "eos_token=<|endoftext|> pad_token_id: 50256 max_new_tokens=1024",
    "tokens/s: 12345678901234567890",
    "loading sk-learn-intelex-2024-with-a-long-name",
    "sk-10 task-based-fmri-2021-experiment",
    "https://huggingface.co/bert-base-uncased/resolve/main/config.json?download=true",
    "https://example.org:8080/path@v2/x",
    "ssh root@10.0.0.1 -p 2222",
    "git clone https://x:$GITHUB_TOKEN@github.com/a/b",
    "curl -H 'Authorization: Bearer $HF_TOKEN' https://x",
    "export WANDB_API_KEY=${WANDB_API_KEY_FROM_SOMEWHERE_1}",
    "key: value, keys: 12, primary_key=id, sort_key=loss",
    "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----",
    "lease notify add ntfy https://ntfy.sh/YOUR-TOPIC",
    "train-3f2a91b0c4d5e6f7 finished; lease pull train-3f2a91b0c4d5e6f7",
    "torch==2.3.1+cu121 --hash=sha256:" + "0f" * 32,
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays_byte_for_byte(text):
    assert Redactor({"HF_TOKEN": "hunter2-hunter2-hunter2"}).text(text) == text


@given(st.binary(max_size=400))
def test_bytes_that_are_no_text_stay(data):
    known = b"hunter2-hunter2"
    cleaned = Redactor({"KEY": known.decode()}).clean(data)
    assert len(cleaned) == len(data)
    assert Redactor({"KEY": known.decode()}).clean(data + known + data)[len(data) : len(data) + len(known)] != known


def test_the_doctors_real_logs_stay_byte_for_byte():
    corpus = Path(__file__).resolve().parents[3] / "doctor" / "corpus"
    files = [path for path in corpus.rglob("*") if path.is_file()]
    assert len(files) >= 8
    for path in files:
        assert Redactor().clean(path.read_bytes()) == path.read_bytes(), path


def test_variables_that_hold_secrets_are_known_by_their_names():
    environ = {"HF_TOKEN": "a" * 20, "MY_API_KEY": "b" * 20, "DB_PASSWORD": "c" * 20, "HOME": "/home/ada-lovelace"}
    others = {"TOKENIZERS_PARALLELISM": "false-false-false", "MY_SECRET_KEY_FILE": "/home/ada/keys/one"}
    assert set(in_environment({**environ, **others})) == set(environ) - {"HOME"}


def test_no_shape_is_longer_than_the_context():
    rsa = "\n".join(["A" * 64] * 100)
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + rsa
    assert len(block) < CONTEXT_BYTES
    assert "AAAA" not in Redactor().text(block)
