"""Signatures are those of botocore, byte for byte; the kept ones are those that botocore makes today."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.kit.objects.signature import EMPTY_SHA256, Keys, signed
from tests.support import object_stores

HERE = Path(__file__).parent
CASES = json.loads((HERE / "signatures.json").read_text(encoding="utf-8"))
WHEN = 1795121000


@pytest.mark.parametrize("case", CASES, ids=lambda case: "%(method)s %(path)r" % case)
def test_a_request_is_signed_as_botocore_signs_it(case: Dict[str, Any]) -> None:
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    keys = Keys("AKIDEXAMPLE", secret, case.get("token", ""), case.get("region", "us-east-1"))
    headers = dict(case["headers"], Host="store.example:9000")
    query = [(key, value) for key, value in case["query"]]
    found = signed(keys, case["method"], case["path"], query, headers, case.get("payload", EMPTY_SHA256), WHEN)
    assert found["Authorization"] == case["authorization"]


@pytest.mark.object_stores
@pytest.mark.full
def test_the_kept_signatures_are_those_of_botocore() -> None:
    argv = [object_stores.program("python"), str(HERE / "make_signatures.py"), "--check"]
    source = str(Path(__file__).resolve().parents[4] / "src")
    assert subprocess.run(argv, env=dict(os.environ, PYTHONPATH=source), check=False).returncode == 0
