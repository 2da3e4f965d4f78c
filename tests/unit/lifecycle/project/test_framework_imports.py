"""What a command needs, read from its script on: what is optional or belongs to another script does not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.lifecycle.project.code_tree import read_tree
from leasehold.lifecycle.project.framework_imports import imported

PROJECT = {
    "train.py": "import os\nimport torch.nn as nn\nfrom models import resnet\nfrom lib.data import load\n",
    "models/__init__.py": "from .resnet import Net\n",
    "models/resnet.py": "from ..common import x\nfrom . import heads\nimport numpy\n",
    "models/heads.py": "try:\n    import lightning\nexcept ImportError:\n    lightning = None\n",
    "src/lib/data.py": "def load():\n    import transformers\n",
    "src/lib/__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tensorflow\n",
    "convert_to_jax.py": "import jax\n",
    "broken.py": "import (\n",
}
FRAMEWORKS = {"torch", "numpy", "lightning", "transformers", "tensorflow", "jax"}


@pytest.mark.parametrize(
    "command, needs",
    [
        ("python train.py --lr 1", {"torch", "numpy", "transformers"}),
        ("torchrun --nproc 2 ./train.py", {"torch", "numpy", "transformers"}),
        ("python 'train.py' | tee log", {"torch", "numpy", "transformers"}),
        ("python -m models.resnet", {"numpy"}),
        ("python -m lib.data", {"transformers"}),
        ("python convert_to_jax.py", {"jax"}),
        ("python broken.py", set()),
        ("sh run.sh", {"torch", "numpy", "transformers", "jax"}),  # hidden: every script may be meant
        ("", {"torch", "numpy", "transformers", "jax"}),
    ],
)
def test_what_a_command_needs(tmp_path: Path, command: str, needs: set[str]) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert imported(read_tree(tmp_path, "lease.yaml"), command) & FRAMEWORKS == needs
