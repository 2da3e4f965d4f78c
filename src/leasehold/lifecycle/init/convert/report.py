"""Report of a conversion: what was carried over and what was not. Credentials are replaced by their names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from leasehold.lifecycle.init.text.page import clean
from leasehold.lifecycle.init.text.secret_names import is_secret, name_for, secret_texts

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHORTEST_HIDDEN = 6


@dataclass
class Report:
    """Notes with their source lines, the variables that were taken, and the secrets to hide."""

    done: list[tuple[int, str]] = field(default_factory=list)
    undone: list[tuple[int, str]] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def did(self, line: int, text: str) -> None:
        """Note something that was carried over."""
        self.done.append((line, text))

    def left(self, line: int, what: str, why: str) -> None:
        """Note something that was not carried over, and the reason."""
        self.undone.append((line, f"{what}: {why}"))

    @property
    def converted(self) -> list[str]:
        """List what was carried over, by line."""
        return [self._spell(line, text) for line, text in sorted(self.done, key=lambda note: note[0])]

    @property
    def not_converted(self) -> list[str]:
        """List what was not carried over or must be checked, by line."""
        return [self._spell(line, text) for line, text in sorted(self.undone, key=lambda note: note[0])]

    def take_variable(self, name: str, value: str | None, line: int) -> None:
        """Take an environment variable; a credential, or one without a value, only by name."""
        if not value or is_secret(name, value):
            self.take_secret(name, value or "", line)
        elif self._may_be_named(name, line):
            self.env[name] = value.replace("\0", "")
            self.did(line, f"{name} -> env")

    def take_secret(self, name: str, value: str, line: int) -> None:
        """Take a variable by name; keep a value only to hide it wherever else it occurs."""
        if self._may_be_named(name, line):
            self.secrets[name] = self.secrets.get(name) or value
            self.did(line, f"{name} -> secrets; its value comes from your environment at launch")

    def name_secret(self, value: str, wanted: str) -> str:
        """Find or make the variable name from which a credential found in a command will come."""
        for name, known in self.secrets.items():
            if known == value:
                return name
        count, free = 1, wanted
        while self.secrets.get(free):
            count += 1
            free = f"{wanted}_{count}"
        self.secrets[free] = value
        return free

    def hide(self, text: str) -> str:
        """Replace every credential in a text by a reference to its variable."""
        for found in secret_texts(text):
            self.name_secret(found, name_for(found, text[: text.find(found)]))
        for name, value in sorted(self.secrets.items(), key=lambda item: -len(item[1])):
            if len(value) >= _SHORTEST_HIDDEN:
                text = text.replace(f"'{value}'", f'"${{{name}}}"').replace(value, f"${{{name}}}")
        return text

    def _may_be_named(self, name: str, line: int) -> bool:
        if _NAME.match(name) and not name.startswith("LEASE_"):
            return True
        self.left(line, clean(name, 60), "is no name for a variable here (those starting with LEASE_ are ours)")
        return False

    def _spell(self, line: int, text: str) -> str:
        hidden = clean(self.hide(text))
        return f"line {line}: {hidden}" if line else hidden
