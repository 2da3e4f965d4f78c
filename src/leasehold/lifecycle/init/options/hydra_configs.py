"""Hydra's config files: the dotted overrides that set steps, epochs, batch size and the like."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

import yaml

from leasehold.lifecycle.init.text.path_patterns import checked_pattern
from leasehold.lifecycle.init.text.project_facts import Base, Flag, Kind, Output, Role, Style, Where
from leasehold.lifecycle.init.text.project_files import Listing

from .flag_roles import role_of

_TRAINER = re.compile(r"(?:lightning|pytorch_lightning)\.(?:.*\.)?Trainer\Z")
_CSV_LOGGER = re.compile(r"(?:lightning|pytorch_lightning)\.(?:.*\.)?CSVLogger\Z")
_MAX_FILES = 60
_MAX_KEYS = 2_000
_MAX_TEXT = 100_000


def config_flags(listing: Listing, folder: str) -> list[Flag]:
    """List the overrides that the configs below a folder accept; a config's own folder is its group."""
    found: list[Flag] = []
    for path, root in _configs(listing, folder):
        group = path[len(folder) + 1 :].rpartition("/")[0]
        if group and "@package _global_" in (listing.text(path) or "")[:500]:
            continue  # an experiment or a debug mode: its settings are absent unless it is chosen
        found += _keys(root, path, group.replace("/", "."))
    return list({flag.name: flag for flag in reversed(found)}.values())[::-1]


def config_outputs(listing: Listing, folder: str) -> list[Output]:
    """List what the checkpoint callbacks set up by the configs will write below Hydra's own output folder."""
    found = []
    for path, root in _configs(listing, folder):
        for node, line in _mappings(root):
            values = {
                str(key.value): str(value.value) for key, value in node.value if isinstance(value, yaml.ScalarNode)
            }
            below = re.match(r"\$\{[\w.]*output_dir\}/?([\w/.-]*)\Z", values.get("dirpath", ""))
            if not below:
                continue
            name = re.sub(r"\{[^{}]*\}", "*", values.get("filename", "*")).replace("null", "*") or "*"
            names = [f"{name}.ckpt", *(["last.ckpt"] if values.get("save_last", "").lower() == "true" else [])]
            for file in names:
                pattern = checked_pattern(posixpath.join(below[1], file))
                where = Where(path, line)
                found.append(
                    Output(
                        pattern,
                        "torch",
                        Kind.CHECKPOINT,
                        Base.FLAG,
                        where,
                        "checkpoint callback",
                        "output_dir",
                        opaque=True,
                    )
                )
    return found


def logger_outputs(listing: Listing, folder: str, name: str) -> list[Output]:
    """Return the table of a CSVLogger below Hydra's own folder, where the primary config's defaults choose one."""
    roots = dict(_configs(listing, folder))
    chosen = list(_chosen(roots, f"{folder}/{name}"))
    found = []
    for path in chosen:
        for node, line in _mappings(roots[path]):
            values = {
                str(key.value): str(value.value) for key, value in node.value if isinstance(value, yaml.ScalarNode)
            }
            below = re.match(r"\$\{[\w.]*output_dir\}/?([\w/.-]*)\Z", values.get("save_dir", ""))
            if below and _CSV_LOGGER.match(values.get("_target_", "")):
                pattern = checked_pattern(posixpath.join(below[1], "**", "metrics.csv"))
                said = (Base.FLAG, Where(path, line), "CSVLogger", "output_dir")
                found.append(Output(pattern, "csv", Kind.METRICS, *said))
                if "version" not in values:
                    beside = checked_pattern(posixpath.join(below[1], "**", "version_*", "*"))
                    found.append(Output(beside, "bytes", Kind.METRICS, *said))
    return found


def _chosen(roots: Mapping[str, yaml.Node], primary: str) -> Iterator[str]:
    """Return the primary config and those in its defaults list, with groups as written there."""
    stem = primary.removesuffix(".yaml")
    first = next((path for path in (f"{stem}.yaml", f"{stem}.yml") if path in roots), "")
    waiting, seen = [first] if first else [], set()
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        yield path
        for word in _defaults(roots[path]):
            near = posixpath.normpath(posixpath.join(posixpath.dirname(path), word))
            waiting += [one for one in (f"{near}.yaml", f"{near}.yml") if one in roots]


def _defaults(root: yaml.Node) -> Iterator[str]:
    """Format each entry of a defaults list as a path: `- logger: csv` is logger/csv, `- csv` is csv."""
    entries = next(
        (value for key, value in getattr(root, "value", []) if isinstance(key, yaml.Node) and key.value == "defaults"),
        None,
    ) if isinstance(root, yaml.MappingNode) else None  # fmt: skip
    for item in entries.value if isinstance(entries, yaml.SequenceNode) else ():
        if isinstance(item, yaml.ScalarNode):
            yield str(item.value)
        elif isinstance(item, yaml.MappingNode):
            for key, value in item.value:
                group = str(key.value).removeprefix("override ").removeprefix("optional ").removeprefix("/")
                words = value.value if isinstance(value, yaml.SequenceNode) else [value]
                yield from (f"{group}/{word.value}" for word in words if isinstance(word, yaml.ScalarNode))


def _configs(listing: Listing, folder: str) -> Iterator[tuple[str, yaml.Node]]:
    inside = [path for path in listing.paths if path.startswith(f"{folder}/") and path.endswith((".yaml", ".yml"))]
    for path in inside[:_MAX_FILES]:
        text = listing.text(path)
        if text is None or len(text) > _MAX_TEXT:
            continue
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError):
            continue
        if isinstance(root, yaml.Node):
            yield path, root


def _keys(root: yaml.Node, path: str, prefix: str) -> list[Flag]:
    flags = []
    for count, (name, line, value) in enumerate(_walk(root, prefix)):
        if count > _MAX_KEYS:
            break
        role = role_of(name)
        if name == f"{prefix}._target_" and _TRAINER.match(value):
            for word in ("limit_train_batches", "limit_val_batches"):
                at = Where(path, line)
                flags.append(Flag(f"++{prefix}.{word}", role_of(word), at, Style.OVERRIDE))
        if role not in (Role.OTHER, Role.DATA, Role.OUTPUT):
            flags.append(Flag(name, role, Where(path, line), Style.OVERRIDE, value))
    return flags


def _walk(root: yaml.Node, prefix: str) -> Iterator[tuple[str, int, str]]:
    waiting: list[tuple[yaml.Node, str]] = [(root, prefix)]
    seen: set[int] = set()
    while waiting:
        node, inside = waiting.pop(0)
        if not isinstance(node, yaml.MappingNode) or id(node) in seen:  # an alias may point to its own parent
            continue
        seen.add(id(node))
        for key, value in node.value:
            word = str(key.value)
            if not word.isidentifier():
                continue
            name = f"{inside}.{word}" if inside else word
            if isinstance(value, yaml.ScalarNode):
                yield name, key.start_mark.line + 1, str(value.value)[:200]
            else:
                waiting.append((value, name))


def _mappings(root: yaml.Node) -> Iterator[tuple[yaml.MappingNode, int]]:
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, yaml.MappingNode) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node, node.start_mark.line + 1
        waiting += [value for _, value in node.value]
