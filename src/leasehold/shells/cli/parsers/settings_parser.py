"""Options of notify and signer."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import examples


def notify(parser: ArgumentParser) -> None:
    """lease notify"""
    parser.description = (
        "Set up the channels on which a box notifies you: failures, alarms, budget, the end of a run,\n"
        "and a meter that still runs."
    )
    examples(
        parser,
        "  lease notify add ntfy https://ntfy.sh/my-secret-topic\n"
        "  lease notify add telegram chat_id=12345 token=env:TG_TOKEN --name phone\n"
        "  lease notify add dingtalk                  asks for its address and secret, without echo\n"
        "  lease notify add webhook - < address.txt   keeps the address out of your shell's history\n"
        "  lease notify kinds\n"
        "  lease notify test\n"
        "  lease notify test phone --from gpu1",
    )
    parser.add_argument("action", choices=("add", "list", "remove", "test", "kinds"), help="what to do")
    parser.add_argument(
        "what",
        nargs="*",
        metavar="ARGUMENT",
        help="add: KIND [URL] [FIELD=VALUE …], where env:NAME reads an environment variable; remove: CHANNEL; "
        "test: [CHANNEL]",
    )
    parser.add_argument("--name", default="", metavar="NAME", help="add: name of the channel (default: its kind)")
    parser.add_argument(
        "--from", dest="box", default="", metavar="BOX", help="test: send from this box instead of from here"
    )


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
