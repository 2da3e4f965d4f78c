"""Small signs in the code: frameworks, trackers, credentials, data, resuming, and whether $LEASE_OUT is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .facts import Sign
from .secret_names import is_secret_name
from .source import Source, argument, text_of

FRAMEWORKS = {
    "torch": "PyTorch", "lightning": "Lightning", "pytorch_lightning": "Lightning", "transformers": "Transformers",
    "trl": "TRL", "accelerate": "Accelerate", "deepspeed": "DeepSpeed", "jax": "JAX", "flax": "Flax",
    "tensorflow": "TensorFlow", "keras": "Keras", "mlx": "MLX", "paddle": "Paddle", "ultralytics": "Ultralytics",
    "stable_baselines3": "Stable-Baselines3", "timm": "timm", "diffusers": "Diffusers", "fastai": "fastai",
}  # fmt: skip
# A tracker, and the variables that hold its key; none where it writes files or asks nobody.
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
_LOGGERS = {"WandbLogger": "wandb", "CometLogger": "comet_ml", "NeptuneLogger": "neptune", "MLFlowLogger": "mlflow"}
_LOADERS = ("torch.load", "safetensors.torch.load_file", "numpy.load", "pickle.load", "jax.numpy.load")
_EXISTS = ("exists", "isfile", "is_file", "glob", "iglob", "listdir", "get_last_checkpoint", "isdir", "is_dir")
_FETCHED = {"load_dataset": "Hugging Face datasets", "hf_hub_download": "the Hub", "snapshot_download": "the Hub"}
_READ_HERE = ("read_csv", "read_parquet", "read_json", "ImageFolder", "load_from_disk", "memmap", "numpy.load")


def frameworks(source: Source) -> Iterator[Sign]:
    """Yield the frameworks a file imports."""
    for module, line in source.modules:
        name = FRAMEWORKS.get(module.partition(".")[0])
        if name:
            yield Sign(name, source.at(_Line(line)), module.partition(".")[0])


def trackers(source: Source) -> Iterator[Sign]:
    """Yield the trackers a file imports or asks its trainer to use; the word is the package."""
    for module, line in source.modules:
        head = "tensorboard" if module == "torch.utils.tensorboard" else module.partition(".")[0]
        if head in TRACKERS:
            yield Sign(head, source.at(_Line(line)))
    for call, name in source.calls():
        logger = _LOGGERS.get(name.rpartition(".")[2])
        if logger:
            yield Sign(logger, source.at(call))
        for keyword in call.keywords:
            for node in ast.walk(keyword.value) if keyword.arg in ("report_to", "log_with") else ():
                if text_of(node) in TRACKERS:
                    yield Sign(text_of(node), source.at(call), f"{keyword.arg}=")


def secrets(source: Source) -> Iterator[Sign]:
    """Yield credentials that the code reads from its environment, and those that pushing to the Hub needs."""
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
    """Yield where the code seems to load its own latest checkpoint when it starts."""
    for call, name in source.calls():
        last = name.rpartition(".")[2]
        if last in ("get_last_checkpoint", "restore_or_initialize", "latest_checkpoint", "latest_step"):
            yield Sign(f"{last}()", source.at(call))
        for keyword in call.keywords:
            asked = keyword.arg in ("resume_from_checkpoint", "ckpt_path") and last in ("train", "fit")
            if asked and getattr(keyword.value, "value", "?") is not None:
                yield Sign(f"{last}({keyword.arg}=...)", source.at(call))
    for node in source.nodes:
        if isinstance(node, ast.If) and _asks_for_a_file(node.test):
            for call in (inner for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.Call)):
                if source.dotted(call.func) in _LOADERS or source.dotted(call.func).endswith("load_checkpoint"):
                    yield Sign("loads a checkpoint if there is one", source.at(call))


def data(source: Source) -> Iterator[Sign]:
    """Yield the data that the code seems to read: fetched by name, or from a fixed path."""
    for call, name in source.calls():
        last = name.rpartition(".")[2]
        first = text_of(argument(call, 0, "path", "repo_id", "root"))
        if last in _FETCHED and first:
            yield Sign(f"{last}({first!r})", source.at(call), f"fetched from {_FETCHED[last]}")
        elif ".datasets." in name and name.startswith("torchvision"):
            fetched = getattr(argument(call, -1, "download"), "value", False) is True
            yield Sign(f"torchvision {last}", source.at(call), "downloads itself" if fetched else "must be there")
        elif (last in _READ_HERE or name in _READ_HERE) and first:
            yield Sign(first, source.at(call), f"read by {last}()")


class _Line(ast.AST):
    """A place known only by its line."""

    def __init__(self, line: int) -> None:
        self.lineno = line


def _environment_name(source: Source, node: ast.AST) -> str:
    if isinstance(node, ast.Subscript) and source.dotted(node.value) == "os.environ":
        return text_of(node.slice)
    if isinstance(node, ast.Call) and source.dotted(node.func) in ("os.getenv", "os.environ.get"):
        return text_of(argument(node, 0, "key"))
    return ""


def _asks_for_a_file(test: ast.expr) -> bool:
    """Whether a condition is about a file being there, or about a wish to resume."""
    for node in ast.walk(test):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name in _EXISTS or "resume" in str(name).lower() or "ckpt" in str(name).lower():
            return True
    return False
