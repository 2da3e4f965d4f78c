"""Command-line options of a script: argparse, click, typer, fire, absl, dataclass parsers and Lightning's CLI."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping

from leasehold.lifecycle.init.text.project_facts import Flag, Role, Style
from leasehold.lifecycle.init.text.source import Source, argument, parameters, plain_value, text_of

from .flag_roles import role_of

_OPTION = re.compile(r"--?[A-Za-z][\w.-]*\Z")
_SWITCHES = ("store_true", "store_false", "store_const", "count")
_ABSL = re.compile(r"(?:.*\.)?(?:flags\.)?DEFINE_(?:integer|string|float|bool|boolean|enum|list)\Z")
_DATACLASS_PACKAGES = ("tyro", "simple_parsing", "pyrallis", "draccus", "jsonargparse")
_HF_ARGUMENTS = re.compile(r"(?:\w*TrainingArguments|(?:SFT|DPO|PPO|GRPO|KTO|ORPO|Reward)Config)\Z")
_HF_FLAGS = (
    "--output_dir", "--max_steps", "--num_train_epochs", "--per_device_train_batch_size", "--save_steps", "--seed",
    "--resume_from_checkpoint", "--dataloader_num_workers",
)  # fmt: skip
_LIGHTNING_FLAGS = (
    "--trainer.default_root_dir", "--trainer.max_steps", "--trainer.max_epochs", "--trainer.limit_train_batches",
    "--trainer.limit_val_batches", "--trainer.accelerator", "--ckpt_path",
)  # fmt: skip


def find_flags(source: Source, sources: Mapping[str, Source]) -> list[Flag]:
    """List the options that this file's command line takes, in source order."""
    found = [
        *_from_calls(source),
        *_from_functions(source),
        *_from_dataclasses(source, sources),
        *_from_configurator(source),
    ]
    unique: dict[str, Flag] = {}
    for flag in found:
        unique.setdefault(flag.name, flag)
    return list(unique.values())


def hydra_folder(source: Source) -> str | None:
    """Return the folder from which @hydra.main reads its configs, below the project; None when it is not used."""
    for call, name in source.calls():
        if name == "hydra.main":
            beside = text_of(argument(call, 0, "config_path")) or "conf"
            return posixpath.normpath(posixpath.join(posixpath.dirname(source.path), beside))
    return None


def hydra_config(source: Source) -> str:
    """Return the name of @hydra.main's primary config."""
    for call, name in source.calls():
        if name == "hydra.main":
            return text_of(argument(call, 1, "config_name"))
    return ""


def _from_calls(source: Source) -> Iterator[Flag]:
    for call, name in source.calls():
        last = name.rpartition(".")[2]
        if last == "add_argument" or name == "click.option":
            yield from _declared(source, call)
        elif name == "click.argument":
            word = text_of(argument(call, 0))
            yield Flag(word or "ARGUMENT", role_of(word), source.at(call), Style.POSITION, required=True)
        elif _ABSL.match(name) and _OPTION.match("--" + text_of(argument(call, 0))):
            word = "--" + text_of(argument(call, 0))
            switch = name.endswith(("bool", "boolean"))
            style = Style.SWITCH if switch else Style.JOINED
            yield Flag(word, role_of(word), source.at(call), style, plain_value(argument(call, 1, "default")))
        elif last == "LightningCLI":
            for word in _LIGHTNING_FLAGS:
                yield Flag(word, role_of(word), source.at(call))


def _declared(source: Source, call: ast.Call) -> Iterator[Flag]:
    words = [text_of(arg) for arg in call.args]
    options = [word for word in words if _OPTION.match(word)]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    required = isinstance(keywords.get("required"), ast.Constant) and bool(getattr(keywords["required"], "value", 0))
    if options:
        name = max(options, key=len)
        action = text_of(keywords.get("action"))
        style = Style.SWITCH if action in _SWITCHES or "is_flag" in keywords else Style.OPTION
        default = "True" if action == "store_false" else plain_value(keywords.get("default"))
        yield Flag(name, role_of(name), source.at(call), style, default, required)
    elif words and re.match(r"[A-Za-z]\w*\Z", words[0]):
        free = text_of(keywords.get("nargs")) in ("?", "*") or "default" in keywords
        yield Flag(words[0], role_of(words[0]), source.at(call), Style.POSITION, required=not free)


