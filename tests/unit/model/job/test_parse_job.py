"""Job files as YAML text: every key, its line in a complaint, the nearest spelling, and hostile text."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.tables.file_endings import guess_kind
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.cells import Cell
from leasehold.model.job.job import (
    Artifact,
    CheckpointFacts,
    Download,
    GpuWish,
    Job,
    LocalData,
    NotifyWish,
    job_from_dict,
)
from leasehold.model.job.keys import WORDS, json_schema

SMALL = "name: toy\nrun: python t.py\nartifacts: [best.pt]\n"  # three lines: a further key stands on line 4

WHOLE = """
name: resnet-cifar
run: python train.py {{resume}}
resume: {when: "ckpt-*", flags: "--resume {{latest}}"}
setup: pip install -r requirements.txt
setup_frameworks: replace
smoke: python train.py --steps 3
env: {SEED: 1, LR: 0.5, NOTE: "中文"}
secrets: [WANDB_API_KEY, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]
publish: s3://bucket/results
downloads: [{from: hf:org/name, to: weights}]
data: [data/train.bin, {from: ~/sets/coco, to: coco}]
resources: {gpu: {name: A100, count: 2, memory: 40GB+}, disk: 50GB}
candidates: [ssh:gpu1, local]
artifacts:
  "*.pt": {loads: torch, keys: [model], allow_opaque: true}
  metrics.json:
