"""A whole life in which every folder and file has a name that shells do not expect, on both ends."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.support.beds import Bed, local_bed, ssh_bed
from tests.support.lives import Life


@pytest.mark.parametrize("where", ["local", pytest.param("ssh", marks=[pytest.mark.real_ssh, pytest.mark.full])])
def test_odd_names_everywhere_come_home_and_verify(where: str, odd_name: str, tmp_path: Path) -> None:
    folder = tmp_path / odd_name
    if where == "ssh":
        with ssh_bed(tmp_path, home=folder / "box") as bed:
            live(bed, folder, odd_name)
    else:
        with local_bed(folder) as bed:
            live(bed, folder, odd_name)


def live(bed: Bed, folder: Path, name: str) -> None:
    name = name + ".json"
    code, result = shlex.quote("./" + name), shlex.quote(f"/{name}/{name}")
    life = Life(bed, folder / "life", {"run": f'mkdir "$LEASE_OUT"/{shlex.quote(name)}; cp {code} "$LEASE_OUT"{result}',
                                       "artifacts": {"**/*.json": "json"}})  # fmt: skip
    (life.project / name).write_text('{"odd": true}')
    try:
        for _ in range(2):
            assert life.run(home=name).wait() == 0, life.explain()
        asked = life.lease("status", "--refresh", "--json", home=name)
        assert asked.wait() == 0, life.explain()
        [row] = asked.data["runs"]
        assert (row["state"], row["receipt"], Path(row["home"]).parent.parent) == ("finished", True, life.results(name))
        assert life.lease("verify", life.run_id, home=name).wait() == 0, life.explain()
    finally:
        life.close()
    export = life.results(name) / "export" / life.run_id
    assert json.loads((export / "cells" / "main" / name / name).read_text()) == {"odd": True}
