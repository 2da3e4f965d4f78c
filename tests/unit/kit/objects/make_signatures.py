"""Write signatures.json: requests as botocore signs them. Run by .venv-objects' Python, which has botocore."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any, Dict, List

WHEN = 1795121000  # 2026-11-19
CASES: List[Dict[str, Any]] = [
    {"method": "GET", "path": "/bucket/key", "query": [], "headers": {}},
    {"method": "PUT", "path": "/bucket/a b+c/é\"x%25&=?#\n.txt", "query": [],
     "headers": {"x-amz-meta-a": " two   words "}},
    {"method": "GET", "path": "/bucket",
     "query": [["prefix", "a b/中~*"], ["list-type", "2"], ["continuation-token", "1+/="]],
     "headers": {}},
    {"method": "POST", "path": "/bucket/k", "query": [["uploads", ""]],
     "headers": {"Content-Type": "application/xml"}},
    {"method": "PUT", "path": "/k/../k//x", "query": [["partNumber", "12"], ["uploadId", "aB_-.~"]],
     "headers": {"x-amz-checksum-sha256": "LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE="},
     "token": "a/session+token=="},
    {"method": "PUT", "path": "/k", "query": [], "headers": {"If-None-Match": "*"}, "payload": "UNSIGNED-PAYLOAD"},
    {"method": "GET", "path": "/k", "query": [],
     "headers": {"Range": "bytes=5-9", "If-Match": '"tag"'}, "region": "auto"},
    {"method": "DELETE", "path": "/$HOME;$(id)&|*?[a]{b,c}~!", "query": [["uploadId", "x"]], "headers": {},
     "region": "EU-RO-1"},
]  # fmt: skip


def sign(case: Dict[str, Any]) -> str:
    """Return the Authorization header that botocore makes."""
    from botocore import auth, awsrequest, credentials

    from leasehold.kit.objects.signature import EMPTY_SHA256, quote_path, quote_query

    query = quote_query([(key, value) for key, value in case["query"]])
    url = "https://store.example:9000" + quote_path(case["path"]) + ("?" + query if query else "")
    request = awsrequest.AWSRequest(
        method=case["method"], url=url, headers=dict(case["headers"], Host="store.example:9000")
    )
    payload = case.get("payload", EMPTY_SHA256)

    class Signer(auth.S3SigV4Auth):  # type: ignore[misc]
        def payload(self, request: Any) -> str:
            return str(payload)

        def _should_sha256_sign_payload(self, request: Any) -> bool:
            return True

    moment = datetime.datetime.fromtimestamp(WHEN, datetime.timezone.utc)
    auth.get_current_datetime = lambda remove_tzinfo=True: moment.replace(tzinfo=None) if remove_tzinfo else moment
    keys = credentials.Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", case.get("token"))
    Signer(keys, "s3", case.get("region", "us-east-1")).add_auth(request)
    return str(request.headers["Authorization"])


def main() -> int:
    """Write the file, or with --check compare it."""
    kept = Path(__file__).with_name("signatures.json")
    made = json.dumps([dict(case, authorization=sign(case)) for case in CASES], indent=1, ensure_ascii=False) + "\n"
    if "--check" in sys.argv:
        return int(kept.read_text(encoding="utf-8") != made)
    kept.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
