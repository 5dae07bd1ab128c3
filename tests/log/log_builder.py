"""Logs and batches for the tests of this room."""

from collections.abc import Sequence
from functools import partial

from penstock.errors import KafkaError
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.recovery import open_log
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import Header, Record, build_batch, check_produced
from penstock.world import Cold, DiskFailed, File, FileLost

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
DIRECTORY = "events-0"
SMALL = LogConfig(
    segment_bytes=2_000,
    index_interval_bytes=200,
    retention_ms=-1,
    timestamp_after_ms_max=2**62,
    producer_expiration_ms=2**62,
)


class SyncRounds:
    """Sync rounds of a log, one at a time; one may never end."""

    def __init__(self) -> None:
        self._under_way = False

    def begin(self, log: Log) -> None:
        if self._under_way:
            return
        files, offset = log.begin_sync()
        left = [len(files)]
        if not files:
            return

        def synced(file: File, failure: DiskFailed | None) -> None:
            assert _is_synced(log, file, failure)
            left[0] -= 1
            if left[0] == 0:
                self._under_way = False
                log.synced_to(offset)

        self._under_way = True
        for file in files:
            file.sync(partial(synced, file))

    def forget(self) -> None:
        """The process is gone, and its round with it."""
        self._under_way = False


def batch(
    *values: bytes,
    timestamp: int = NOW_MS,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
    compression: int = 0,
) -> bytes:
    """A produced batch; `producer` is (id, epoch, first sequence)."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    records = [Record(place, timestamp + place, None, value) for place, value in enumerate(values)]
    return build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        compression=compression,
    )


def ignore(failure: DiskFailed | None) -> None:
    """For work whose end the test does not wait for."""
    assert failure is None


def produced(*batches: bytes) -> list[tuple[memoryview, Header]]:
    return [(memoryview(each), check_produced(memoryview(each))) for each in batches]


def append(
    log: Log, *batches: bytes, epoch: int = 0, now_ms: int = NOW_MS
) -> list[int | KafkaError]:
    return log.append(produced(*batches), epoch, now_ms)


def new_log(disk: SimDisk | None = None, config: LogConfig = SMALL) -> Log:
    return Log.create(disk or SimDisk(), DIRECTORY, TOPIC_ID, config, NOW_MS)


def reopen(
    disk: SimDisk,
    config: LogConfig = SMALL,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    start_offset: int = 0,
    salvage: bool = False,
) -> Log:
    return open_log(
        disk,
        DIRECTORY,
        config,
        now_ms=NOW_MS,
        clean=clean,
        recovery_point=recovery_point,
        start_offset=start_offset,
        salvage=salvage,
    )


def disk_of(log: Log) -> SimDisk:
    assert isinstance(log.disk, SimDisk)
    return log.disk


def settle(log: Log) -> None:
    """Let the work off the loop finish."""
    disk_of(log).run_callbacks()


def forget_old(
    log: Log,
    now_ms: int = NOW_MS,
    *,
    upper_offset: int | None = None,
    renamed: list[str] | None = None,
) -> int:
    """How many segments retention takes now; `renamed` is told of their files in time."""
    upper = log.end_offset if upper_offset is None else upper_offset
    told: list[str] = [] if renamed is None else renamed
    return log.delete_old_segments(now_ms, upper, told.extend)


def sync(log: Log) -> None:
    """One sync round."""
    files, offset = log.begin_sync()
    synced: list[bool] = []

    def ended(file: File, failure: DiskFailed | None) -> None:
        synced.append(_is_synced(log, file, failure))

    for file in files:
        file.sync(partial(ended, file))
    settle(log)
    assert synced == [True] * len(files)
    log.synced_to(offset)


def _is_synced(log: Log, file: File, failure: DiskFailed | None) -> bool:
    """Return whether a sync went well. The log itself renames files of closed segments."""
    return failure is None or (isinstance(failure, FileLost) and file is not log.active.file)


def stored(log: Log, offset: int | None = None, max_bytes: int = 2**31) -> bytes:
    """Everything from an offset on, read the way a consumer does."""
    at = log.start_offset if offset is None else offset
    parts: list[bytes] = []
    while at < log.end_offset:
        found = warmly(log, at, max_bytes)
        assert found, f"nothing at {at}, although the log ends at {log.end_offset}"
        parts.append(found)
        at = end_of(found)
    return b"".join(parts)


def warmly(log: Log, offset: int, max_bytes: int, upper_offset: int | None = None) -> bytes:
    upper = log.end_offset if upper_offset is None else upper_offset
    while True:
        try:
            found = log.read(offset, max_bytes, upper_offset=upper, min_one_batch=True)
            if found.file is None:
                return b""
            return found.file.read(found.position, found.size)
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, ignore)
            settle(log)


def end_of(batches: bytes) -> int:
    """The offset after the last of some whole batches."""
    return split(batches)[-1][1]


def split(batches: bytes) -> list[tuple[int, int, bytes]]:
    """(base offset, end offset, bytes) of each batch; all of them must be whole."""
    found: list[tuple[int, int, bytes]] = []
    position = 0
    while position < len(batches):
        base = int.from_bytes(batches[position : position + 8])
        size = 12 + int.from_bytes(batches[position + 8 : position + 12])
        last = base + int.from_bytes(batches[position + 23 : position + 27])
        assert position + size <= len(batches), "a batch is cut short"
        found.append((base, last + 1, batches[position : position + size]))
        position += size
    return found


def offsets(results: Sequence[int | KafkaError]) -> list[int]:
    assert all(type(result) is int for result in results), results
    return [result for result in results if isinstance(result, int)]