scratch: ["tmp/**"]
checkpoint: {path: last.pt, size: 3GB, write_time: 30s}
progress: 'it (?P<step>\\d+)/(?P<total>\\d+)'
expect: 6h
budget: 20USD
notify: {"on": [ended, budget], channels: [phone]}
reboot: resume
when_done: park
attempts: 7
cells: [{lr: 1}]
slurm: {partition: gpu, time: 8h}
kubernetes: {image: reg/torch:2, memory: 64GB, cpu: 8, tolerations: [{key: gpu, operator: Exists}]}
evaluate: python eval.py
stall: {after: 45m, then: again}
on_nan: stop
"""


def bad(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        parse_text(text, "lease.yaml")
    assert caught.value.code == "job.invalid"
    assert caught.value.message.startswith("lease.yaml")
    return caught.value


def test_everything_a_job_can_say() -> None:
    assert parse_text(WHOLE, "x") == Job(
        name="resnet-cifar",
        run='python train.py ${LEASE_LATEST:+--resume "${LEASE_LATEST}"}',
        latest=("ckpt-*",),
        artifacts=(Artifact("*.pt", "torch", ("model",), True), Artifact("metrics.json", "json")),
        setup="pip install -r requirements.txt",
        setup_frameworks="replace",
        smoke="python train.py --steps 3",
        env={"SEED": "1", "LR": "0.5", "NOTE": "中文"},
        secrets=("WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        publish="s3://bucket/results",
        downloads=(Download(("hf:org/name",), "weights"),),
        data=(LocalData("data/train.bin", "data/train.bin"), LocalData("~/sets/coco", "coco")),
        gpu=GpuWish("A100", 2, 40 * 10**9, 0),
        disk_bytes=50 * 10**9,
        candidates=("ssh:gpu1", "local"),
        scratch=("tmp/**",),
        checkpoint=CheckpointFacts("last.pt", 3 * 10**9, 30.0),
        progress=r"it (?P<step>\d+)/(?P<total>\d+)",
        expect_s=21600.0,
        budget="20USD",
        notify=NotifyWish(("ended", "budget"), ("phone",)),
        reboot="resume",
        when_done="park",
        attempts=7,
        cells=(Cell("lr-1", {"lr": 1}),),
        slurm={"partition": "gpu", "time": "0-08:00:00"},
        kubernetes={
            "image": "reg/torch:2",
            "memory": 64_000_000_000,
            "cpu": "8",
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
        evaluate="python eval.py",
        stall_after_s=2700.0,
        on_stall="again",
        on_nan="stop",
    )


def test_the_test_above_knows_every_word() -> None:
    assert set(yaml.safe_load(WHOLE)) == {word.name for word in WORDS}


def test_a_job_reads_back_from_its_own_spelling() -> None:
    for text in (SMALL, WHOLE):
        job = parse_text(text, "x")
        assert job_from_dict(job.as_dict()) == job
        assert digest(job_from_dict(job.as_dict()).as_dict()) == digest(job.as_dict())


def test_a_plain_budget_only_warns_and_is_written_as_in_older_plans() -> None:
    plain = parse_text(SMALL + "budget: 20USD\n", "x")
    spelled = parse_text(SMALL + "budget: {limit: 20USD}\n", "x")
    stops = parse_text(SMALL + "budget: {limit: 20USD, at_limit: stop}\n", "x")
    assert plain == spelled and "at_limit" not in plain.as_dict()
    assert (stops.budget, stops.at_limit, stops.as_dict()["at_limit"]) == ("20USD", "stop", "stop")
    assert job_from_dict(stops.as_dict()) == stops


@pytest.mark.parametrize(
    "pattern, loads",
    [
        ("a.PT", "torch"),
        ("d/**/x.safetensors", "safetensors"),
        ("m.jsonl", "jsonl"),
        ("x.tar.gz", "tar.gz"),
        ("x.pt2", "bytes"),
        ("best.pth.tar", "torch"),
        ("shard.tar", "bytes"),
        ("pytorch_model*.bin", "torch"),
        ("data.bin", "bytes"),
        ("a", "bytes"),
    ],
)
def test_a_suffix_says_how_to_load(pattern: str, loads: str) -> None:
    assert guess_kind(pattern) == loads


# ---------------------------------------------------------------- one complaint a key


@pytest.mark.parametrize(
    "line, message, hint",
    [
        ("artefacts: [a]", "artefacts: is not a key here", "did you mean artifacts?"),
        ("Name: toy", "Name: is not a key here", "did you mean name?"),
        ("zebra: 1", "zebra: is not a key here", "known: name, run, setup"),
        ("7: 1", "7: is not a key here", "known: name"),
        ("setup: ''", "setup: must be a command line, not str ''", ""),
        ("smoke: [a]", "smoke: must be a command line, not list", ""),
        ("env: [A]", "env: must map names to values, not list", ""),
        ("env: {'1A': x}", "env.1A: is not the name of an environment variable", ""),
        ("env: {LEASE_OUT: x}", "env.LEASE_OUT: names starting with LEASE_ are ours", ""),
        ("env: {A: yes}", "env.A: must be text or a number, not bool 'True'", "quote it"),
        ("env: {A: [1]}", "env.A: must be text or a number, not list", ""),
        ("env: {A: 2024-01-01}", "env.A: must be text or a number, not date", "quote it"),
        ("env: {T: hf_abcdefghijklmnopqrst}", "env.T: looks like a secret", "write secrets: [T] instead"),
        ("secrets: WANDB", "secrets: must be a list of words, not str 'WANDB'", "write secrets: [one, two]"),
        ("secrets: [a-b]", "secrets: lists names of environment variables, never values", ""),
        ("secrets: [hf_abcdefghijklmnopqrst]", "secrets: lists names of environment variables, never values", ""),
        ("resources: 1", "resources: must be a mapping of keys, not int '1'", ""),
        ("resources:", "resources: must be a mapping of keys, not nothing", ""),
        ("resources: {gpus: 1}", "resources.gpus: is not a key here", "did you mean gpu?"),
        ("resources: {disk: 50}", "resources.disk: needs its unit, as text; seen int '50'", ""),
        ("resources: {disk: 50G}", "resources.disk: '50G' is not a size; write it like 40GB", ""),
        ("resources: {gpu: A100}", "resources.gpu: must be a mapping of keys, not str 'A100'", ""),
        ("resources: {gpu: {nam: A100}}", "resources.gpu.nam: is not a key here", "did you mean name?"),
        ("resources: {gpu: {name: 1}}", "resources.gpu.name: must be text, not int '1'", ""),
        ("resources: {gpu: {count: 0}}", "resources.gpu.count: must be a whole number from 1 to 64, not 0", ""),
        ("resources: {gpu: {count: true}}", "resources.gpu.count: must be a whole number from 1 to 64, not True", ""),
        ("resources: {gpu: {memory: 40}}", "resources.gpu.memory: needs its unit, as text", ""),
        ("resources: {gpu: {memory: 48GB-24GB}}", "resources.gpu.memory: '48GB-24GB' ends below its beginning", ""),
        ("candidates: [1]", "candidates: must be a list of words", "write candidates: [one, two]"),
        ("scratch: [/tmp]", "scratch: path '/tmp': absolute; patterns are relative to $LEASE_OUT", ""),
        ("scratch: [../x]", "scratch: path '../x': segment '..' is not allowed", ""),
        ("checkpoint: {sise: 3GB}", "checkpoint.sise: is not a key here", "did you mean size?"),
        ("checkpoint: {path: /abs}", "checkpoint.path: path '/abs': absolute", ""),
        ("checkpoint: {write_time: 30}", "checkpoint.write_time: needs its unit", ""),
        ("progress: 5", "progress: must be auto, none or a regex, not int '5'", ""),
        ("progress: '('", "progress: is not a regex", ""),
        ("progress: 'a{99999999999}'", "progress: is not a regex: the repetition number is too large", ""),
        ("progress: 'it (\\d+)'", "progress: has no group named step", "(?P<step>"),
        ("expect: 6", "expect: needs its unit, as text; seen int '6'", ""),
        ("expect: soon", "expect: 'soon' is not a duration; write it like 90s", ""),
        ("budget: 20 dollars", "budget: '20 dollars' is not an amount; write it like 20USD", ""),
        ("budget: {limit: 20}", "budget.limit: needs its unit, as text; seen int '20'", ""),
        ("budget: {at_limit: stop}", "budget: has no limit, which says what it may cost", "budget: {limit: 20USD}"),
        ("budget: {limit: 20USD, at_limit: stopp}", "budget.at_limit: 'stopp' is none of warn, stop", "mean stop?"),
        ("budget: {limits: 20USD}", "budget.limits: is not a key here", "did you mean limit?"),
        ("when_done: parc", "when_done: 'parc' is none of ask, park", "did you mean park?"),
        ("when_done: off", "when_done: False is none of ask, park", ""),
        ("attempts: 0", "attempts: must be a whole number from 1 to 100, not 0", ""),
        ("attempts: 1.5", "attempts: must be a whole number from 1 to 100, not 1.5", ""),
    ],
)
def test_a_bad_key_is_named_with_its_line(line: str, message: str, hint: str) -> None:
    error = bad(SMALL + line + "\n")
    assert error.message.startswith(f"lease.yaml:4: {message}")
    assert hint in error.hint
    assert error.hint


@pytest.mark.parametrize(
    "text, message",
    [
        ("run: x\nartifacts: [a]", "lease.yaml: name: "),
        ("name: ../x\nrun: x\nartifacts: [a]", "lease.yaml:1: name: use letters, digits"),
        ("name: toy\nartifacts: [a]", "lease.yaml: run: must be a command line, not nothing"),
        ("name: toy\nrun: ' '\nartifacts: [a]", "lease.yaml:2: run: must be a command line, not str ' '"),
        ("name: toy\nrun: x", "lease.yaml: artifacts: is missing or empty: it lists what must come home"),
        ("name: toy\nrun: x\nartifacts: []", "lease.yaml:3: artifacts: is missing or empty"),
        ("name: toy\nrun: x\nartifacts:\n  /abs: torch", "lease.yaml:4: artifacts./abs: path '/abs': absolute"),
        ("name: toy\nrun: x\nartifacts:\n  a: pickel", "lease.yaml:4: artifacts.a: 'pickel' is none of torch"),
        ("name: toy\nrun: x\nartifacts:\n  a: {load: torch}", "lease.yaml:4: artifacts.a.load: is not a key here"),
        ("name: toy\nrun: x\nartifacts:\n  a: {keys: model}", "lease.yaml:4: artifacts.a.keys: must be a list"),
        ("name: toy\nrun: x\nartifacts:\n  a:\n    allow_opaque: 1", "lease.yaml:5: artifacts.a.allow_opaque: must be"),
    ],
)
def test_the_three_needed_keys_are_missed_and_checked(text: str, message: str) -> None:
    assert bad(text).message.startswith(message)


# ---------------------------------------------------------------- YAML itself


@pytest.mark.parametrize(
    "text, where, words",
    [
        ("", "lease.yaml", "must be a mapping of keys, not nothing"),
        ("- a\n- b\n", "lease.yaml", "must be a mapping of keys, not list"),
        ("name: toy\nname: tiger\n", "lease.yaml:2", "duplicate key: name"),
        (SMALL + "env:\n  A: 1\n  B: 2\n  A: 3\n", "lease.yaml:7", "duplicate key: A"),
        ("name: toy\n\trun: x\n", "lease.yaml:2", "not valid YAML"),
        ("name: toy\nrun: a: b\n", "lease.yaml:2", "not valid YAML: mapping values are not allowed here"),
        ("name: {", "lease.yaml:1", "not valid YAML"),
        ("name: *nobody", "lease.yaml:1", "not valid YAML: found undefined alias"),
        ("name: !!python/object:os.system x", "lease.yaml:1", "could not determine a constructor"),
        ("name: 2024-13-45", "lease.yaml", "month must be in 1..12"),
        ("name: !!int seven", "lease.yaml", "not valid YAML"),
        ("? [a, b]\n: c\n", "lease.yaml:1", "a key must be a plain word"),
        ("name: a\x00b", "lease.yaml", "not valid YAML"),
        ("name: 0x" + "f" * 6000, "lease.yaml:1", "a value is too long"),
        ("run: '" + "x" * 200_000 + "'", "lease.yaml:1", "a value is too long"),
        ("x: " + "a" * (1 << 20), "lease.yaml", "it is larger than 1 MiB"),
        ("a: &a [*a]", "lease.yaml:1", "nested deeper than 20 levels"),
        ("- " * 3000, "lease.yaml", "nested deeper than 20 levels"),
        ("".join(" " * n + "a:\n" for n in range(25)), "lease.yaml:22", "nested deeper than 20 levels"),
    ],
)  # fmt: skip
def test_text_that_is_no_job_file_is_refused_where_it_goes_wrong(text: str, where: str, words: str) -> None:
    message = bad(text).message
    assert re.match(re.escape(where) + r"[: ]", message), message
    assert words in message


@pytest.mark.parametrize("opening, closing, join", [("{", "}", ": *"), ("[", "]", "*")])
def test_a_bomb_of_aliases_is_refused_before_anything_is_built(opening: str, closing: str, join: str) -> None:
    lines = [f"a0: &a0 {opening}{'k: ' if join[0] == ':' else ''}v{closing}"]
    for level in range(1, 12):
        inner = ", ".join((f"k{n}" if join[0] == ":" else "") + f"{join}a{level - 1}" for n in range(12))
        lines.append(f"a{level}: &a{level} {opening}{inner}{closing}")
    begun = time.monotonic()
    assert "with its aliases spelled out" in bad("\n".join(lines) + "\nname: *a11\n").message
    assert time.monotonic() - begun < 5


def test_honest_anchors_and_merges_still_work() -> None:
    text = SMALL.replace("[best.pt]", "{best.pt: &how {loads: torch, keys: [model]}, last.pt: *how}")
    assert {artifact.keys for artifact in parse_text(text, "x").artifacts} == {("model",)}
    merged = SMALL.replace("[best.pt]", "{best.pt: &how {loads: torch}, last.pt: {<<: *how, keys: [model]}}")
    assert parse_text(merged, "x").artifacts[1] == Artifact("last.pt", "torch", ("model",))


# ---------------------------------------------------------------- the schema that editors use


def admits(schema: dict[str, Any], value: Any) -> bool:
    """Check the few words of JSON Schema that ours uses."""
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
        "integer": int,
        "number": (int, float),
    }
    if "anyOf" in schema:
        return any(admits(one, value) for one in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    wanted = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if wanted and not any(
        isinstance(value, kinds[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in wanted
    ):
        return False
    if isinstance(value, str):
        return len(value) >= schema.get("minLength", 0) and bool(re.search(schema.get("pattern", ""), value))
    if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, list):
        return len(value) >= schema.get("minItems", 0) and all(admits(schema.get("items", {}), item) for item in value)
    if not isinstance(value, dict):
        return True
    named, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, item in value.items():
        if (
            key not in named
            and rest is False
            or not admits(named.get(key, rest if isinstance(rest, dict) else {}), item)
        ):
            return False
    return len(value) >= schema.get("minProperties", 0) and set(schema.get("required", [])) <= set(value)


BOTH_REFUSE = [
    "zebra: 1", "setup: ''", "smoke: [a]", "env: [A]", "env: {A: yes}", "secrets: WANDB", "resources: {gpus: 1}",
    "resources: {disk: 50}", "resources: {disk: 50G}", "resources: {gpu: {count: 0}}", "attempts: 1.5",
    "resources: {gpu: {count: true}}", "resources: {gpu: {memory: 40}}", "candidates: [1]", "attempts: 0",
    "checkpoint: {sise: 3GB}", "checkpoint: {write_time: 30}", "progress: 5", "expect: 6", "expect: soon",
    "budget: 20 dollars", "when_done: parc",
]  # fmt: skip
BOTH_ACCEPT = [
    "env: {A: 1, B: 0.5, C: x}", "resources: {gpu: {}}", "resources: {gpu: {memory: 24GB-48GB}}", "attempts: 100",
    "resources: {gpu: {memory: 80GB}, disk: 0.5TiB}", "checkpoint: {size: 512 MiB}", "expect: 1d 12h", "expect: 90s",
    "budget: 12.5 CNY", "progress: none", "when_done: ask", "secrets: []", "scratch: ['tmp/**']", "candidates: [local]",
]  # fmt: skip


@pytest.mark.parametrize("line", BOTH_REFUSE)
def test_what_the_parser_refuses_an_editor_marks(line: str) -> None:
    bad(SMALL + line)
    assert not admits(json_schema(), yaml.safe_load(SMALL + line))


@pytest.mark.parametrize("line", ["", *BOTH_ACCEPT])
def test_what_the_parser_accepts_an_editor_does_not_mark(line: str) -> None:
    parse_text(SMALL + line, "x")
    assert admits(json_schema(), yaml.safe_load(SMALL + line))
    assert admits(json_schema(), yaml.safe_load(WHOLE))


def test_the_schema_is_sound_where_a_validator_is_installed() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is no dependency of ours")
    jsonschema.Draft202012Validator.check_schema(json_schema())


# ---------------------------------------------------------------- anything at all

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("abn:*&!?-[]{}>|'\"#% \n\t0159.,_~@<=/")), max_size=60))
@example("name: &x !!binary ====\n")
@example("name: 1:99:99.9\nrun: 0o7")
def test_any_text_parses_or_is_a_user_error(text: str) -> None:
    _parses_or_complains(SMALL + text)
    _parses_or_complains(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([word.name for word in WORDS]), _ANY)
def test_any_value_of_any_key_parses_or_is_a_user_error(key: str, value: Any) -> None:
    whole = {**yaml.safe_load(SMALL), key: value}
    _parses_or_complains(yaml.safe_dump(whole, allow_unicode=True))


def _parses_or_complains(text: str) -> None:
    try:
        job = parse_text(text, "lease.yaml")
    except UserError as error:
        assert error.message.startswith("lease.yaml")
        return
    assert digest(job.as_dict())


def test_what_a_reader_may_use_is_set_by_the_job_and_keeps_older_plans() -> None:
    head = "name: toy\nrun: python t.py\nartifacts:\n"
    plain = parse_text(head + "  best.pt: torch\n", "x")
    roomy = parse_text(head + "  best.pt: {loads: torch, read_memory: 4GiB, read_time: 10m}\n", "x")
    assert (roomy.artifacts[0].read_memory_bytes, roomy.artifacts[0].read_s) == (4 << 30, 600.0)
    assert job_from_dict(json.loads(json.dumps(roomy.as_dict()))) == roomy
    assert set(plain.as_dict()["artifacts"][0]) == {"pattern", "loads", "keys", "allow_opaque"}


def test_a_job_may_demand_that_a_reader_reads_an_artifact() -> None:
    text = "name: toy\nrun: x\nartifacts:\n  {}: {{must_be_read: true}}\n"
    assert parse_text(text.format("t.zip"), "lease.yaml").artifacts == (Artifact("t.zip", "zip"),)
    with pytest.raises(UserError, match="no reader would read it"):
        parse_text(text.format("model.pt2"), "lease.yaml")
