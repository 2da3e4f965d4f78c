"""Experiment trackers and hubs: which secret each uses, and how it reports whose key that is. Data.

Each row was checked against the tracker's public documentation or client source; `source` says where. Neptune is
not here: no public source that we could read documents such a call for its present tokens.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

BASIC, BEARER, RAW = "basic", "bearer", "raw"  # user `api` and the key; `Bearer key`; the key alone


class Tracker(NamedTuple):
    """One service's who-am-I request."""

    name: str
    secrets: Tuple[str, ...]  # the usual one first
    base: str  # the address of its server; empty: only the variable gives it
    base_variable: str
    path: str
    auth: str
    account: Tuple[str, ...]  # dotted paths of the account's name in the answer, tried in order
    proof: str  # a dotted path that must not be null in a good answer; empty: any JSON object is good
    page: str  # where a person gets a new key
    source: str
    body: str = ""  # if set, the request is a POST
    origin_only: bool = False  # only scheme and host of the base variable are used
    base_end: str = ""  # the required end of the base
    offline: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()  # variables (and their values) that switch it off


_YES = ("1", "true", "yes", "on")
# fmt: off
TRACKERS = (
    Tracker(
        "Weights & Biases", ("WANDB_API_KEY",), "https://api.wandb.ai", "WANDB_BASE_URL", "/graphql",
        auth=BASIC, account=("data.viewer.entity", "data.viewer.username"), proof="data.viewer",
        body='{"query": "query Viewer { viewer { id entity username } }"}',
        page="https://wandb.ai/authorize",
        source="wandb/wandb: sdk/internal/internal_api.py viewer() and validate_api_key(); a bad key has no viewer",
        offline=(("WANDB_MODE", ("offline", "disabled", "dryrun")), ("WANDB_DISABLED", _YES)),
    ),
    Tracker(
        "Hugging Face", ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), "https://huggingface.co", "HF_ENDPOINT",
        "/api/whoami-v2", auth=BEARER, account=("name",), proof="name",
        page="https://huggingface.co/settings/tokens",
        source="huggingface/huggingface_hub: HfApi.whoami, GET /api/whoami-v2",
        offline=(("HF_HUB_OFFLINE", _YES),),
    ),
    Tracker(
        "Comet", ("COMET_API_KEY",), "https://www.comet.com", "COMET_URL_OVERRIDE", "/api/rest/v2/account-details",
        auth=RAW, account=("userName", "defaultWorkspaceName"), proof="",
        page="https://www.comet.com/account-settings/apiKeys",
        source="comet.com/docs REST API overview (key in Authorization); comet-ml/opik: account-details",
        origin_only=True,
        offline=(("COMET_MODE", ("disabled", "offline")), ("COMET_OFFLINE", _YES)),
    ),
    Tracker(
        "SwanLab", ("SWANLAB_API_KEY",), "https://api.swanlab.cn/api", "SWANLAB_API_HOST", "/login/api_key",
        auth=RAW, account=("userInfo.username", "userInfo.name"), proof="userInfo",
        body="{}",
        page="https://swanlab.cn/settings",
        source="SwanLab clients: POST /api/login/api_key with the key in `authorization`, answers userInfo",
        base_end="/api",
        offline=(("SWANLAB_MODE", ("offline", "local", "disabled")),),
    ),
    Tracker(
        "MLflow", ("MLFLOW_TRACKING_TOKEN",), "", "MLFLOW_TRACKING_URI", "/api/2.0/mlflow/experiments/search",
        auth=BEARER, account=(), proof="",
        body='{"max_results": 1}',
        page="your MLflow server",
        source="mlflow.org/docs rest-api: POST 2.0/mlflow/experiments/search",
    ),
)
# fmt: on


def tracker_of(secret: str) -> Optional[Tracker]:
    """Return whose secret this is, or None."""
    return next((tracker for tracker in TRACKERS if secret in tracker.secrets), None)
