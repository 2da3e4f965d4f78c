"""Switch checksum and segmentation offload off on an interface: a userspace relay must see packets as they travel.

python bench/offload.py NAME, in the interface's namespace; what `ethtool -K NAME tx off tso off gso off` does.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import sys

_SIOCETHTOOL = 0x8946
_SET_TX_CHECKSUM, _SET_TSO, _SET_GSO = 0x17, 0x1F, 0x24


def main() -> None:
    """Send the three requests."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for command in (_SET_TSO, _SET_GSO, _SET_TX_CHECKSUM):
            value = array.array("B", struct.pack("II", command, 0))
            address, _ = value.buffer_info()
            fcntl.ioctl(handle, _SIOCETHTOOL, struct.pack("16sP8x", sys.argv[1].encode(), address))


if __name__ == "__main__":
    main()
