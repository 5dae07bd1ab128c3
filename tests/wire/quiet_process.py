"""Memory that a reader takes, measured where nothing else runs: nodes of other tests allocate."""

import tracemalloc

from penstock.wire.codec import read
from penstock.wire.primitives import Malformed


def attempt(cls: type, version: int, data: bytes) -> None:
    try:
        read(cls, version, data)
    except Malformed:
        pass


def peak_of_reading(cls: type, version: int, data: bytes) -> int:
    """In bytes, the code for this version being compiled already."""
    attempt(cls, version, b"")
    tracemalloc.start()
    try:
        attempt(cls, version, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
