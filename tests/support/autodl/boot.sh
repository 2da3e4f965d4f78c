#!/bin/bash
# The container's first process: it runs the ssh door, reaps orphans, and its end is the end of all others.
trap 'exit 0' TERM INT
cd /
/usr/sbin/sshd -D -e -p "$1" &
wait $!
