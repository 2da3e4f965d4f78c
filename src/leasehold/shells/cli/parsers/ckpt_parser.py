"""Parsers about checkpoints: ckpt, cadence."""

from __future__ import annotations

from .front_parser import AddVerb


def add_ckpt_parsers(verb: AddVerb) -> None:
    """Describe ckpt and cadence."""
    ckpt = verb(
        "ckpt",
        "look into a checkpoint: what it holds, what a full resume would miss, finite?, safe to load?",
        "  lease ckpt inspect lease-results/export/myjob-1a2b/cells/main/ckpt     its newest\n"
        "  lease ckpt inspect best.pt                          exit 0 whole, 3 something is missing, 7 does not load",
    )
    ckpt.add_argument("action", choices=("inspect",))
    ckpt.add_argument("path", help="a .pt, .safetensors or other file; a folder of shards or of checkpoints")
    cadence = verb(
        "cadence",
        "how often to write a checkpoint, and what is lost with that, in minutes and money",
        "  lease cadence ckpt/ --price 1.98USD/h           from what leasehold.checkpoint measured\n"
        "  lease cadence --write 30s --interrupted-every 3h --step 2s",
    )
    cadence.add_argument("where", nargs="?", default="", help="a Checkpointer's folder, or a job file")
    cadence.add_argument("--write", default="", metavar="D", help="how long one checkpoint holds the training up")
    cadence.add_argument("--step", default="", metavar="D", help="how long one step takes")
    cadence.add_argument("--interrupted-every", default="", metavar="D", help="mean time between interruptions")
    cadence.add_argument("--price", default="", metavar="P", help="what an hour costs, such as 1.98USD/h")
    cadence.add_argument("--spot", action="store_true", help="assume 3 h between interruptions where nothing is known")
