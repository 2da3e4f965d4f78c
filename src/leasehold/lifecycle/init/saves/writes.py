"""Files that the code writes: the calls, the pattern of their names, and how they would load."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from leasehold.kit.tables.file_endings import guess_kind
from leasehold.lifecycle.init.text.path_patterns import PathReader, Target
from leasehold.lifecycle.init.text.project_facts import Base, Kind, Output
from leasehold.lifecycle.init.text.source import argument, text_of

from .renames import settle
from .saved import kind_of, what_is_saved
from .wrappers import NO_WRAPPERS, Wrapper, calls_of


@dataclass(frozen=True)
class _Writer:
    """A call that writes: its path argument, the kind of file, and what the call appends to the name."""

    position: int
    names: tuple[str, ...]
    loads: str
    kind: Kind = Kind.CHECKPOINT
    suffix: str = ""


_BY_NAME = {
    "torch.save": _Writer(1, ("f",), "torch"),
    "numpy.save": _Writer(0, ("file",), "npy", Kind.METRICS, ".npy"),
    "numpy.savez": _Writer(0, ("file",), "npz", Kind.METRICS, ".npz"),
    "numpy.savez_compressed": _Writer(0, ("file",), "npz", Kind.METRICS, ".npz"),
    "numpy.savetxt": _Writer(0, ("fname",), "", Kind.METRICS),
    "safetensors.torch.save_file": _Writer(1, ("filename",), "safetensors"),
    "safetensors.torch.save_model": _Writer(1, ("filename",), "safetensors"),
    "safetensors.numpy.save_file": _Writer(1, ("filename",), "safetensors"),
    "safetensors.flax.save_file": _Writer(1, ("filename",), "safetensors"),
    "json.dump": _Writer(1, ("fp",), "json", Kind.METRICS),
    "pickle.dump": _Writer(1, ("file",), "bytes"),
    "joblib.dump": _Writer(1, ("filename",), "bytes"),
    "csv.writer": _Writer(0, (), "csv", Kind.METRICS),
    "csv.DictWriter": _Writer(0, ("f",), "csv", Kind.METRICS),
    "jsonlines.Writer": _Writer(0, ("fp",), "jsonl", Kind.METRICS),
    "jsonlines.open": _Writer(0, ("file",), "jsonl", Kind.METRICS),
    "shutil.copyfile": _Writer(1, ("dst",), "", Kind.COPY),
    "shutil.copy": _Writer(1, ("dst",), "", Kind.COPY),
    "shutil.copy2": _Writer(1, ("dst",), "", Kind.COPY),
    "keras.callbacks.CSVLogger": _Writer(0, ("filename",), "csv", Kind.METRICS),
}  # fmt: skip
_BY_METHOD = {
    "to_csv": _Writer(0, ("path_or_buf",), "csv", Kind.METRICS),
    "to_json": _Writer(0, ("path_or_buf",), "", Kind.METRICS),
    "to_parquet": _Writer(0, ("path",), "bytes", Kind.METRICS),
    "savefig": _Writer(0, ("fname",), "bytes", Kind.OTHER),
    "save_checkpoint": _Writer(0, ("filepath", "filename"), "torch"),
    "save_weights": _Writer(0, ("filepath",), "bytes"),
    "save": _Writer(0, ("filepath", "path"), "bytes"),
}
_NEEDS_A_SUFFIX = ("save", "save_checkpoint", "save_weights")
_WRITE_MODES = ("w", "a", "x")


def find_outputs(reader: PathReader, wrappers: Mapping[str, Wrapper] = NO_WRAPPERS) -> list[Output]:
    """List what one file writes, in source order, each pattern once."""
    found: dict[tuple[str, str, str], Output] = {}
    asked = reader.source.conditions()
    through = {id(call): wrapper for call, wrapper in calls_of(wrappers, reader.source)}
    by_callers = {wrapper.inside for wrapper in through.values()}
    for call, name in reader.source.calls():
        if reader.source.at(call) in by_callers:
            continue  # otherwise it would represent its caller under the same name
        wrapper = through.get(id(call))
        written = _wrapped(reader, call, wrapper) if wrapper else _known_call(reader, call, name)
        for output in (*written, *_plain_write(reader, call)):
            needing = replace(output, needs=asked.get(id(call), ()))
            found.setdefault((output.base.name, output.flag, output.pattern), needing)
    return settle(sorted(found.values(), key=lambda output: output.where.line), reader)


def _wrapped(reader: PathReader, call: ast.Call, wrapper: Wrapper) -> Iterator[Output]:
    """Read a call of the project's own save function."""
    node, for_writing = _behind_handle(reader, wrapper.path(call))
    if for_writing:
        output = _output(reader, call, reader.target(node), _BY_NAME["torch.save"], f"{wrapper.name}()")
        keys, opaque = what_is_saved(reader.source, wrapper.saved(call))
        yield replace(output, keys=keys, opaque=opaque)


