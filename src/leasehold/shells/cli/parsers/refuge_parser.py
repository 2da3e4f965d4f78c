"""Options of refuge check."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import examples


def refuge_check(parser: ArgumentParser) -> None:
    """lease refuge check"""
    parser.description = (
        "Prove on a scratch key that a bucket or folder can keep checkpoints and results: put, read back, ranges,\n"
        "list, replace, create only once, delete. Needs no box. The keys come from this shell's environment."
    )
    examples(
        parser,
        "  lease refuge check s3://my-bucket/leasehold\n"
        "  AWS_ENDPOINT_URL=https://ACCOUNT.r2.cloudflarestorage.com lease refuge check s3://my-bucket/runs\n"
        "  lease refuge check /mnt/volume                        exit 0 everything is proven, 3 something is not",
    )
    parser.add_argument("where", metavar="WHERE", help="s3://bucket/prefix, or a folder on this machine")
