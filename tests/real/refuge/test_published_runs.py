"""A run whose data comes from a bucket and whose results go to one: the store's own files are read."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from leasehold.kit.objects.object_place import open_bucket
from leasehold.kit.refuge.read_object import put_object
from tests.support import object_stores
from tests.support.fault_store import FaultStore, error
from tests.support.front import Front, front

TRAINER = """
import json, os
with open(os.environ["LEASE_DATA"] + "/corpus/words.txt") as file:
    words = file.read().split()
with open(os.environ["LEASE_OUT"] + "/result.json", "w") as file:
    json.dump({"words": len(words)}, file)
print("step 1 loss 0.5", flush=True)
"""
KEYS = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"]


def launch(person: Front, folder: str) -> str:
    """Run the job to its end; return what was said."""
    person.write("train.py", TRAINER)
    data = [{"from": f"s3://{object_stores.BUCKET}/{folder}/data/", "to": "corpus"}]
    person.job(secrets=KEYS, downloads=data, publish=f"s3://{object_stores.BUCKET}/{folder}/out")
    done = person.lease("run", "--skip-gate", "smoke", "--because", "its data is on the box")
    assert done.code == 0, done.said
    return done.said


@pytest.mark.object_stores
@pytest.mark.parametrize("name", sorted(object_stores.STORES))
def test_data_comes_from_a_bucket_and_results_go_there(tmp_path: Path, name: str) -> None:
    store, folder = object_stores.store(name), uuid.uuid4().hex
    place = open_bucket(f"s3://{object_stores.BUCKET}/{folder}", store.environ)
    put_object(place, "data/words.txt", b"three short words")
    with front(tmp_path, store.environ) as person:
        said = launch(person, folder)
        (run,) = person.runs_on_box()
        published = b"".join(place.get(f"out/{run}/cells/main/result.json"))
        assert json.loads(published) == {"words": 3}
        (receipt,) = (person.project / "lease-results" / "export").glob("*/receipt.json")
        assert json.loads(receipt.read_text())["published"]["equal"] is True
        assert "read back there: 1 file" in said and "the same as at home" in said
    secret = object_stores.SECRET.encode()
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert [path.name for path in kept if path.name != "secrets.json"] == []
    place.close()


def test_results_that_cannot_be_published_come_home_all_the_same(tmp_path: Path) -> None:
    with FaultStore() as store, front(tmp_path, store.environ) as person:
        store.objects["x/data/words.txt"] = b"one two"
        store.order = lambda asked: error(403, "AccessDenied") if asked.method == "PUT" else None
        said = launch(person, "x")
        assert "NOT published to s3://kept/x/out" in said and "the keys may not do this" in said
        (receipt,) = (person.project / "lease-results" / "export").glob("*/receipt.json")
        assert "may not do this" in json.loads(receipt.read_text())["published"]["problem"]
