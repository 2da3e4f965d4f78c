"""Link the run into the one folder that the platform's TensorBoard tile reads. A failure is only noted."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional

from leasehold.caretaker.run.run_folder import RunFolder


def link(folder: RunFolder, platform: Mapping[str, Any], cells: Any) -> Optional[Dict[str, Any]]:
    """Link <dir>/<run> to what the run writes; return what to note, None when nothing changed or is wanted."""
    place = str(platform.get("tensorboard_dir") or "")
    if not place.startswith("/"):
        return None
    names = list(cells)
    target = folder.out(names[0]) if len(names) == 1 else os.path.dirname(folder.out(names[0]))
    path = os.path.join(place, folder.run)
    try:
        os.makedirs(place, exist_ok=True)
        _sweep(place, os.path.dirname(folder.path))
        if os.path.islink(path) and os.readlink(path) == target:
            return None
        if os.path.lexists(path):
            return {"link": path, "problem": "something of yours lies there; it is left alone"}
        os.symlink(target, path)
    except OSError as error:
        return {"link": path, "problem": error.strerror or str(error)}
    return {"link": path, "target": target}


def _sweep(place: str, active: str) -> None:
    """Remove links of ours whose run folder is gone."""
    for name in os.listdir(place):
        path = os.path.join(place, name)
        if os.path.islink(path) and os.readlink(path).startswith(active + os.sep) and not os.path.exists(path):
            os.unlink(path)
