"""Files that frameworks write by themselves: Hugging Face's Trainer, Lightning, Keras callbacks, accelerate, orbax."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .facts import Base, Kind, Output
from .paths import PathReader, Target
from .source import argument, text_of

_LIGHTNING = ("lightning", "pytorch_lightning")
_HF_ARGUMENTS = (
    "TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "RewardConfig",
    "ORPOConfig", "KTOConfig", "HfArgumentParser", "TrlParser",
)  # fmt: skip
_HF_TRAINERS = ("Trainer", "Seq2SeqTrainer", "SFTTrainer", "DPOTrainer", "GRPOTrainer", "RewardTrainer")


def find_trainer_outputs(reader: PathReader) -> list[Output]:
    """List what the frameworks that one file sets up will write."""
    found = [*_hugging_face(reader), *_lightning(reader), *_folders(reader)]
    unique = {(output.base, output.flag, output.pattern): output for output in reversed(found)}
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
    if "save_model" in called:
        yield "save_model()", "*.safetensors", "safetensors", Kind.CHECKPOINT
    if "save_metrics" in called:
        yield "save_metrics()", "all_results.json", "json", Kind.METRICS


def _lightning(reader: PathReader) -> Iterator[Output]:
    for call, name in reader.source.calls():
        if _last(name) == "ModelCheckpoint":
            yield from _lightning_checkpoint(reader, call) if _of_lightning(name) else _keras_checkpoint(reader, call)
        elif _last(name) == "CSVLogger" and _of_lightning(name):
            version = text_of(argument(call, 2, "version")) or "**"
            target = reader.folder(argument(call, 0, "save_dir"), f"{version}/metrics.csv")
            yield _made(reader, call, target, "CSVLogger", "csv")


def _lightning_checkpoint(reader: PathReader, call: ast.Call) -> Iterator[Output]:
    folder = argument(call, 0, "dirpath")
    file = argument(call, 1, "filename")
    inside = (reader.literal(file) or "*") + ".ckpt"
    place = reader.folder(folder, f"**/checkpoints/{inside}" if folder is None else inside)
    yield _made(reader, call, place, "ModelCheckpoint", "torch")
    last = argument(call, -1, "save_last")
    if isinstance(last, ast.Constant) and last.value is True:
        beside = reader.folder(folder, "last.ckpt")
        yield _made(reader, call, beside, "ModelCheckpoint(save_last=True)", "torch")


def _keras_checkpoint(reader: PathReader, call: ast.Call) -> Iterator[Output]:
    yield _made(reader, call, reader.target(argument(call, 0, "filepath")), "ModelCheckpoint", "bytes")


def _folders(reader: PathReader) -> Iterator[Output]:
    """Calls that fill a folder: its every file is promised."""
    for call, name in reader.source.calls():
        match _last(name):
            case "save_pretrained":
                target = reader.folder(argument(call, 0, "save_directory"), "*.safetensors")
                yield _made(reader, call, target, "save_pretrained()", "safetensors")
            case "save_state" if "ccelerat" in name:
                target = _all_below(reader, argument(call, 0, "output_dir"))
                yield _made(reader, call, target, "save_state()", "bytes")
            case "CheckpointManager" if "orbax" in name or "ocp" in name:
                target = _all_below(reader, argument(call, 0, "directory"))
                yield _made(reader, call, target, "CheckpointManager", "bytes")
            case _:
                pass


def _all_below(reader: PathReader, node: ast.expr | None) -> Target:
    folder = reader.target(node)
    if folder.pattern:
        return Target(folder.base, f"{folder.pattern}/**", folder.flag)
    return Target(folder.base, "**" if folder.base in (Base.OUT, Base.FLAG) else "", folder.flag)


def _made(reader: PathReader, call: ast.Call, target: Target, said: str, loads: str) -> Output:
    kind = Kind.METRICS if loads == "csv" else Kind.CHECKPOINT
    opaque = loads == "torch"  # Lightning's checkpoints hold hyper-parameters and callback states
    where = reader.source.at(call)
    return Output(target.pattern, loads, kind, target.base, where, said, target.flag, opaque=opaque)


def _of_lightning(name: str) -> bool:
    return name.partition(".")[0] in _LIGHTNING


def _last(name: str) -> str:
    return name.rpartition(".")[2]
