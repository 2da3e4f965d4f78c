"""Options of notify."""

from __future__ import annotations

from argparse import ArgumentParser

from .shared_options import examples


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
