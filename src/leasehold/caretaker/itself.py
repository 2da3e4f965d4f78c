"""How this parcel is run again."""

from __future__ import annotations

import os
import sys
from typing import List


def own_argv(*words: str) -> List[str]:
    """Spell a command line that runs this same parcel again; a folder's main file starts sooner than the folder."""
    main = os.path.join(sys.argv[0], "__main__.py")
    return [sys.executable, "-I", "-S", main if os.path.isfile(main) else sys.argv[0], *words]
