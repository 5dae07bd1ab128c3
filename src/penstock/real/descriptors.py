"""File descriptors: how many this process may have, and who may take them.

Connections come from outside and may be many; files are what the node lives on. A share of the
descriptors is therefore kept from connections.
"""

import os
import resource

KEPT_FOR_FILES_MIN = 64
KEPT_FOR_FILES_SHARE = 4  # a quarter


def raise_limit() -> None:
    """As many as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def connection_fd_max() -> int:
    """A connection with a higher descriptor is refused; the lowest free one is always used."""
    return limit() - max(KEPT_FOR_FILES_MIN, limit() // KEPT_FOR_FILES_SHARE)


def left() -> int:
    """Descriptors that are still free, less a few for what must go on."""
    directory = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    return limit() - len(os.listdir(directory)) - KEPT_FOR_FILES_MIN
