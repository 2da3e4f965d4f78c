"""The epoch of a run on this box: claimed once in each refuge, kept on the box, never taken from another box."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional

from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.refuge.epochs import Claim, claim, highest, read_claim
from leasehold.kit.refuge.place import Place
from leasehold.kit.refuge.publishing import Fenced


class Epoch:
    """What this box claims; a home that moves a run here has claimed it already, and hands over its nonce."""

    def __init__(self, path: str, run: str, box: str) -> None:
        self._path, self._run, self._box = path, run, box

    def hold(self, place: Place) -> int:
        """Return our epoch, claimed in this refuge; Fenced if the run belongs to another box."""
        known = self._known()
        if known is None:
            there = highest(place, self._run)
            if there:
                raise Fenced(there)  # another box has it, and nobody moved the run to this one
            known = self._keep(1)
        there = highest(place, self._run)
        if there > known.epoch:
            raise Fenced(there)
        if there == known.epoch:
            found = read_claim(place, self._run, there)
            if found is None or found.nonce != known.nonce:
                raise Fenced(there)
        elif not claim(place, self._run, known._replace(at_unix=round(time.time(), 3))):
            raise Fenced(known.epoch)
        return known.epoch

    def _known(self) -> Optional[Claim]:
        value: Dict[str, Any] = read_json(self._path) or {}
        epoch, nonce = value.get("epoch"), value.get("nonce")
        if type(epoch) is not int or epoch < 1 or not isinstance(nonce, str) or not nonce:
            return None
        words = {name: str(value.get(name) or "") for name in ("home", "box", "lease")}
        return Claim(epoch, nonce, words["home"], words["box"] or self._box, words["lease"])

    def _keep(self, epoch: int) -> Claim:
        """Write the claim down before it is made: a killed worker makes the same one again."""
        made = Claim(epoch, os.urandom(16).hex(), box=self._box)
        write_json(self._path, {"epoch": epoch, "nonce": made.nonce, "box": self._box})
        return made
