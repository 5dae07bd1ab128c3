"""Waits for the end of processes that are no children of this one."""

import os
import select

END_SECONDS_MAX = 20.0


def wait_for_end(process: int) -> None:
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], END_SECONDS_MAX)
        assert ended, f"process {process} is still there"
    finally:
        os.close(descriptor)
