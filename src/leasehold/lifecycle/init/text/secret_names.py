"""Recognize names and texts that look like credentials. `lease init` never writes their values anywhere."""

from __future__ import annotations

import re

_PARTS = {
    "KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "PWD", "CREDENTIAL", "CREDENTIALS", "PAT", "AUTH",
    "DSN", "PASSPHRASE",
}  # fmt: skip
_HARMLESS_ENDS = {"PATH", "FILE", "DIR", "NAME", "URL", "LENGTH", "SIZE", "COUNT", "LIMIT", "MODE", "TYPE"}
_OF_A_TOKENIZER = re.compile(
    r"(?:^|_)(?:EOS|BOS|PAD|UNK|MASK|SEP|CLS|START|END|STOP|SPECIAL|IMAGE|MAX|NUM|NEW)_TOKENS?$"
)
_NUMBER = re.compile(r"[-+]?\d{1,6}(?:\.\d+)?\Z")
_PLAIN_WORD = re.compile(r"[a-z_/.-]{0,15}\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TEXTS = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|hf|ghp|gho|ghs|wandb|glpat|dapi|pypi|xox[abprs])[-_](?=[\w-]{0,200}\d)[A-Za-z0-9_-]{16,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"
    r"|(?<=://)[^/\s:@\"']{1,200}:[^/\s@$\"']{1,200}(?=@)"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
)
# What the job file's parser refuses in `env`, repeated here: such a value must go to `secrets`.
_REFUSED_IN_ENV = re.compile(r"(?:sk|hf|ghp|wandb)[-_][A-Za-z0-9]{16,}|AKIA[0-9A-Z]{16}|[0-9a-f]{40}\Z")
# Forty hex digits are a Weights & Biases key or a commit: in a command only the preceding words decide.
_HEX = re.compile(r"[0-9a-f]{40,}")
_SPOKEN_OF = re.compile(r"wandb|key|token|login|secret|passw", re.I)
_WELL_KNOWN = (("hf_", "HF_TOKEN"), ("gh", "GITHUB_TOKEN"), ("git", "GITHUB_TOKEN"), ("AKIA", "AWS_ACCESS_KEY_ID"))


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name usually holds a credential."""
    parts = [part for part in re.split(r"[_\W]+", name.upper()) if part]
    if not _PARTS.intersection(parts) or parts[-1] in _HARMLESS_ENDS or not _NAME.match(name):
        return False
    return not _OF_A_TOKENIZER.search("_".join(parts))


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable holds a credential, by its name or the form of its value."""
    if _TEXTS.search(value) or _HEX.search(value) or _REFUSED_IN_ENV.search(value):
        return True
    if not is_secret_name(name) or _NUMBER.match(value) or value.lower() in ("true", "false"):
        return False
    return not (name.upper().endswith("KEY") and "API" not in name.upper() and _PLAIN_WORD.match(value))


def secret_texts(text: str) -> list[str]:
    """List the parts of a text that look like credentials."""
    spoken = [run for run in _HEX.finditer(text) if _SPOKEN_OF.search(text[max(0, run.start() - 40) : run.start()])]
    return [found.group() for found in (*_TEXTS.finditer(text), *spoken)]


def name_for(secret: str, before: str) -> str:
    """Return the name of the variable from which a credential found in a command should come."""
    if "wandb" in before.lower()[-60:]:
        return "WANDB_API_KEY"
    for start, name in _WELL_KNOWN:
        if secret.startswith(start):
            return name
    return "SECRET_FROM_COMMAND"
