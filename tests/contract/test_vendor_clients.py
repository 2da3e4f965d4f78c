"""The fakes kept honest: the vendor's own client, schemathesis, and the vendors' own specifications."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold.errors import LandlordError
from leasehold.platforms.landlords.market import Act, Market, RentOrder
from tests.contract.test_markets import NEED, PUBLIC_KEY
from tests.fakes.landlords.schema import faults_of
from tests.fakes.landlords.server import KEY, FakeLandlord, openapi
from tests.fakes.landlords.street import FAKES, fake_landlord, market_on

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".venv-landlords" / "bin"  # tools/landlords_venv.sh makes it
SPECS = {"runpod": "runpod-v2.openapi.json", "lambda": "lambda-1.10.0.openapi.json", "vastai": "vast.openapi.yaml"}
# Known defects of vast.ai's file, 2026-08-07: what it says -> what its own client shows.
VAST_DEFECTS = ("ports", "volume_info", "extra_env", "$.instances: None is not object")


def _tool(name: str) -> str:
    path = TOOLS / name
    if not path.exists():
        pytest.skip(f"no {name} here (tools/landlords_venv.sh makes it)")
    return str(path)


def _spec(name: str) -> dict[str, Any]:
    for folder in (ROOT.parent / "shared", ROOT.parent.parent / "shared"):
        path = folder / "specs" / SPECS[name]
        if path.exists():
            loaded: dict[str, Any] = yaml.load(path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            return loaded
    pytest.skip("no vendor-specifications here (a folder beside the repository)")


# ---------------------------------------------------------------- vast.ai's own client


@pytest.fixture
def vast() -> Iterator[FakeLandlord]:
    """The fake that the client talks to."""
    with fake_landlord("vastai") as fake:
        yield fake


def _vast(fake: FakeLandlord, home: Path, *words: str) -> Any:
    command = [_tool("vastai"), "--raw", "--url", fake.address, *words]
    environment = {**os.environ, "VAST_URL": fake.address, "VAST_API_KEY": KEY, "HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    try:
        return json.loads(done.stdout)
    except ValueError:
        return done.stdout


@pytest.mark.full
def test_vast_client_creates_lists_labels_stops_and_destroys(vast: FakeLandlord, tmp_path: Path) -> None:
    offers = _vast(vast, tmp_path, "search", "offers", "num_gpus=1 gpu_name=RTX_4090")
    assert [offer["gpu_name"] for offer in offers] == ["RTX 4090", "RTX 4090"]
    words = ("--image", "pytorch/pytorch", "--disk", "40", "--ssh", "--direct", "--label", "lease-one")
    made = _vast(vast, tmp_path, "create", "instance", str(offers[0]["id"]), *words)
    id = str(made["new_contract"])
    vast.clock.pass_s(300)
    shown = _vast(vast, tmp_path, "show", "instance", id)
    assert (shown["label"], shown["actual_status"]) == ("lease-one", "running")
    box = vast.world.boxes[id]
    assert box.address is not None
    assert _vast(vast, tmp_path, "ssh-url", id).strip() == f"ssh://root@{box.address[0]}:{box.address[1]}"
    _vast(vast, tmp_path, "label", "instance", id, "lease-two")
    _vast(vast, tmp_path, "stop", "instance", id)
    listed = _vast(vast, tmp_path, "show", "instances")
    assert [(one["label"], one["intended_status"]) for one in listed] == [("lease-two", "stopped")]
    _vast(vast, tmp_path, "destroy", "instance", id, "-y")
    assert _vast(vast, tmp_path, "show", "instances") == []


@pytest.mark.full
def test_our_adapter_sees_what_the_vast_client_made(vast: FakeLandlord, tmp_path: Path) -> None:
    words = ("--image", "pytorch/pytorch", "--disk", "40", "--ssh", "--direct", "--label", "lease-one")
    made = _vast(vast, tmp_path, "create", "instance", "101001", *words)
    held = market_on(vast).holdings()
    assert [(one.id, one.label) for one in held] == [(str(made["new_contract"]), "lease-one")]


@pytest.mark.full
def test_vast_client_is_refused_with_a_wrong_key(vast: FakeLandlord, tmp_path: Path) -> None:
    vast.key = "another-key-0123456789"
    command = [_tool("vastai"), "--raw", "--url", vast.address, "show", "instances"]
    environment = {**os.environ, "VAST_API_KEY": KEY, "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "Invalid user key" in done.stdout + done.stderr


# ---------------------------------------------------------------- schemathesis


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(FAKES))
def test_schemathesis_finds_no_answer_outside_the_schema(name: str, tmp_path: Path) -> None:
    with fake_landlord(name) as fake:
        document = tmp_path / "openapi.json"
        document.write_text(json.dumps(openapi(fake)), "utf-8")
        key = KEY if name == "autodl-pro" else f"Bearer {KEY}"
        checks = "not_a_server_error,status_code_conformance,response_schema_conformance"
        command = [_tool("schemathesis"), "run", str(document), "--url", fake.address, "-H", f"Authorization: {key}"]
        command += ["--checks", checks, "--max-examples", "15", "--phases", "examples,fuzzing", "--no-color"]
        command += ["--seed", os.environ.get("LEASEHOLD_SEED", "20261119")]  # another one looks elsewhere
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


# ---------------------------------------------------------------- the vendors' own files


def _live(fake: FakeLandlord, market: Market) -> None:
    """Do all that an adapter does once, so that the fake answers every operation."""
    name = fake.name
    start = fake.clock()
    market.account()
    id = market.rent(RentOrder("lease-spec", market.offers(NEED[name])[0], disk_gb=50, public_key=PUBLIC_KEY))
    add = getattr(fake, "add_volume", None)
    stores = [add("data", 100)] if add else []
    fake.clock.pass_s(600)
    market.holdings()
    market.holding(id)
    for verb in (Act.PARK, Act.RESUME):
        if name != "lambda":
            market.act(id, verb)
            fake.clock.pass_s(600)
            market.holdings()
    market.billed(id, start)
    market.act(id, Act.RELEASE)
    for one in stores:
        market.act(f"volume/{one.id}", Act.DELETE_STORAGE)
    market.holding(id)
    with pytest.raises(LandlordError):
        market_on(fake, "another-key-0123456789").holdings()


@pytest.mark.parametrize("name", sorted(SPECS))
def test_answers_fit_the_vendors_own_specification(name: str) -> None:
    spec = _spec(name)
    with fake_landlord(name) as fake:
        _live(fake, market_on(fake))
        checked = [_wrong(spec, name, entry) for entry in fake.log]
    assert len(checked) > 8
    assert [what for wrong in checked for what in wrong] == []


def _wrong(spec: dict[str, Any], name: str, entry: tuple[str, str, int, Any]) -> list[str]:
    """List what the vendor's own file says against one answer."""
    method, route, status, value = entry
    wanted = route.rstrip("/").split("/")
    for path, item in spec["paths"].items():
        words = path.rstrip("/").split("/")
        if len(words) == len(wanted) and all(b == "{}" or a == b for a, b in zip(words, wanted, strict=True)):
            answers = item.get(method.lower(), {}).get("responses", {})
            found = answers.get(str(status)) or answers.get("default")
            if found is None:
                return [f"{method} {route}: {status} is not in the vendor's file"]
            while "$ref" in found:
                found = spec["components"]["responses"][found["$ref"].rpartition("/")[2]]
            content = next(iter(found.get("content", {}).values()), None)
            wrong = faults_of(value, content["schema"], spec) if content else []
            skipped = VAST_DEFECTS if name == "vastai" else ()
            return [f"{method} {route} {status}: {what}" for what in wrong if not any(word in what for word in skipped)]
    return [f"{method} {route} is not in the vendor's file"]
