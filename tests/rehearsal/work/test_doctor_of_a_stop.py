"""The doctor knows who ended a run that was stopped on request."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.support.beds import local_bed
from tests.support.lives import Life, eventually


def test_an_own_stop_is_not_a_signal_of_unknown_origin(tmp_path: Path) -> None:
    with local_bed(tmp_path) as bed:
        life = Life(bed, tmp_path / "life")
        try:
            lease = life.run_to_mid_life()
            assert life.lease("stop", life.run_id).wait() == 0, life.explain()
            assert [end["signal"] for end in life.ends()] == [signal.SIGTERM]
            asked = life.lease("doctor", life.run_id, "--json")
            asked.wait()
            assert [one["id"] for one in asked.data["findings"]] == [], asked.said
            assert "Leasehold ended it: stopped on request; its caretaker sent signal 15" in json.dumps(asked.data)
            assert lease.wait() == 6, life.explain()
            again = life.run()
            assert eventually(lambda: len(life.attempts()) == 2 and life.trainer()), life.explain()
            again.kill()
        finally:
            life.release()
            life.close()


def test_a_signal_from_elsewhere_after_an_old_stop_is_not_called_ours(tmp_path: Path) -> None:
    with local_bed(tmp_path) as bed:
        life = Life(bed, tmp_path / "life", job={"run": "if [ $LEASE_ATTEMPT != 1 ]; then exit 143; fi; "
                                                 "exec python3 -I -S train.py"})  # fmt: skip
        try:
            life.run_to_mid_life()
            assert life.lease("stop", life.run_id).wait() == 0, life.explain()
            assert life.run().wait() == 6, life.explain()
            asked = life.lease("doctor", life.run_id, "--json")
            asked.wait()
            assert "SPOT5" in [one["id"] for one in asked.data["findings"]], asked.said
            assert "Leasehold ended it" not in asked.said
        finally:
            life.close()
