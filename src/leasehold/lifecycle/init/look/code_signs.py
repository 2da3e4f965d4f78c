"""Signs in the code: frameworks, trackers, credentials, data, resuming, and whether $LEASE_OUT is read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from leasehold.lifecycle.init.options.flag_roles import role_of
from leasehold.lifecycle.init.text.project_facts import Role, Sign
from leasehold.lifecycle.init.text.secret_names import is_secret_name
from leasehold.lifecycle.init.text.source import Source, argument, text_of

FRAMEWORKS = {
    "torch": "PyTorch", "lightning": "Lightning", "pytorch_lightning": "Lightning", "transformers": "Transformers",
    "trl": "TRL", "accelerate": "Accelerate", "deepspeed": "DeepSpeed", "jax": "JAX", "flax": "Flax",
    "tensorflow": "TensorFlow", "keras": "Keras", "mlx": "MLX", "paddle": "Paddle", "ultralytics": "Ultralytics",
    "stable_baselines3": "Stable-Baselines3", "timm": "timm", "diffusers": "Diffusers", "fastai": "fastai",
}  # fmt: skip
# A tracker, and the variables that hold its key; empty where it writes files or needs no key.
TRACKERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "wandb": ("Weights & Biases", ("WANDB_API_KEY",)),
    "comet_ml": ("Comet", ("COMET_API_KEY",)),
    "neptune": ("Neptune", ("NEPTUNE_API_TOKEN",)),
    "swanlab": ("SwanLab", ("SWANLAB_API_KEY",)),
    "clearml": ("ClearML", ("CLEARML_API_ACCESS_KEY", "CLEARML_API_SECRET_KEY")),
    "mlflow": ("MLflow", ()),
    "tensorboard": ("TensorBoard", ()),
    "tensorboardX": ("TensorBoard", ()),
    "aim": ("Aim", ()),
}
SOMETIMES = "only under some condition"
_LOGGERS = {"WandbLogger": "wandb", "CometLogger": "comet_ml", "NeptuneLogger": "neptune", "MLFlowLogger": "mlflow"}
_LOADERS = ("numpy.load", "pickle.load", "jax.numpy.load", "json.load")
_EXISTS = {"exists", "isfile", "is_file", "glob", "iglob", "listdir", "isdir", "is_dir"}
WHEN_TOLD = "only when told to"
_FETCHED = {"load_dataset": "Hugging Face datasets", "hf_hub_download": "the Hub", "snapshot_download": "the Hub"}
_READ_HERE = ("read_csv", "read_parquet", "read_json", "ImageFolder", "load_from_disk", "memmap", "numpy.load")


def frameworks(source: Source) -> Iterator[Sign]:
    """Yield the frameworks a file imports."""
    for module, line in source.modules:
        name = FRAMEWORKS.get(module.partition(".")[0])
        if name:
            yield Sign(name, source.at(_Line(line)), module.partition(".")[0])


def trackers(source: Source) -> Iterator[Sign]:
    """Yield the trackers that a file imports or enables in its trainer; the word is the package."""
    above = {node.lineno for node in source.tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
    for module, line in source.modules:
        head = "tensorboard" if module == "torch.utils.tensorboard" else module.partition(".")[0]
        if head in TRACKERS:
            yield Sign(head, source.at(_Line(line)), "" if line in above else SOMETIMES)
    for call, name in source.calls():
        logger = _LOGGERS.get(name.rpartition(".")[2])
        if logger:
            yield Sign(logger, source.at(call))
        for keyword in call.keywords:
            for node in ast.walk(keyword.value) if keyword.arg in ("report_to", "log_with") else ():
                if text_of(node) in TRACKERS:
                    yield Sign(text_of(node), source.at(call), f"{keyword.arg}=")


def secrets(source: Source) -> Iterator[Sign]:
    """Yield credentials that the code reads from its environment, and those that a push to the Hub needs."""
    for node in source.nodes:
        name = _environment_name(source, node)
        if name and is_secret_name(name):
            yield Sign(name, source.at(node), "read from the environment")
        if isinstance(node, ast.keyword) and node.arg == "push_to_hub" and getattr(node.value, "value", None) is True:
            yield Sign("HF_TOKEN", source.at(node.value), "push_to_hub=True")


def lease_out(source: Source) -> Iterator[Sign]:
    """Yield where the code reads $LEASE_OUT."""
    for node in source.nodes:
        if text_of(node) == "LEASE_OUT":
            yield Sign("LEASE_OUT", source.at(node))


def resumes(source: Source) -> Iterator[Sign]:
    """Yield where the code loads a checkpoint at its start; noted when it does so only on request."""
    for call, name in source.calls():
        last = name.rpartition(".")[2]
        if last in ("get_last_checkpoint", "restore_or_initialize", "latest_checkpoint", "latest_step"):
            yield Sign(f"{last}()", source.at(call))
        for keyword in call.keywords:
            given = getattr(keyword.value, "value", "?")
            if (
                keyword.arg in ("resume_from_checkpoint", "ckpt_path")
                and last in ("train", "fit")
                and given is not None
            ):
                itself = isinstance(keyword.value, ast.Constant)
                yield Sign(f"{last}({keyword.arg}=...)", source.at(call), "" if itself else WHEN_TOLD)
    told: set[int] = set()
    for node in source.nodes:
        if isinstance(node, ast.If | ast.IfExp) and _names(node.test) & _EXISTS | _resuming(node.test):
            asks = bool(_resuming(node.test)) or id(node) in told
            parts: list[ast.AST] = [*node.body] if isinstance(node, ast.If) else [node.body]
            for inner in (inner for part in parts for inner in ast.walk(part)):
                told |= {id(inner)} if asks else set()
                if isinstance(inner, ast.Call) and _loads(source.dotted(inner.func), node.test):
                    yield Sign("loads a checkpoint", source.at(inner), WHEN_TOLD if asks else "")


def resume_words(source: Source) -> Iterator[Sign]:
    """Yield settings about resuming that are compared with a word, such as init_from == "resume"."""
    for node in source.nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            name, word = _setting(node.left), text_of(node.comparators[0])
            if role_of(name) is Role.RESUME and re.match(r"resume|auto|last\Z|latest", word):
                yield Sign(name, source.at(node), word)


def resume_reads(source: Source) -> Iterator[Sign]:
    """Yield settings about resuming that are read from arguments."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and role_of(node.attr) is Role.RESUME:
            yield Sign(node.attr, source.at(node))


