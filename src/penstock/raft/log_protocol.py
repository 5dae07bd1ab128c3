"""What the quorum needs of the log under it. `stored_log.py` gives it on a disk."""

from typing import Protocol

from penstock.world import Done

BATCH_BYTES_MAX = 8 * 1024 * 1024


class MetadataLog(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def append(self, data: bytes) -> None:
        """One whole batch that carries its offsets and epoch. DiskFailed, or it is in."""
        ...

    def read_now(self, offset: int, size_max: int) -> bytes:
        """Whole batches, the first holding `offset`, at least one; empty at the end."""
        ...

    def flush(self, done: Done) -> None:
        """Sync what was appended before this call."""
        ...

    def delete_before(self, offset: int) -> None:
        """Let go of whole segments below `offset`."""
        ...

    def close(self) -> None: ...
