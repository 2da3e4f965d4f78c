"""The valid torch files once more, as our check reads them where an interpreter has torch: its second opinion too."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.lifecycle.confine.check_loads import LoadRequest, check_loads

from .gather import SCANNERS_PYTHON
from .judge import File

_TORCH = (".pt", ".pth", ".bin", ".ckpt")


def second_opinions(files: Sequence[File]) -> tuple[int, list[str]]:
    """Return how many torch was asked about, and each refusal; its policy may refuse what needs code."""
    torch_files = [each for each in files if each.valid and each.path.endswith(_TORCH)]
    requests = [LoadRequest(each.path, "torch", allow_opaque=each.truth == "code") for each in torch_files]
    results = check_loads(requests, python=str(SCANNERS_PYTHON))
    asked = [result for result in results if result.torch_load]
    if asked and all("torch not" in result.torch_load for result in asked):
        raise RuntimeError(f"torch did not answer: {asked[0].torch_load}")
    refused = [f"{result.path} ({result.reason}; torch: {result.torch_load})" for result in asked if not result.ok]
    return len(asked), refused
