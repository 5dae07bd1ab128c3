"""Markers, the last stable offset and the transaction index."""

import pytest
from log_builder import NOW_MS, append, batch, disk_of, new_log, offsets, reopen, settle

from penstock.errors import InvalidProducerEpoch, TransactionCoordinatorFenced
from penstock.log.directory import TXN_INDEX
from penstock.log.log import Log
from penstock.log.transactions import Aborted, aborted_entries, collect_aborted, pack_aborted
from penstock.wire.batch import ABORT_MARKER, COMMIT_MARKER


def write(log: Log, producer_id: int, sequence: int, epoch: int = 0) -> int:
    data = batch(b"t", producer=(producer_id, epoch, sequence), transactional=True)
    return offsets(append(log, data))[0]


def end(
    log: Log,
    producer_id: int,
    marker: int,
    *,
    epoch: int = 0,
    coordinator: int = 0,
    v2: bool = False,
) -> int:
    return log.append_control(
        marker,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
        leader_epoch=0,
        now_ms=NOW_MS,
        transactions_v2=v2,
    )


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction() -> None:
    log = new_log()
    append(log, batch(b"plain"))
    assert (write(log, 1, 0), write(log, 2, 0)) == (1, 2)
    assert log.last_stable_offset == 1
    assert end(log, 1, COMMIT_MARKER) == 3
    assert log.last_stable_offset == 2
    end(log, 2, ABORT_MARKER)
    assert log.last_stable_offset == log.end_offset == 5


def test_a_transaction_is_stable_once_its_marker_is_replicated() -> None:
    log = new_log()
    write(log, 1, 0)
    end(log, 1, COMMIT_MARKER)
    append(log, batch(b"after"))
    assert log.stable_offset(1) == 0
    assert log.stable_offset(2) == 2
    assert log.stable_offset(3) == 3


def test_only_aborted_transactions_in_the_range_are_named() -> None:
    log = new_log()
    first, second = write(log, 1, 0), write(log, 2, 0)
    end(log, 1, ABORT_MARKER)
    end(log, 2, COMMIT_MARKER)
    third = write(log, 1, 1)
    last = end(log, 1, ABORT_MARKER)
    assert (first, second, third) == (0, 1, 4)
    assert log.aborted_transactions(0, 10) == [(1, 0), (1, 4)]
    assert log.aborted_transactions(0, 4) == [(1, 0)]
    assert log.aborted_transactions(3, 10) == [(1, 4)]
    assert log.aborted_transactions(last + 1, 10) == []


def test_aborted_transactions_are_found_across_segments_and_restarts() -> None:
    log = new_log()
    write(log, 1, 0)
    for _ in range(30):
        append(log, batch(b"z" * 200))
    end(log, 1, ABORT_MARKER)
    for _ in range(30):
        append(log, batch(b"z" * 200))
    assert len(log.closed) > 4
    assert log.aborted_transactions(0, 5) == [(1, 0)]
    settle(log)
    log.close()
    names = [name for name in disk_of(log).files() if name.endswith(TXN_INDEX)]
    assert len(names) == 1
    assert len(disk_of(log).files()[names[0]]) == 34
    assert reopen(disk_of(log)).aborted_transactions(0, 5) == [(1, 0)]


def test_a_marker_of_an_old_epoch_or_coordinator_is_refused() -> None:
    log = new_log()
    write(log, 1, 0, epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        end(log, 1, COMMIT_MARKER, epoch=2)
    end(log, 1, COMMIT_MARKER, epoch=3, coordinator=5)
    with pytest.raises(TransactionCoordinatorFenced):
        end(log, 1, COMMIT_MARKER, epoch=3, coordinator=4)


def test_a_second_version_marker_needs_a_higher_epoch_unless_nothing_is_open() -> None:
    log = new_log()
    write(log, 1, 0, epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        end(log, 1, ABORT_MARKER, epoch=3, v2=True)
    assert end(log, 1, ABORT_MARKER, epoch=4, v2=True) == 1
    assert end(log, 1, ABORT_MARKER, epoch=4, v2=True) == 2
    assert log.aborted_transactions(0, 10) == [(1, 0)]


def test_after_a_marker_with_a_new_epoch_the_producer_begins_at_zero() -> None:
    log = new_log()
    write(log, 1, 0, epoch=3)
    end(log, 1, COMMIT_MARKER, epoch=4, v2=True)
    assert write(log, 1, 0, epoch=4) == 2


def test_a_marker_without_a_transaction_leaves_no_index_entry() -> None:
    log = new_log()
    end(log, 1, ABORT_MARKER)
    assert log.aborted_transactions(0, 10) == []
    assert log.last_stable_offset == 1


def test_index_entries_hold_what_kafka_reads() -> None:
    entry = Aborted(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=15)
    data = pack_aborted(entry)
    assert data.hex() == "0000" + "".join(f"{number:016x}" for number in entry)
    assert list(aborted_entries(data + data[:20])) == [entry]


def test_the_search_ends_where_the_log_was_stable_beyond_the_range() -> None:
    data = pack_aborted(Aborted(1, 0, 5, 6)) + pack_aborted(Aborted(2, 8, 9, 10))
    found: list[tuple[int, int]] = []
    assert collect_aborted(data, 0, 6, found)
    assert found == [(1, 0)]
    assert not collect_aborted(data, 0, 11, [])
