"""The keys of a job file: each with its meaning and its JSON Schema. Parser, schema and docs read this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leasehold.kit.tables.topics import TOPICS, USUAL

LOADERS = (
    "torch", "safetensors", "npy", "npz", "json", "jsonl", "csv", "checkpoint", "tar", "pickle", "joblib", "zip",
    "tar.gz", "yaml", "tfevents", "gguf", "onnx", "parquet", "arrow", "hdf5", "keras", "bytes",
)  # fmt: skip
WHEN_DONE = ("ask", "park")
REBOOT = ("nothing", "resume")
AT_LIMIT = ("warn", "stop")
ON_STALL = ("tell", "again")
ON_NAN = ("tell", "stop")
SETUP_FRAMEWORKS = ("keep", "replace")
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_GLOBS: dict[str, Any] = {"type": "array", "items": _TEXT}
_SIZE: dict[str, Any] = {"type": "string", "pattern": r"^\d+(\.\d+)?\s*([KMGTPkmgtp]i?)?[Bb]$"}
_DURATION: dict[str, Any] = {"type": "string", "pattern": r"^[\d.]+\s*[dhms]"}
_MONEY: dict[str, Any] = {"type": "string", "pattern": r"^\d+(\.\d+)?\s*[A-Za-z]{3}$"}
_FILLED = "{{out}} {{run}} {{cell}} {{attempt}} are filled in"
_FOUND = _FILLED + ", {{resume}} and {{latest: PATTERN}} too"
_LOADS: dict[str, Any] = {"enum": list(LOADERS)}


@dataclass(frozen=True)
class Word:
    """One key of the job file."""

    name: str
    meaning: str
    schema: dict[str, Any]
    required: bool = False
    example: str = ""


ARTIFACT_WORDS = (
    Word("loads", f"how it must load: {', '.join(LOADERS)}; left out, the suffix decides", _LOADS),
    Word("keys", "top-level keys it must hold", {"type": "array", "items": _TEXT}),
    Word("allow_opaque", "the file may hold classes beside tensors and plain data", {"type": "boolean"}),
    Word("read_memory", "what its reader may use; left out, the file's size decides", _SIZE, example="4GiB"),
    Word("read_time", "processor time that its reader may use; left out, the file's size decides", _DURATION),
    Word("must_be_read", "refuse the job if no reader reads these files (`loads: bytes`)", {"type": "boolean"}),
)
GPU_WORDS = (
    Word("name", "part of the card's name", _TEXT, example="A100"),
    Word("count", "how many cards", {"type": "integer", "minimum": 1, "maximum": 64}, example="1"),
    Word(
        "memory",
        "memory of one card: 40GB+ (at least), 24GB-48GB, or 80GB",
        {"type": "string", "pattern": r"^\d+(\.\d+)?\s*[MGTmgt]i?[Bb](\+|\s*-.*)?$"},
        example="40GB+",
    ),
)
RESOURCE_WORDS = (
    Word("gpu", "the cards this needs, as a constraint", {"type": "object"}),
    Word("disk", "free disk this needs beside checkpoints", _SIZE, example="50GB"),
)
CHECKPOINT_WORDS = (
    Word("path", "where checkpoints are written, relative to $LEASE_OUT", _TEXT, example="last.pt"),
    Word("size", "how large one is", _SIZE, example="3GB"),
    Word("write_time", "how long one takes to write", _DURATION, example="30s"),
    Word("step_time", "how long one training step takes", _DURATION, example="2s"),
    Word(
        "refuge",
        "where each new one is copied while training goes on, in this order: durable (the platform's durable tier; the "
        "default where there is one), s3://bucket/prefix, home; or none",
        {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]},
        example="[durable, s3://my-bucket/runs]",
    ),
    Word("every", "copy no more often than this; left out: 10m", _DURATION, example="10m"),
    Word("rate", "copy no faster than so many bytes a second", _SIZE, example="50MB"),
    Word(
        "keep", "how many of the newest stay in a refuge; left out: 2", {"type": "integer", "minimum": 1}, example="2"
    ),
    Word(
        "best",
        "the best by a metric stays in a refuge too: {metric, mode}, mode min or max",
        {
            "anyOf": [
                _TEXT,
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["metric"],
                    "properties": {"metric": _TEXT, "mode": {"enum": ["min", "max"]}},
                },
            ]
        },
        example="{metric: val_loss, mode: min}",
    ),
    Word(
        "because",
        "why this job writes no checkpoint, or none that leaves the box, though it runs for long or may be taken away",
        _TEXT,
        example="repeating it is cheap",
    ),
)
BUDGET_WORDS = (
    Word("limit", "what it may cost", _MONEY, required=True, example="20USD"),
    Word(
        "at_limit",
        "warn (default), or stop: end the run as `lease stop` does; the box is never touched",
        {"enum": list(AT_LIMIT)},
        example="stop",
    ),
)
NOTIFY_WORDS = (
    Word(
        "on",
        f"topics to notify you of: {', '.join(TOPICS)}; if omitted: {', '.join(USUAL)}",
        {"type": "array", "items": {"enum": list(TOPICS)}},
        example="[ended, failed, budget]",
    ),
    Word("channels", "names from `lease notify list`; if omitted: all", _GLOBS, example="[phone]"),
)
STALL_WORDS = (
    Word("after", "how long without a line or a file, the card and the processor idle; or off", {}, example="45m"),
    Word(
        "then",
        "tell (default), or again: end it and start the identical command again",
        {"enum": list(ON_STALL)},
        example="again",
    ),
)
RESUME_WORDS = (
    Word(
        "when",
        "a pattern below $LEASE_OUT: the newest whole checkpoint it names is looked for before each attempt",
        _TEXT,
        required=True,
        example="checkpoint-*",
    ),
    Word(
        "flags",
        "the value of `{{resume}}` in `run` if a checkpoint exists; {{latest}} is its path. Otherwise it is empty",
        _TEXT,
        required=True,
        example="--resume_from_checkpoint {{latest}}",
    ),
)
DOWNLOAD_WORDS = (
    Word(
        "from",
        "https://… (or a list, all of the same file), s3://bucket/key or s3://bucket/folder/, "
        "hf:org/name[@revision][:files], hf-dataset:… or modelscope:…",
        {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]},
        True,
        "hf:openai-community/gpt2:*.safetensors",
    ),
    Word("to", "its place below $LEASE_DATA: a file for an address, a folder for a repository", _TEXT, True, "gpt2"),
    Word("sha256", "what one file must hash to", {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}),
    Word("size", "how long one file must be, in bytes", {"type": "integer", "minimum": 1}, example="548105171"),
)
DATA_WORDS = (
    Word("from", "a file or folder on this machine: in the project, or anywhere", _TEXT, True, "~/datasets/coco"),
    Word("to", "its place in the run's working folder; left out: the same as in the project", _TEXT, example="coco"),
)
CELL_WORDS = (
    Word(
        "grid",
        "parameters and their values; every combination is a cell",
        {"type": "object"},
        example="{lr: [0.1, 0.01]}",
    ),
    Word("zip", "parameters walked side by side", {"type": "object"}, example="{epochs: [5, 9], warmup: [1, 2]}"),
    Word("exclude", "combinations of the grid to leave out", {"type": "array"}, example="[{lr: 0.1, model: big}]"),
    Word("list", "cells one by one, with a name if you like", {"type": "array"}, example="[{name: base, lr: 0.1}]"),
    Word("file", "cells from a file: `config task [epochs]` lines, .csv or .yaml", _TEXT, example="queue.txt"),
    Word("seeds", "every cell once for each seed: how many, or a list", {}, example="3"),
    Word("compare", "the only parameters that may differ (seeds apart); others are refused", _GLOBS, example="[lr]"),
    Word("cost", "the parameter that measures how much work a cell is; long ones start first", _TEXT, example="epochs"),
    Word("at_once", "how many run in parallel at most", {"type": "integer", "minimum": 0}, example="4"),
)
SLURM_WORDS = (
    Word("partition", "where it is queued", _TEXT, example="gpu"),
    Word("account", "whose allocation it uses", _TEXT, example="my-lab"),
    Word("qos", "the quality of service", _TEXT, example="normal"),
    Word("time", "the wall time of one task; it resumes after it", _DURATION, example="8h"),
    Word("cpus", "cores of one task", {"type": "integer", "minimum": 1}, example="8"),
    Word("mem", "memory of one task", _SIZE, example="64GB"),
    Word("constraint", "features that a node must have", _TEXT, example="a100"),
    Word(
        "gres",
        "cards as the site names them; left out, resources.gpu: its count, its name among what sinfo offers",
        _TEXT,
        example="gpu:a100:1",
    ),
    Word("modules", "modules to load before anything starts", _GLOBS, example="[cuda/12.4]"),
    Word(
        "image",
        "an Apptainer or Singularity image in which setup, run and evaluate are run; a path on the cluster or a URI",
        _TEXT,
        example="/scratch/me/torch.sif",
    ),
    Word("image_flags", "further options for apptainer exec", _GLOBS, example="[--bind=/datasets]"),
    Word(
        "after",
        "start only when these have ended well: a job's number, a run or job of Leasehold on this cluster, or "
        "sbatch's own syntax",
        {"anyOf": [_TEXT, {"type": "integer"}, {"type": "array", "minItems": 1}]},
        example="pretrain",
    ),
    Word(
        "chain",
        "submit so many walls ahead, each after the one before; only where the site neither requeues nor lets nodes "
        "submit",
        {"type": "integer", "minimum": 1, "maximum": 50},
        example="3",
    ),
    Word("flags", "further options for sbatch, as you would type them", _GLOBS, example="[--exclude=node7]"),
)
KUBERNETES_WORDS = (
    Word(
        "image",
        "the container image, best by digest; it needs sh and Python 3.8 or newer",
        _TEXT,
        example="pytorch/pytorch@sha256:…",
    ),
    Word("storage", "size of the volume claim that holds the run; left out, resources.disk decides", _SIZE),
    Word("storage_class", "its class; left out, the cluster's default", _TEXT, example="fast-ssd"),
    Word("access", "its access mode; left out, ReadWriteOnce", {"enum": ["ReadWriteOnce", "ReadWriteMany"]}),
    Word("cpu", "cores of the pod, requested and limited", {"type": ["string", "number"]}, example="8"),
    Word("memory", "memory of the pod, requested and limited", _SIZE, example="64GB"),
    Word("shm", "size of /dev/shm, which counts against memory; left out, a quarter of it", _SIZE, example="16GB"),
    Word("ephemeral", "limit of the pod's own file system; above it the pod is evicted", _SIZE, example="20GB"),
    Word("node_selector", "labels that a node must have", {"type": "object"}),
    Word("tolerations", "taints that the pod accepts", {"type": "array"}),
    Word("pull_secrets", "names of the Secrets with which images are pulled", _GLOBS, example="[registry]"),
    Word("service_account", "the pod's service account", _TEXT, example="training"),
    Word("priority_class", "the pod's priority class", _TEXT, example="batch"),
    Word("queue", "Kueue's local queue, by its label", _TEXT, example="team-a"),
    Word("run_as_user", "user id of the container; left out, the image decides", {"type": "integer", "minimum": 0}),
    Word("deadline", "the whole job's time limit (activeDeadlineSeconds)", _DURATION, example="24h"),
)
WORDS = (
    Word("name", "a name for this job; run ids begin with it", _TEXT, required=True, example="resnet-cifar"),
    Word(
        "run",
        "the command, given to sh in a private copy of your code; " + _FOUND,
        _TEXT,
        True,
        "python train.py",
    ),
    Word(
        "setup",
        "run once on the box before the first attempt; " + _FILLED,
        _TEXT,
        example="pip install -r requirements.txt",
    ),
    Word(
        "setup_frameworks",
        "keep the torch that the box's image brings (pins in requirements are left out), or let `setup` replace it",
        {"enum": list(SETUP_FRAMEWORKS)},
        example="keep",
    ),
    Word(
        "smoke",
        "the same in tiny, on this machine's CPU before launch; " + _FOUND,
        _TEXT,
        example="python train.py --steps 3",
    ),
    Word(
        "evaluate",
        "run after `run` exited with 0, in the same folder and environment; a failure fails the cell; " + _FOUND,
        _TEXT,
        example="python eval.py {{out}}/best.pt",
    ),
    Word("resume", "flags for the command when there is a checkpoint to resume from: {when, flags}", {}),
    Word("cells", "a sweep: cells as a list, a grid or a file; a parameter `lr` is {{lr}} and $LEASE_PARAM_lr", {}),
    Word("env", "environment variables; not for secrets", {"type": "object"}, example="{SEED: 1}"),
    Word(
        "secrets",
        "names of variables whose values come from your environment at launch and are never stored at home",
        {"type": "array", "items": _TEXT},
        example="[WANDB_API_KEY]",
    ),
    Word("downloads", "datasets and weights the box fetches before the first attempt, into $LEASE_DATA", {}),
    Word(
        "data",
        "files and folders of this machine that git ignores or that lie elsewhere: uploaded once, read-only there",
        {},
        example="[data/train.bin]",
    ),
    Word("resources", "what the box must have", {"type": "object"}),
    Word(
        "candidates",
        "boxes or platforms that `lease run` without --on tries, in order",
        _GLOBS,
        example="[ssh:gpu1, local]",
    ),
    Word("artifacts", "what must come home, relative to $LEASE_OUT, and how it loads", {}, required=True),
    Word("scratch", "patterns under $LEASE_OUT that may be pruned when the disk fills", _GLOBS, example='["tmp/**"]'),
    Word("checkpoint", "facts about checkpoints, for budgets and cadence", {"type": "object"}),
    Word("progress", "auto, none, or a regex with a named group `step`", _TEXT, example="auto"),
    Word("expect", "how long the run should take; of a sweep, one cell of it", _DURATION, example="6h"),
    Word("budget", "what it may cost: 20USD warns at 50, 80 and 100 %; or {limit, at_limit}", {}, example="20USD"),
    Word("notify", "what your `lease notify` channels report while it runs; false: nothing", {}),
    Word(
        "stall", "when a live trainer counts as stalled: 45m, off, or {after, then}; 30m by default", {}, example="45m"
    ),
    Word(
        "on_nan",
        "when the loss is not finite: tell (default), or stop: end that cell, whose checkpoints stay as they are; a "
        "cell of a list or file may have its own",
        {"enum": list(ON_NAN)},
        example="stop",
    ),
    Word(
        "reboot",
        "nothing, or resume: continue automatically after the box restarts, once you allowed it (lease box reboot)",
        {"enum": list(REBOOT)},
    ),
    Word(
        "publish",
        "a bucket that the box copies finished results to, with the AWS_* keys of `secrets`",
        _TEXT,
        example="s3://my-bucket/results",
    ),
    Word("when_done", "ask, or park the box after receipts where the platform can", {"enum": list(WHEN_DONE)}),
    Word("kubernetes", "what its pod asks for where the platform is a Kubernetes cluster", {"type": "object"}),
    Word("slurm", "how it is submitted where the platform is a Slurm cluster", {"type": "object"}),
    Word(
        "attempts",
        "how many attempts a cell gets until it leaves new work or a person resumes it",
        {"type": "integer", "minimum": 1, "maximum": 100},
    ),
)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema that editors use."""
    artifact = {"anyOf": [{"type": "null"}, _LOADS, _object(ARTIFACT_WORDS)]}
    properties = _properties(WORDS)
    properties["env"] = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    properties["artifacts"] = {
        "anyOf": [
            {"type": "object", "minProperties": 1, "additionalProperties": artifact},
            {"type": "array", "minItems": 1, "items": _TEXT},
        ]
    }
    after = {"anyOf": [_DURATION, {"enum": ["off", False]}]}
    stall = _object(STALL_WORDS)
    stall["properties"]["after"] = {**after, "description": STALL_WORDS[0].meaning}
    properties["stall"] = {"anyOf": [*after["anyOf"], stall]}
    properties["budget"] = {"anyOf": [_MONEY, {**_object(BUDGET_WORDS), "required": ["limit"]}]}
    item = {**_object(DOWNLOAD_WORDS), "required": [word.name for word in DOWNLOAD_WORDS if word.required]}
    properties["downloads"] = {"type": "array", "items": item}
    local = {"anyOf": [_TEXT, {**_object(DATA_WORDS), "required": ["from"]}]}
    properties["data"] = {"anyOf": [*local["anyOf"], {"type": "array", "items": local}]}
    properties["cells"] = {"anyOf": [{"type": "array", "minItems": 1}, _object(CELL_WORDS)]}
    properties["slurm"] = _object(SLURM_WORDS)
    properties["kubernetes"] = _object(KUBERNETES_WORDS)
    properties["resume"] = {**_object(RESUME_WORDS), "required": [word.name for word in RESUME_WORDS]}
    properties["notify"] = {"anyOf": [{"type": "boolean"}, _object(NOTIFY_WORDS)]}
    properties["checkpoint"] = _object(CHECKPOINT_WORDS)
    properties["resources"] = _object(RESOURCE_WORDS)
    properties["resources"]["properties"]["gpu"] = _object(GPU_WORDS)
    for word in WORDS:
        properties[word.name]["description"] = word.meaning
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Leasehold job file",
        "type": "object",
        "additionalProperties": False,
        "required": [word.name for word in WORDS if word.required],
        "properties": properties,
    }


def _object(words: tuple[Word, ...]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": _properties(words)}


def _properties(words: tuple[Word, ...]) -> dict[str, Any]:
    return {word.name: {**word.schema, "description": word.meaning} for word in words}
