"""Check a refuge from this machine, with the keys of this shell: needs no box and no run."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.objects.address import BadAddress, account_of, is_address, parse_address
from leasehold.kit.objects.check_place import Proof, check_place
from leasehold.kit.objects.object_place import ObjectPlace
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.place import Place, PlaceError
from leasehold.model.values.wording import one_line

_HINT = "export AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL; docs/object-stores.md"


@dataclass(frozen=True)
class CheckedRefuge:
    """What a place was seen to do."""

    where: str
    facts: Mapping[str, str]
    proofs: tuple[Proof, ...]

    @property
    def fit(self) -> bool:
        """Return whether everything was proven."""
        return all(proof.proven for proof in self.proofs)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        proofs = [dict(proof._asdict(), seen=one_line(proof.seen)) for proof in self.proofs]
        return {"where": self.where, **self.facts, "fit": self.fit, "proofs": proofs}


def check_refuge(where: str, environ: Mapping[str, str]) -> CheckedRefuge:
    """Prove on a scratch key what a refuge needs; a place that cannot even be named is a UserError."""
    name = uuid.uuid4().hex
    if not is_address(where):
        return _check_folder(where, name)
    try:
        address = parse_address(where)
        account = account_of(environ, address.bucket)
    except BadAddress as error:
        raise UserError("refuge.address", f"{where}: {error}", hint=_HINT) from None
    place = ObjectPlace(address, account)
    opened: list[ObjectPlace] = []

    def again() -> Place:
        opened.append(ObjectPlace(address, account))
        opened[-1].creator = place.creator  # what the store obeys is found out once
        return opened[-1]

    proofs = check_place(again, name, lambda _: place.creator.by)
    if proofs[0].proven:
        proofs.append(_checksums(place, name))
    for one in (place, *opened):
        one.close()
    facts = {
        "endpoint": account.endpoint,
        "region": place.bucket.region,
        "style": account.style,
        "vendor": account.vendor.name,
        "encrypted": "yes" if account.secure else "NO: http, so what travels can be read by others",
    }
    return CheckedRefuge(place.where, facts, tuple(proofs))


def _check_folder(where: str, name: str) -> CheckedRefuge:
    folder = Path(where).expanduser().absolute()
    if not folder.is_dir():
        raise UserError(
            "refuge.address", f"{where} is neither s3://bucket/prefix nor a folder", hint="make the folder, or mount it"
        )
    return CheckedRefuge(str(folder), {}, tuple(check_place(lambda: FolderPlace(str(folder)), name)))


def _checksums(place: ObjectPlace, name: str) -> Proof:
    """Send a wrong checksum: a store that takes it leaves the proof to reading back, which is done either way."""
    try:
        refuses = place.refuses_wrong_checksums(name)
    except PlaceError as error:
        return Proof("checksums", False, str(error))
    seen = "the store refuses bytes with a wrong sha256" if refuses else "the store does not check; reading back does"
    return Proof("checksums", True, seen)