def load_modes(source: Source) -> Iterator[Sign]:
    """Yield where weights_only is given: torch.load then ignores the environment."""
    for call, name in source.calls():
        if any(keyword.arg == "weights_only" for keyword in call.keywords):
            yield Sign(name, source.at(call))


def log_pauses(source: Source) -> Iterator[Sign]:
    """Yield the number of steps between two log lines: settings of such names with a number."""
    for name, values in source.assigned.items():
        for line, value in values if role_of(name) is Role.LOGGING else ():
            if isinstance(value, ast.Constant) and type(value.value) is int:
                yield Sign(name, source.at(_Line(line)), str(value.value))


def trainers(source: Source) -> Iterator[Sign]:
    """Yield the framework trainers that the code makes, for which there is an adapter."""
    for call, name in source.calls():
        head, last = name.partition(".")[0], name.rpartition(".")[2]
        if last in ("Trainer", "LightningCLI") and head in ("lightning", "pytorch_lightning"):
            yield Sign("lightning", source.at(call))
        elif last.endswith("Trainer") and head in ("transformers", "trl"):
            yield Sign("huggingface", source.at(call))
        elif last == "Accelerator" and head == "accelerate":
            yield Sign("accelerate", source.at(call))


def _setting(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def data(source: Source) -> Iterator[Sign]:
    """Yield the data that the code seems to read: downloaded by name, or from a fixed path."""
    for call, name in source.calls():
        last = name.rpartition(".")[2]
        first = text_of(argument(call, 0, "path", "repo_id", "root"))
        if last in _FETCHED and first:
            yield Sign(f"{last}({first!r})", source.at(call), f"fetched from {_FETCHED[last]}")
        elif ".datasets." in name and name.startswith("torchvision") and last != "FakeData":
            fetched = getattr(argument(call, -1, "download"), "value", False) is True
            yield Sign(f"torchvision {last}", source.at(call), "downloads itself" if fetched else "must be there")
        elif (last in _READ_HERE or name in _READ_HERE) and first:
            yield Sign(first, source.at(call), f"read by {last}()")


class _Line(ast.AST):
    """A place of which only the line is known."""

    def __init__(self, line: int) -> None:
        self.lineno = line


def _environment_name(source: Source, node: ast.AST) -> str:
    if isinstance(node, ast.Subscript) and source.dotted(node.value) == "os.environ":
        return text_of(node.slice)
    if isinstance(node, ast.Call) and source.dotted(node.func) in ("os.getenv", "os.environ.get"):
        return text_of(argument(node, 0, "key"))
    return ""


def _loads(name: str, test: ast.expr) -> bool:
    """Return whether a call loads a checkpoint; a pickle may be anything, unless the condition mentions one."""
    if name in ("torch.load", "safetensors.torch.load_file") or name.endswith(("load_checkpoint", ".load_state")):
        return True
    spoken = " ".join(_names(test)).lower()
    return name in _LOADERS and any(
        word in spoken for word in ("ckpt", "checkpoint", "last", "latest", "resume", "state")
    )


def _names(test: ast.expr) -> set[str]:
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in ast.walk(test)}


def _resuming(test: ast.expr) -> set[str]:
    """Return the names and words in a condition that express a wish to resume."""
    words = {text_of(node) for node in ast.walk(test)} | _names(test)
    return {word for word in words if "resume" in word.lower() or word in ("ckpt_path", "checkpoint_path")}
