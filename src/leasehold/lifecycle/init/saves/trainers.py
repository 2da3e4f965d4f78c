"""Files that frameworks write themselves: Hugging Face's Trainer, Lightning, Keras callbacks, accelerate, orbax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from leasehold.lifecycle.init.text.path_patterns import PathReader, Target
from leasehold.lifecycle.init.text.project_facts import Base, Kind, Output
from leasehold.lifecycle.init.text.source import argument, text_of

_LIGHTNING = ("lightning", "pytorch_lightning")
_HF_ARGUMENTS = (
    "TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "RewardConfig",
    "ORPOConfig", "KTOConfig", "HfArgumentParser", "TrlParser",
)  # fmt: skip
_HF_TRAINERS = ("Trainer", "Seq2SeqTrainer", "SFTTrainer", "DPOTrainer", "GRPOTrainer", "RewardTrainer")


def find_trainer_outputs(reader: PathReader) -> list[Output]:
    """List what the frameworks set up in one file will write."""
    unique: dict[tuple[Base, str, str], Output] = {}
    for output in (*_hugging_face(reader), *_lightning(reader), *_folders(reader)):
        unique.setdefault((output.base, output.flag, output.pattern), output)
    return sorted(unique.values(), key=lambda output: output.where.line)


def _hugging_face(reader: PathReader) -> Iterator[Output]:
    arguments = [(call, name) for call, name in reader.source.calls() if _last(name) in _HF_ARGUMENTS]
    trainers = [call for call, name in reader.source.calls() if _last(name) in _HF_TRAINERS and not _of_lightning(name)]
    if not arguments or not trainers:
        return
    call, name = arguments[0]
    node = argument(call, 0, "output_dir") if "Parser" not in name else None
    for said, inside, loads, kind in _hf_files(reader):
        target = reader.folder(node, inside) if node is not None else Target(Base.FLAG, inside, "output_dir")
        where = reader.source.at(call)
        yield Output(target.pattern, loads, kind, target.base, where, said, target.flag)


def _hf_files(reader: PathReader) -> Iterator[tuple[str, str, str, Kind]]:
    yield "Trainer", "checkpoint-*/trainer_state.json", "json", Kind.METRICS
    yield "Trainer", "checkpoint-*/*.safetensors", "safetensors", Kind.CHECKPOINT
    called = {_last(name) for _, name in reader.source.calls()}
    whole = "" if "save_model" in called else "checkpoint-*/"
    if not whole:
        yield "save_model()", "*.safetensors", "safetensors", Kind.CHECKPOINT
    adapted = any(module.partition(".")[0] == "peft" for module, _ in reader.source.modules)
    said = "what from_pretrained() needs beside the weights"
    yield said, whole + ("adapter_config.json" if adapted else "config.json"), "json", Kind.METRICS
    given = {word.arg for call, name in reader.source.calls() if _last(name) in _HF_TRAINERS for word in call.keywords}
    if given & {"processing_class", "tokenizer"}:
        yield said, whole + "tokenizer_config.json", "json", Kind.METRICS
        yield said, whole + "tokenizer*", "bytes", Kind.METRICS
    if "save_metrics" in called:
        yield "save_metrics()", "all_results.json", "json", Kind.METRICS
        yield "save_metrics()", "*_results.json", "json", Kind.METRICS
    if "save_state" in called:
        yield "save_state()", "trainer_state.json", "json", Kind.METRICS
    if "save_model" in called:
        yield "save_model()", "training_args.bin", "bytes", Kind.METRICS
    yield "optimizer, scheduler and random state", "checkpoint-*/**", "bytes", Kind.CHECKPOINT


def _lightning(reader: PathReader) -> Iterator[Output]:
    named = {_last(name) for _, name in reader.source.calls() if _of_lightning(name)}
    for call, name in reader.source.calls():
        if _last(name) in ("Trainer", "LightningCLI") and _of_lightning(name):
            yield from _lightning_defaults(reader, call, named)
        if _last(name) == "ModelCheckpoint":
            yield from _lightning_checkpoint(reader, call) if _of_lightning(name) else _keras_checkpoint(reader, call)
        elif _last(name) == "CSVLogger" and _of_lightning(name):
            version = text_of(argument(call, 2, "version")) or "**"
            target = reader.folder(argument(call, 0, "save_dir"), f"{version}/metrics.csv")
            yield _made(reader, call, target, "CSVLogger", "csv")
            beside = reader.folder(argument(call, 0, "save_dir"), "**/version_*/*")
            if version == "**":
                yield replace(_made(reader, call, beside, "CSVLogger's folder", "bytes"), kind=Kind.METRICS)


def _lightning_defaults(reader: PathReader, call: ast.Call, named: set[str]) -> Iterator[Output]:
    """Return what a trainer writes by default: a checkpoint each epoch, and a logger's files."""
    node = argument(call, -1, "default_root_dir")
    given = {word.arg: word.value for word in call.keywords}

    def off(name: str) -> bool:
        return getattr(given.get(name), "value", None) is False

    def place(inside: str) -> Target:
        if _last(reader.source.dotted(call.func)) == "LightningCLI":
            return Target(Base.FLAG, inside, "default_root_dir")
        return reader.folder(node, inside) if node is not None else Target(Base.HERE, inside)

    if "ModelCheckpoint" not in named and not off("enable_checkpointing") and "logger" not in given:
        target = place("lightning_logs/version_*/checkpoints/*.ckpt")
        yield _made(reader, call, target, "Lightning's own checkpoints", "torch")
    if "logger" not in given:
        target = place("lightning_logs/version_*/*")
        yield replace(_made(reader, call, target, "Lightning's own log", "bytes"), kind=Kind.METRICS)