def _from_functions(source: Source) -> Iterator[Flag]:
    """Read a function's parameters as flags, as fire.Fire(main) and typer do."""
    for function, dashed in _commands(source):
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                for name, default in parameters(node):
                    yield _parameter(source, node, name, default, dashed)


def _commands(source: Source) -> Iterator[tuple[str, bool]]:
    for call, name in source.calls():
        first = argument(call, 0, "component", "function")
        if name in ("fire.Fire", "typer.run") and isinstance(first, ast.Name):
            yield first.id, name == "typer.run"
    if not any(module.partition(".")[0] == "typer" for module, _ in source.modules):
        return
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if source.dotted(called).endswith(".command"):
                    yield node.name, True


def _parameter(source: Source, node: ast.FunctionDef, name: str, default: ast.expr | None, dashed: bool) -> Flag:
    if isinstance(default, ast.Call):  # typer.Option(5, ...)
        default = argument(default, 0, "default")
    switch = isinstance(default, ast.Constant) and isinstance(default.value, bool)
    word = "--" + (name.replace("_", "-") if dashed else name)
    style = Style.SWITCH if switch else Style.OPTION
    where = source.at(node)
    return Flag(word, role_of(word), where, style, plain_value(default), required=default is None)


def _from_dataclasses(source: Source, sources: Mapping[str, Source]) -> Iterator[Flag]:
    """Read parsers over dataclasses: each field of each class named in the call is a flag."""
    for call, name in source.calls():
        head, _, last = name.rpartition(".")
        general = head.partition(".")[0] in _DATACLASS_PACKAGES and last in ("parse", "cli", "ArgumentParser", "wrap")
        if not general and last not in ("HfArgumentParser", "TrlParser", "H4ArgumentParser"):
            continue
        for node in ast.walk(call):
            if not isinstance(node, ast.Name | ast.Attribute) or node is call.func:
                continue
            word = source.dotted(node).rpartition(".")[2]
            if _HF_ARGUMENTS.match(word):
                for flag in _HF_FLAGS:
                    yield Flag(flag, role_of(flag), source.at(call), default="500" if flag == "--save_steps" else "")
            yield from _fields(word, source, sources)


def _fields(class_name: str, near: Source, sources: Mapping[str, Source]) -> Iterator[Flag]:
    """Yield the fields of a class: this file's own class of that name, else the first one found."""
    for source in (near, *sources.values()):
        for node in source.nodes:
            if isinstance(node, ast.ClassDef) and node.name == class_name:
                for item in node.body:
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                        yield _field(source, item, item.target.id)
                return


def _field(source: Source, item: ast.AnnAssign, name: str) -> Flag:
    value = item.value
    if isinstance(value, ast.Call):  # field(default=..., metadata=...)
        value = argument(value, -1, "default", "default_factory")
    switch = isinstance(value, ast.Constant) and isinstance(value.value, bool)
    style = Style.SWITCH if switch else Style.OPTION
    word = f"--{name}"
    return Flag(word, role_of(word), source.at(item), style, plain_value(value), required=item.value is None)


def _from_configurator(source: Source) -> Iterator[Flag]:
    """Read module-level constants that an executed configurator script lets --name=value replace."""
    executes = any(name == "exec" and "configurator" in ast.dump(call)[:2000] for call, name in source.calls())
    if not executes:
        return
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            word = "--" + getattr(node.targets[0], "id", "")
            if role_of(word) is not Role.OTHER:
                yield Flag(word, role_of(word), source.at(node), Style.JOINED, plain_value(node.value))
