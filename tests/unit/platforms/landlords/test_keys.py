"""Keys: where they are found and kept, and that nothing shows them."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from leasehold.errors import BadKey, HomeError, UserError
from leasehold.platforms.landlords.keys import WITHOUT_KEYRING, Key, KeyStore

SECRET = "rpa_0123456789abcdef"
VARIABLES = ("ACME_KEY", "ACME_API_KEY")
NO_RING = {WITHOUT_KEYRING: "1"}


def test_a_variable_wins_over_a_file(tmp_path: Path) -> None:
    KeyStore(tmp_path, NO_RING).store("acme", "from-the-file-1")
    found = KeyStore(tmp_path, {**NO_RING, "ACME_API_KEY": SECRET}).find("acme", VARIABLES)
    assert found is not None
    assert (found.value, found.where) == (SECRET, "environment variable ACME_API_KEY")


def test_a_stored_key_is_read_back_and_only_we_can_read_it(tmp_path: Path, odd_name: str) -> None:
    store = KeyStore(tmp_path / odd_name, NO_RING)
    where = Path(store.store("acme", f"  {SECRET}\n"))
    assert where.stat().st_mode & 0o777 == 0o600
    assert where.parent.stat().st_mode & 0o077 == 0
    assert store.need("acme", VARIABLES).value == SECRET


def test_no_key_says_how_to_give_one(tmp_path: Path) -> None:
    with pytest.raises(BadKey) as caught:
        KeyStore(tmp_path, NO_RING).need("acme", VARIABLES)
    assert "lease landlord login acme" in caught.value.hint
    assert "ACME_KEY" in caught.value.hint


def test_a_file_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    store = KeyStore(tmp_path, NO_RING)
    os.chmod(store.store("acme", SECRET), 0o644)
    with pytest.raises(HomeError) as caught:
        store.find("acme", VARIABLES)
    assert caught.value.code == "landlord.key_open"
    assert SECRET not in str(caught.value.as_dict())


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    store = KeyStore(tmp_path, NO_RING)
    place = Path(store.store("acme", SECRET))
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HomeError):
        store.find("acme", VARIABLES)


def test_a_removed_key_is_gone(tmp_path: Path) -> None:
    store = KeyStore(tmp_path, NO_RING)
    where = store.store("acme", SECRET)
    assert store.remove("acme") == [where]
    assert store.find("acme", VARIABLES) is None
    assert store.remove("acme") == []


@pytest.mark.parametrize("typed", ["", "short", "two words here", "line\nbreak-in-it", "clé-secrète-123", "x" * 5000])
def test_what_no_header_can_carry_is_refused_unshown(tmp_path: Path, typed: str) -> None:
    with pytest.raises(UserError) as caught:
        KeyStore(tmp_path, NO_RING).store("acme", typed)
    assert not typed or typed not in str(caught.value.as_dict())
    assert not list(tmp_path.iterdir())


def test_a_key_does_not_show_its_value() -> None:
    key = Key(SECRET, "a test")
    assert SECRET not in repr(key)
    assert SECRET not in key.mark
    assert key.mark != Key(SECRET + "x", "a test").mark


class _Ring:
    """A keyring as the package gives one."""

    def __init__(self, priority: float = 5, broken: bool = False) -> None:
        self.priority = priority
        self.kept: dict[tuple[str, str], str] = {}
        self.broken = broken

    def get_password(self, service: str, name: str) -> str | None:
        if self.broken:
            raise RuntimeError(f"the vault of {SECRET} is locked")
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> _Ring:
    """Install a keyring; the package itself is an extra that is not here."""
    ring, module = _Ring(), types.ModuleType("keyring")
    module.get_keyring = lambda: ring  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", module)
    return ring


def test_a_keyring_is_used_before_a_file(tmp_path: Path, ring: _Ring) -> None:
    store = KeyStore(tmp_path, {})
    assert store.store("acme", SECRET) == "system keyring"
    assert not list(tmp_path.iterdir())
    assert store.need("acme", VARIABLES) == Key(SECRET, "system keyring")
    assert store.remove("acme") == ["system keyring"]
    assert ring.kept == {}


def test_a_keyring_without_a_service_is_none(tmp_path: Path, ring: _Ring) -> None:
    ring.priority = 0
    assert KeyStore(tmp_path, {}).store("acme", SECRET).startswith(str(tmp_path))


def test_a_locked_keyring_is_an_error_that_shows_no_key(tmp_path: Path, ring: _Ring) -> None:
    ring.broken = True
    with pytest.raises(HomeError) as caught:
        KeyStore(tmp_path, {}).find("acme", VARIABLES)
    assert SECRET not in str(caught.value.as_dict())
    assert WITHOUT_KEYRING in caught.value.hint
