"""The peer's side of the sweep bench, run by a Python that has submitit: FOLDER COUNT."""

import sys
import warnings

import submitit  # type: ignore[import-not-found]  # of another Python: tools/submitit_venv.sh

warnings.simplefilter("ignore")  # no sacct on the bed: it looks for result files instead


def cell(x: int) -> dict[str, int]:
    """Do nothing but leave a result."""
    return {"x": x}


def main() -> int:
    """Submit every cell as one array, and wait for every result."""
    folder, count = sys.argv[1], int(sys.argv[2])
    executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
    executor.update_parameters(timeout_min=10, cpus_per_task=1, slurm_array_parallelism=count, name="peer")
    jobs = executor.map_array(cell, range(count))
    found = [job.result() for job in jobs]
    return 0 if found == [{"x": x} for x in range(count)] else 1


if __name__ == "__main__":
    sys.exit(main())
