"""A cell's own folders: where it writes, and its private copy of the code."""

from __future__ import annotations

import os
from typing import Any, Dict

from .layout import RunFolder
from .trees import lay_out


def prepare_cell(folder: RunFolder, plan: Dict[str, Any], cell: str) -> None:
    """Give a cell an out folder and its own copy of the code, which it may then write to; there already is well."""
    os.makedirs(folder.out(cell), exist_ok=True)
    os.makedirs(folder.cell(cell), exist_ok=True)
    work = folder.work(cell)
    if os.path.isdir(work):
        return
    import shutil  # lazily: it brings bz2 and lzma, and every connection would pay

    os.makedirs(os.path.dirname(work), exist_ok=True)
    staging = "%s.partial-%s-%d" % (work, os.uname().nodename, os.getpid())
    try:
        lay_out(folder.root, str(plan["tree"]), staging)
        os.rename(staging, work)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
