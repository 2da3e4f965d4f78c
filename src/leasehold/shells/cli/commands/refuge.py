"""The refuge check command: call the api, render its answer."""

from __future__ import annotations

import os
from argparse import Namespace

from leasehold.api import refuges
from leasehold.model.values.wording import one_line
from leasehold.shells.cli import output

_EXIT_REFUSED = 3
_WORDS = {True: ("yes", "green"), False: ("NO", "red"), None: ("-", "dim")}


def refuge_check(args: Namespace) -> int:
    """lease refuge check"""
    found = refuges.refuge_check(args.where, os.environ)
    if args.json:
        output.as_json(found.as_dict())
        return 0 if found.fit else _EXIT_REFUSED
    output.data(one_line(found.where))
    for name, value in found.facts.items():
        output.data(f"  {name + ':':11}{one_line(value)}")
    for proof in found.proofs:
        word, colour = _WORDS[proof.proven]
        output.data(f"  {output.paint_data(word.rjust(3), colour)}  {proof.what + ':':18}{one_line(proof.seen)}")
    output.data("it can be a refuge" if found.fit else "it can NOT be a refuge as it is")
    return 0 if found.fit else _EXIT_REFUSED