def _known_call(reader: PathReader, call: ast.Call, name: str) -> Iterator[Output]:
    last = name.rpartition(".")[2]
    writer = _BY_NAME.get(name.removeprefix("tensorflow."))
    if writer is None and isinstance(call.func, ast.Attribute):
        writer = _BY_METHOD.get(last)
    if writer is None or (name == "jsonlines.open" and not _opens_for_writing(call)):
        return
    node, for_writing = _behind_handle(reader, argument(call, writer.position, *writer.names))
    if not for_writing or (name.startswith(("csv.", "json.", "pickle.")) and node is None):
        return
    target = reader.target(node, writer.suffix)
    if writer is _BY_METHOD.get(last) and last in _NEEDS_A_SUFFIX and not _has_suffix(target):
        return
    output = _output(reader, call, target, writer, f"{last if '?' in name else name}()")
    keys, opaque = (
        what_is_saved(reader.source, argument(call, 0, "obj"))
        if name == "torch.save"
        else ((), last == "save_checkpoint")
    )
    yield replace(output, keys=keys, opaque=opaque)


def _output(reader: PathReader, call: ast.Call, target: Target, writer: _Writer, said: str) -> Output:
    guessed = guess_kind(target.pattern) if target.pattern else "bytes"
    loads = guessed if writer.loads in ("", "json", "bytes") and guessed != "bytes" else writer.loads or guessed
    if loads == "torch" and guessed == "safetensors":
        loads = guessed
    kind = kind_of(target.pattern, loads, writer.kind)
    return Output(target.pattern, loads, kind, target.base, reader.source.at(call), said, target.flag)


def _plain_write(reader: PathReader, call: ast.Call) -> Iterator[Output]:
    """Read handle.write(...) and Path.write_text(...), where the suffix shows a table or JSON."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("write", "write_text", "writelines"):
        return
    if call.func.attr == "write_text":
        target = reader.target(call.func.value)
    else:
        node, for_writing = _behind_handle(reader, call.func.value)
        if not for_writing or node is call.func.value:
            return
        target = reader.target(node)
    if target.pattern and guess_kind(target.pattern) in ("json", "jsonl", "csv"):
        writer = _Writer(0, (), "", Kind.METRICS)
        yield _output(reader, call, target, writer, f"{call.func.attr}()")


def _behind_handle(reader: PathReader, node: ast.expr | None) -> tuple[ast.expr | None, bool]:
    """Follow a file handle to the path it was opened with; also return whether it is open for writing."""
    opened = node
    if isinstance(node, ast.Name):
        found = reader.source.last_assigned(node.id, node.lineno + 1)
        opened = found[1] if found else node
    if not isinstance(opened, ast.Call):
        return node, True
    name = reader.source.dotted(opened.func)
    if name in ("open", "io.open", "gzip.open", "tensorflow.io.gfile.GFile"):
        return argument(opened, 0, "file", "filename", "name"), _opens_for_writing(opened)
    if isinstance(opened.func, ast.Attribute) and opened.func.attr == "open":
        return opened.func.value, text_of(argument(opened, 0, "mode"))[:1] in _WRITE_MODES
    return node, True


def _opens_for_writing(opened: ast.Call) -> bool:
    return text_of(argument(opened, 1, "mode"))[:1] in _WRITE_MODES


def _has_suffix(target: Target) -> bool:
    name = target.pattern.rpartition("/")[2]
    return "." in name and target.base is not Base.ELSEWHERE
