"""Options of ckpt, run cadence and refuge check."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import examples


def ckpt(parser: ArgumentParser) -> None:
    """lease ckpt"""
    parser.description = (
        "Inspect a checkpoint: what it holds, what a full resume would miss, whether its numbers are finite,\n"
        "and whether it is safe to load. Nothing in it is executed."
    )
    examples(
        parser,
        "  lease ckpt inspect lease-results/export/myjob-1a2b/cells/main/ckpt     its newest\n"
        "  lease ckpt inspect best.pt              exit 0 complete, 3 something is missing, 7 does not load",
    )
    parser.add_argument("action", choices=("inspect",), help="what to do")
    parser.add_argument(
        "path", metavar="PATH", help="a .pt, .safetensors or other file; a folder of shards or of checkpoints"
    )


def cadence(parser: ArgumentParser) -> None:
    """lease run cadence"""
    parser.description = "Compute how often to write a checkpoint, and how much work and money interruptions then cost."
    examples(
        parser,
        "  lease run cadence ckpt/ --price 1.98USD/h           from what leasehold.checkpoint measured\n"
        "  lease run cadence --write 30s --interrupted-every 3h --step 2s",
    )
    parser.add_argument("where", nargs="?", default="", metavar="WHERE", help="a Checkpointer's folder, or a job file")
    parser.add_argument("--write", default="", metavar="D", help="how long writing one checkpoint delays the training")
    parser.add_argument("--step", default="", metavar="D", help="how long one step takes")
    parser.add_argument("--interrupted-every", default="", metavar="D", help="mean time between interruptions")
    parser.add_argument("--price", default="", metavar="P", help="what an hour costs, such as 1.98USD/h")
    parser.add_argument(
        "--spot", action="store_true", help="assume 3 h between interruptions where nothing else is known"
    )


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
