"""Options of init and check."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_root, examples


def init(parser: ArgumentParser) -> None:
    """lease init"""
    parser.description = (
        "Read this project and write a commented lease.yaml for it. Existing files are never overwritten."
    )
    examples(parser, "  lease init\n  lease init --from task.sky.yaml        convert a SkyPilot, sbatch or dstack file")
    parser.add_argument(
        "--from", dest="source", default="", metavar="FILE", help="convert a SkyPilot YAML, sbatch script or dstack.yml"
    )
    parser.add_argument("--to", default="lease.yaml", metavar="FILE", help="file to write (default: lease.yaml)")
    parser.add_argument("--stdout", action="store_true", help="print the job file instead of writing it")


def check(parser: ArgumentParser) -> None:
    """lease check"""
    parser.description = """\
Run one gate alone and show everything that it checked:
  plan     the job and the platform
  audit    the box
  env      the interpreter and packages on the box
  smoke    a short training run on this machine
  launch   a run that was started"""
    examples(
        parser,
        "  lease check smoke\n"
        "  lease check audit --on ssh:gpu1 --deep\n"
        "  lease check audit --on gpu1 --with gpu2      do both boxes mount the same disk?\n"
        "  lease check launch myjob",
    )
    parser.add_argument("gate", choices=("plan", "audit", "env", "smoke", "launch"), help="the gate to run")
    parser.add_argument(
        "job",
        nargs="?",
        default="lease.yaml",
        metavar="JOB",
        help="job file (default: lease.yaml); for launch: the run",
    )
    parser.add_argument("--on", default="local", metavar="BOX", help="the box (default: local)")
    add_root(parser)
    parser.add_argument(
        "--deep", action="store_true", help="audit: also find what fills the disks (at most 10 s for each disk)"
    )
    parser.add_argument(
        "--with", dest="other", default="", metavar="BOX", help="audit: verify shared disks from this second box"
    )
    parser.add_argument(
        "--kill-check", action="store_true", help="smoke: also kill it halfway and check that it continues"
    )
