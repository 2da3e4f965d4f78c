"""Parser of plot."""

from __future__ import annotations

from .front_parser import AddVerb


def add_plot_parser(verb: AddVerb) -> None:
    """Describe plot."""
    plot = verb(
        "plot",
        "draw what a run's box measured over time: loss, cards, memory, disks, step rate",
        "  lease plot myjob\n  lease plot myjob --what loss,lr,gpu,power --since 2h\n"
        "  lease plot myjob --what gpu,mem --svg readings.svg --csv readings.csv",
    )
    plot.add_argument("run")
    plot.add_argument(
        "--what",
        default="",
        metavar="NAMES",
        help="by comma: loss, step, step-rate, quiet, cpu, rss, mem, mem-gib, gpu, gpu-mem, power, temperature, clock, "
        "disk, disk-free, inodes, or a metric of the log (default: loss,gpu,mem,disk,step-rate as far as measured)",
    )
    plot.add_argument("--since", default="", metavar="2h", help="only the last so long (default: all that is kept)")
    plot.add_argument("--csv", default="", metavar="FILE", help="write a table instead of drawing; - is stdout")
    plot.add_argument("--svg", default="", metavar="FILE", help="write a picture instead of drawing; - is stdout")
