"""Dialects of S3: what differs between vendors, as data. A bucket's endpoint chooses its row."""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

PATH, HOST = "path", "host"


class Vendor(NamedTuple):
    """One vendor: how its addresses look, and which parts of S3 it differs in."""

    name: str
    hosts: str  # regular expression of its endpoints' host names; group 1, if any, is the region
    endpoint: str  # for people
    region: str = "us-east-1"  # where the host does not name it
    style: str = PATH  # the bucket in the path, or in the host name
    checksum: bool = True  # takes x-amz-checksum-sha256; one that refuses it is asked without
    forbid: str = ""  # its own header for "create only", besides If-None-Match: *
    region_upper: bool = False
    bucket: str = "its name"
    keys: str = ""


VENDORS: Tuple[Vendor, ...] = (
    Vendor(
        "AWS S3", r"s3[.-](?:dualstack\.)?([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?", "none: the region chooses it",
        style=HOST, keys="IAM, an access key; or STS with a session token",
    ),
    Vendor(
        "Cloudflare R2", r"[0-9a-f]+(?:\.eu|\.fedramp)?\.r2\.cloudflarestorage\.com",
        "https://ACCOUNT.r2.cloudflarestorage.com", region="auto", keys="R2, Manage API tokens",
    ),
    Vendor(
        "Backblaze B2", r"s3\.([a-z0-9-]+)\.backblazeb2\.com", "https://s3.REGION.backblazeb2.com",
        checksum=False, keys="Application Keys (not the master key)",
    ),
    Vendor(
        "Lambda", r"files\.([a-z0-9-]+)\.lambda\.ai", "https://files.REGION.lambda.ai",
        bucket="the file system's bucket name (a UUID)", keys="API keys, Filesystem S3 Adapter",
    ),
    Vendor(
        "RunPod", r"s3api-([a-z0-9-]+)\.runpod\.io", "https://s3api-DATACENTER.runpod.io", region_upper=True,
        checksum=False, bucket="the network volume's id", keys="Settings, S3 API Keys",
    ),
    Vendor(
        "Aliyun OSS", r"(?:s3\.)?oss-([a-z0-9-]+?)(?:-internal)?\.aliyuncs\.com", "https://s3.oss-REGION.aliyuncs.com",
        style=HOST, checksum=False, forbid="x-oss-forbid-overwrite", keys="RAM, AccessKey",
    ),
    Vendor(
        "Tencent COS", r"cos(?:-internal)?\.([a-z0-9-]+)\.(?:myqcloud\.com|tencentcos\.cn)",
        "https://cos.REGION.myqcloud.com", style=HOST, checksum=False, forbid="x-cos-forbid-overwrite",
        bucket="NAME-APPID", keys="CAM, API keys (SecretId, SecretKey)",
    ),
    Vendor("Google Cloud Storage", r"storage\.googleapis\.com", "https://storage.googleapis.com", region="auto",
           checksum=False, keys="Settings, Interoperability, HMAC keys"),
)  # fmt: skip
OTHER = Vendor("another S3 server", r"", "http(s)://HOST:PORT", keys="as its administrator gave them")
AWS = VENDORS[0]


def vendor_of(host: str) -> Vendor:
    """Return the row of an endpoint's host; OTHER for MinIO, Ceph and whatever else speaks S3."""
    for vendor in VENDORS:
        if re.match(vendor.hosts + r"\Z", host):
            return vendor
    return OTHER


def region_of(vendor: Vendor, host: str) -> str:
    """Return the region that a host name states, or the vendor's usual one."""
    found = re.match(vendor.hosts + r"\Z", host) if vendor.hosts else None
    named = found.group(1) if found and found.groups() and found.group(1) else ""
    return (named.upper() if vendor.region_upper else named) or vendor.region
