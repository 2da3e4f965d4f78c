"""Options of plot."""

from __future__ import annotations

from argparse import ArgumentParser

from leasehold.shells.cli.shared_options import add_run, examples


def plot(parser: ArgumentParser) -> None:
    """lease plot"""
    parser.description = "Plot what a run's box measured over time: loss, cards, memory, disks, step rate."
    examples(
        parser,
        "  lease plot myjob\n"
        "  lease plot myjob --what loss,lr,gpu,power --since 2h\n"
        "  lease plot myjob --what gpu,mem --svg readings.svg --csv readings.csv",
    )
    add_run(parser)
    parser.add_argument(
        "--what",
        default="",
        metavar="NAMES",
        help="separated by commas: loss, step, step-rate, quiet, cpu, rss, mem, mem-gib, gpu, gpu-mem, power, "
        "temperature, clock, disk, disk-free, inodes, or a metric of the log "
        "(default: those of loss,gpu,mem,disk,step-rate that were measured)",
    )
    parser.add_argument(
        "--since", default="", metavar="2h", help="only the last 2h, 30min, … (default: everything that is kept)"
    )
    parser.add_argument("--csv", default="", metavar="FILE", help="write a table instead of plotting; - is stdout")
    parser.add_argument(
        "--svg", default="", metavar="FILE", help="write an SVG picture instead of plotting; - is stdout"
    )
