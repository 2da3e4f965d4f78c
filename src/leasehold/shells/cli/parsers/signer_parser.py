"""Options of signer."""

from __future__ import annotations

from argparse import ArgumentParser

from .shared_options import examples


def signer(parser: ArgumentParser) -> None:
    """lease signer"""
    parser.description = (
        "Manage the SSH keys whose signature may approve a teardown. A person allows each one on a terminal."
    )
    examples(
        parser,
        "  lease signer add ~/.ssh/id_ed25519_sk.pub --verify-required\n"
        "  lease signer list\n"
        "  lease signer confirm SHA256:…         a line that something else wrote into allowed_signers\n"
        "  lease signer remove SHA256:…",
    )
    parser.add_argument("action", choices=("add", "confirm", "list", "remove"), help="what to do")
    parser.add_argument(
        "what",
        nargs="?",
        default="",
        metavar="KEY",
        help="add: the file of a public key, or -; confirm and remove: its fingerprint, name or line number",
    )
    parser.add_argument("--name", default="", metavar="NAME", help="add: whose key it is (default: you)")
    parser.add_argument(
        "--verify-required",
        action="store_true",
        help="add: accept a signature only if the key checked a PIN or fingerprint",
    )
    parser.add_argument("--ca", action="store_true", help="add: the key is that of a certificate authority")