def _lightning_checkpoint(reader: PathReader, call: ast.Call) -> Iterator[Output]:
    folder = argument(call, 0, "dirpath")
    file = argument(call, 1, "filename")
    inside = (reader.literal(file) or "*") + ".ckpt"
    below = ""
    if folder is None:
        folder, below = _logged_to(reader)
    place = reader.folder(folder, below + inside)
    yield _made(reader, call, place, "ModelCheckpoint", "torch")
    last = argument(call, -1, "save_last")
    if isinstance(last, ast.Constant) and last.value is True:
        beside = reader.folder(folder, f"{below}last.ckpt")
        yield _made(reader, call, beside, "ModelCheckpoint(save_last=True)", "torch")


def _logged_to(reader: PathReader) -> tuple[ast.expr | None, str]:
    """Return where ModelCheckpoint saves without its own folder: below the logger's, else below the trainer's."""
    for call, name in reader.source.calls():
        if _of_lightning(name) and _last(name) in ("CSVLogger", "TensorBoardLogger"):
            named, version = argument(call, 1, "name"), argument(call, 2, "version")
            word = "lightning_logs" if named is None else reader.literal(named)
            below = f"{word}/version_*/checkpoints/" if word and version is None else "**/checkpoints/"
            return argument(call, 0, "save_dir"), below
    for call, name in reader.source.calls():
        node = argument(call, -1, "default_root_dir") if _last(name) == "Trainer" and _of_lightning(name) else None
        if node is not None:
            return node, "**/checkpoints/"
    return None, "**/checkpoints/"


def _keras_checkpoint(reader: PathReader, call: ast.Call) -> Iterator[Output]:
    yield _made(reader, call, reader.target(argument(call, 0, "filepath")), "ModelCheckpoint", "bytes")


def _folders(reader: PathReader) -> Iterator[Output]:
    """Yield the outputs of calls that fill a folder: every file in it is promised."""
    for call, name in reader.source.calls():
        match _last(name):
            case "save_pretrained":
                yield from _pretrained(reader, call, name)
            case "save_model" if "ccelerat" in name:
                target = reader.folder(argument(call, 1, "save_directory"), "*.safetensors")
                yield _made(reader, call, target, "save_model()", "safetensors")
            case "save_state" if "ccelerat" in name:
                target = _all_below(reader, argument(call, 0, "output_dir"))
                yield _made(reader, call, target, "save_state()", "bytes")
            case "CheckpointManager" if "orbax" in name or "ocp" in name:
                target = _all_below(reader, argument(call, 0, "directory"))
                yield _made(reader, call, target, "CheckpointManager", "bytes")
            case _:
                pass


def _pretrained(reader: PathReader, call: ast.Call, name: str) -> Iterator[Output]:
    """Yield what from_pretrained() reads: a model's weights and config, or a tokenizer's files."""
    node, said = argument(call, 0, "save_directory"), "save_pretrained()"
    if any(word in name.lower() for word in ("tokenizer", "processor")):
        beside = "tokenizer_config.json" if "tokenizer" in name.lower() else "*processor*.json"
    else:
        yield _made(reader, call, reader.folder(node, "*.safetensors"), said, "safetensors")
        adapted = any(module.partition(".")[0] == "peft" for module, _ in reader.source.modules)
        beside = "adapter_config.json" if adapted else "config.json"
    yield replace(_made(reader, call, reader.folder(node, beside), said, "json"), kind=Kind.METRICS)


def _all_below(reader: PathReader, node: ast.expr | None) -> Target:
    folder = reader.target(node)
    if folder.pattern:
        return Target(folder.base, f"{folder.pattern}/**", folder.flag)
    return Target(folder.base, "**" if folder.base in (Base.OUT, Base.FLAG) else "", folder.flag)


def _made(reader: PathReader, call: ast.Call, target: Target, said: str, loads: str) -> Output:
    kind = Kind.METRICS if loads == "csv" else Kind.CHECKPOINT
    opaque = loads == "torch"  # Lightning's checkpoints contain hyper-parameters and callback states
    where = reader.source.at(call)
    return Output(target.pattern, loads, kind, target.base, where, said, target.flag, opaque=opaque)


def _of_lightning(name: str) -> bool:
    return name.partition(".")[0] in _LIGHTNING


def _last(name: str) -> str:
    return name.rpartition(".")[2]
