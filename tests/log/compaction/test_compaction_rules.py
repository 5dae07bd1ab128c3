"""What compaction keeps and what it lets go, one fact at a time, in plain Python and compiled."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from compaction_judge import view_of
from compaction_story import (
    DELETE_RETENTION_MS,
    NOW_MS,
    ORDER,
    Producer,
    Shape,
    Story,
    run,
)

from penstock.log.compaction.chunks import DELETE_HORIZON, CleaningEngine
from penstock.log.compaction.compiled import CompiledEngine
from penstock.log.compaction.order import Order, Segment
from penstock.log.compaction.plain import PlainEngine
from penstock.log.transactions import Aborted
from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CODEC_MASK,
    COMMIT_MARKER,
    CONTROL,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    Header,
    Record,
    build_batch,
    read_records,
)

Pair = tuple[bytes | None, bytes | None]


@pytest.fixture(params=[PlainEngine, CompiledEngine], ids=["plain", "compiled"])
def engine(request: pytest.FixtureRequest) -> CleaningEngine:
    make: Callable[[], CleaningEngine] = request.param
    return make()


class Log(Story):
    """A log written by hand."""

    def __init__(self, segment_bytes: int = 1 << 20) -> None:
        super().__init__(Random(0), Shape(segment_bytes=segment_bytes))

    def batch(
        self,
        *pairs: Pair,
        producer: Producer | None = None,
        compression: int = 0,
        times_ms: Sequence[int] | None = None,
        append_time_ms: int | None = None,
    ) -> bytes:
        """Keys and values; returns the batch as it was written."""
        base, times = self.end_offset, times_ms or [NOW_MS] * len(pairs)
        records = [
            Record(base + place, times[place], key, value, [("h", b"x")])
            for place, (key, value) in enumerate(pairs)
        ]
        made = build_batch(
            records,
            base_offset=base,
            compression=compression,
            leader_epoch=4,
            producer_id=producer.producer_id if producer else -1,
            producer_epoch=producer.epoch if producer else -1,
            base_sequence=producer.sequence if producer else -1,
            transactional=bool(producer and producer.transactional),
            append_time_ms=append_time_ms,
        )
        self.put(made)
        if producer:
            producer.sequence += len(pairs)
            producer.last_offset = self.end_offset - 1
            if producer.transactional and producer.first_offset < 0:
                producer.first_offset = base
        return made

    def roll(self) -> None:
        self._roll()

    def finish(self) -> None:
        """One more batch and a roll: what was written before can be cleaned, and none of it is the
        last batch, which stays in any case."""
        self.batch((b"last", b"v"))
        self.roll()

    def kept(self) -> list[tuple[Header, list[Record]]]:
        return [(header, list(read_records(batch))) for header, batch in self.batches()]

    def seen(self) -> dict[bytes | None, tuple[int, bytes | None]]:
        """Key to offset and value of what a read_committed consumer gets, the last batch aside."""
        return {
            seen.record.key: (seen.record.offset, seen.record.value)
            for seen in view_of(self).committed
            if seen.record.key != b"last"
        }


def test_of_each_key_the_last_value_stays_with_its_offset(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    log.batch((b"b", b"4"), (b"c", b"5"))
    log.finish()
    log.clean(engine)
    assert log.seen() == {b"a": (2, b"3"), b"b": (3, b"4"), b"c": (4, b"5")}


def test_a_batch_of_which_all_stays_is_copied_byte_for_byte(engine: CleaningEngine) -> None:
    log = Log()
    whole = log.batch((b"a", b"1"), (b"b", b"2"), compression=3)
    log.finish()
    log.clean(engine)
    assert next(iter(log.batches()))[1] == whole


@pytest.mark.parametrize("codec", range(5))
def test_a_rewritten_batch_keeps_its_offsets_its_codec_and_its_producer(
    engine: CleaningEngine, codec: int
) -> None:
    log = Log()
    producer = Producer(11, epoch=2, sequence=40)
    log.batch((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), compression=codec, producer=producer)
    log.batch((b"a", b"4"))
    log.finish()
    log.clean(engine)
    header, records = log.kept()[0]
    assert [(record.offset, record.key, record.headers) for record in records] == [
        (1, b"b", [("h", b"x")])
    ]
    assert (header[BASE_OFFSET], header[LAST_OFFSET_DELTA], header[RECORD_COUNT]) == (0, 2, 1)
    assert (header[PRODUCER_ID], header[PRODUCER_EPOCH], header[BASE_SEQUENCE]) == (11, 2, 40)
    assert header[ATTRIBUTES] & CODEC_MASK == codec
    assert header[LEADER_EPOCH] == 4


def test_a_rewritten_batch_counts_time_from_its_first_record_that_stays(
    engine: CleaningEngine,
) -> None:
    log = Log()
    times = [NOW_MS, NOW_MS + 70, NOW_MS + 5]
    log.batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), times_ms=times)
    log.batch((b"a", b"4"))
    log.finish()
    log.clean(engine)
    header, records = log.kept()[0]
    assert [record.timestamp for record in records] == times[1:]
    assert (header[BASE_TIMESTAMP], header[MAX_TIMESTAMP]) == (NOW_MS + 70, NOW_MS + 70)


def test_append_time_stays_the_time_of_every_record(engine: CleaningEngine) -> None:
    log = Log()
    log.batch(
        (b"a", b"1"), (b"b", b"2"), times_ms=[NOW_MS - 9, NOW_MS - 3], append_time_ms=NOW_MS + 1
    )
    log.batch((b"a", b"4"))
    log.finish()
    log.clean(engine)
    header, records = log.kept()[0]
    assert [record.timestamp for record in records] == [NOW_MS + 1]
    assert header[MAX_TIMESTAMP] == NOW_MS + 1


def test_a_tombstone_gets_a_delete_horizon_and_keeps_its_time(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((b"a", b"1"))
    log.batch((b"a", None), (b"b", b"2"), times_ms=[NOW_MS - 40, NOW_MS + 3])
    log.finish()
    log.clean(engine)
    header, records = log.kept()[0]
    assert [(record.key, record.timestamp) for record in records] == [
        (b"a", NOW_MS - 40),
        (b"b", NOW_MS + 3),
    ]
    assert header[ATTRIBUTES] & DELETE_HORIZON
    assert header[BASE_TIMESTAMP] == NOW_MS + DELETE_RETENTION_MS


def test_a_horizon_is_not_moved_by_later_cleanings(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((b"a", None))
    log.finish()
    log.clean(engine)
    log.clean(engine, now_ms=NOW_MS + DELETE_RETENTION_MS - 1)
    assert log.kept()[0][0][BASE_TIMESTAMP] == NOW_MS + DELETE_RETENTION_MS


def test_a_tombstone_goes_when_its_horizon_has_come_and_the_rest_of_its_batch_stays(
    engine: CleaningEngine,
) -> None:
    log = Log()
    log.batch((b"a", None), (b"b", b"2"))
    log.finish()
    log.clean(engine)
    log.clean(engine, now_ms=NOW_MS + DELETE_RETENTION_MS)
    assert log.seen() == {b"b": (1, b"2")}


def test_the_first_cleaning_never_removes_a_tombstone_even_without_retention(
    engine: CleaningEngine,
) -> None:
    log = Log()
    log.batch((b"a", None))
    log.finish()
    log.clean(engine, delete_retention_ms=0)
    assert log.seen() == {b"a": (0, None)}
    log.clean(engine, delete_retention_ms=0)
    assert log.seen() == {}


def test_a_retention_without_end_keeps_tombstones(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((b"a", None), times_ms=[NOW_MS - 1])
    log.finish()
    log.clean(engine, delete_retention_ms=2**63 - 1)
    log.clean(engine, now_ms=2**62)
    assert [record.timestamp for record in log.kept()[0][1]] == [NOW_MS - 1]


def test_a_record_without_a_key_goes_and_is_counted(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((None, b"1"), (b"", b"2"))
    log.finish()
    _, report = log.clean(engine)
    assert log.seen() == {b"": (1, b"2")}
    assert report.keyless_dropped == 1


def test_the_newest_batch_of_a_producer_stays_as_a_header(engine: CleaningEngine) -> None:
    log = Log()
    producer = Producer(11, epoch=2, sequence=40)
    log.producers.append(producer)
    log.batch((b"a", b"1"), (b"a", b"2"), compression=4, producer=producer)
    log.batch((b"a", b"3"))
    log.finish()
    log.clean(engine)
    header, records = log.kept()[0]
    assert records == []
    assert (header[BASE_OFFSET], header[LAST_OFFSET_DELTA], header[RECORD_COUNT]) == (0, 1, 0)
    assert (header[PRODUCER_ID], header[PRODUCER_EPOCH], header[BASE_SEQUENCE]) == (11, 2, 40)
    assert header[ATTRIBUTES] & CODEC_MASK == 0


def test_a_header_goes_when_its_producer_has_written_again_or_is_forgotten(
    engine: CleaningEngine,
) -> None:
    log = Log()
    producer = Producer(11)
    log.producers.append(producer)
    log.batch((b"a", b"1"), producer=producer)
    log.batch((b"a", b"3"))
    log.finish()
    log.clean(engine)
    log.producers.remove(producer)
    log.clean(engine)
    assert [header[PRODUCER_ID] for header, _ in log.kept()] == [-1, -1]


@pytest.mark.parametrize("producer", [None, Producer(99)], ids=["nobody's", "forgotten"])
def test_the_last_batch_of_all_stays_as_a_header(
    engine: CleaningEngine, producer: Producer | None
) -> None:
    log = Log()
    log.batch((b"a", b"1"))
    log.batch((None, b"2"), producer=producer and replace(producer))
    log.roll()
    log.clean(engine)
    assert [(header[BASE_OFFSET], header[RECORD_COUNT]) for header, _ in log.kept()] == [
        (0, 1),
        (1, 0),
    ]


def test_records_below_the_start_of_the_log_go(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((b"a", b"1"), (b"b", b"2"))
    log.finish()
    log.clean(engine, start_offset=1)
    assert log.seen() == {b"b": (1, b"2")}


def transactional(log: Log, producer_id: int = 21) -> Producer:
    producer = Producer(producer_id, transactional=True)
    log.producers.append(producer)
    return producer


def test_an_aborted_record_does_not_hide_an_older_one_and_goes(engine: CleaningEngine) -> None:
    log = Log()
    producer = transactional(log)
    log.batch((b"a", b"1"))
    log.batch((b"a", b"2"), producer=producer)
    log.end_transaction(producer, ABORT_MARKER)
    log.finish()
    log.clean(engine, last_offsets={})
    assert [records for header, records in log.kept() if header[BASE_OFFSET] == 1] == []
    assert log.seen() == {b"a": (0, b"1")}


def test_an_aborted_record_whose_marker_lies_further_on_does_not_hide_an_older_one(
    engine: CleaningEngine,
) -> None:
    log = Log()
    producer = transactional(log)
    log.batch((b"a", b"1"))
    log.batch((b"a", b"2"), producer=producer)
    log.finish()
    log.end_transaction(producer, ABORT_MARKER)
    assert log.order().aborted_later == (Aborted(21, 1, 3, 3),)
    log.clean(engine)
    assert log.seen() == {b"a": (0, b"1")}


def test_a_transaction_index_that_is_missing_refuses_the_cleaning(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((b"a", b"1"))
    log.finish()
    order = log.order()
    segments = tuple(each._replace(has_aborted=True) for each in order.segments)
    with pytest.raises(Exception, match=r"txnindex is not there"):
        run(log.disk, replace(order, segments=segments), engine)


@pytest.mark.parametrize("marker", [ABORT_MARKER, COMMIT_MARKER])
def test_a_marker_outlives_its_transaction_by_the_retention(
    engine: CleaningEngine, marker: int
) -> None:
    log = Log()
    producer = transactional(log)
    log.batch((b"a", b"1"), producer=producer)
    log.end_transaction(producer, marker)
    log.batch((b"a", b"2"))
    log.finish()

    def clean(now_ms: int) -> list[tuple[int, int]]:
        log.clean(engine, now_ms=now_ms, last_offsets={})
        return [
            (header[ATTRIBUTES] & DELETE_HORIZON, header[BASE_TIMESTAMP])
            for header, _ in log.kept()
            if header[ATTRIBUTES] & CONTROL
        ]

    assert clean(NOW_MS) == [(0, NOW_MS)], "its data was still there"
    horizon = NOW_MS + 5 + DELETE_RETENTION_MS
    assert clean(NOW_MS + 5) == [(DELETE_HORIZON, horizon)]
    assert clean(horizon - 1) == [(DELETE_HORIZON, horizon)]
    assert clean(horizon) == []


def test_a_marker_stays_while_a_record_of_its_transaction_does(engine: CleaningEngine) -> None:
    log = Log()
    producer = transactional(log)
    log.batch((b"a", b"1"), producer=producer)
    log.end_transaction(producer, COMMIT_MARKER)
    log.finish()
    for step in range(4):
        log.clean(engine, now_ms=NOW_MS + step * 10 * DELETE_RETENTION_MS, last_offsets={})
    assert [header[ATTRIBUTES] & (CONTROL | DELETE_HORIZON) for header, _ in log.kept()] == [
        0,
        CONTROL,
        0,
    ]


def test_a_marker_is_not_kept_by_another_transaction_of_its_producer(
    engine: CleaningEngine,
) -> None:
    log = Log()
    producer = transactional(log)
    for key in (b"a", b"b"):
        log.batch((key, b"1"), producer=producer)
        log.end_transaction(producer, COMMIT_MARKER)
    log.batch((b"b", b"2"))
    log.finish()
    for _ in range(2):
        log.clean(engine, last_offsets={})
    markers = [header for header, _ in log.kept() if header[ATTRIBUTES] & CONTROL]
    assert [header[ATTRIBUTES] & DELETE_HORIZON for header in markers] == [0, DELETE_HORIZON]


def test_the_marker_that_holds_the_epoch_of_a_producer_stays_as_a_header(
    engine: CleaningEngine,
) -> None:
    log = Log()
    producer = transactional(log)
    log.batch((b"a", b"1"), producer=producer)
    log.end_transaction(producer, COMMIT_MARKER)
    log.batch((b"a", b"2"))
    log.finish()
    for step in range(3):
        now_ms = NOW_MS + step * 10 * DELETE_RETENTION_MS
        log.clean(engine, now_ms=now_ms, last_offsets={}, last_epochs={21: 0})
    markers = [header for header, _ in log.kept() if header[ATTRIBUTES] & CONTROL]
    assert [(header[PRODUCER_ID], header[RECORD_COUNT]) for header in markers] == [(21, 0)]


def test_the_transaction_index_moves_with_the_marker(engine: CleaningEngine) -> None:
    log = Log()
    producer = transactional(log)
    log.batch((b"a", b"1"), producer=producer)
    log.end_transaction(producer, ABORT_MARKER)
    log.finish()
    log.clean(engine)
    assert log.aborted_indexed() == [Aborted(21, 0, 1, 1)]
    log.clean(engine, last_offsets={})  # the emptied batch goes
    log.clean(engine, last_offsets={})
    assert log.aborted_indexed() == []


def test_an_aborted_transaction_is_told_once_in_the_segment_of_its_marker(
    engine: CleaningEngine,
) -> None:
    log = Log()
    producer = transactional(log)
    for _ in range(2):
        log.batch((b"a", b"1"), producer=producer)
        log.end_transaction(producer, ABORT_MARKER)
        log.roll()
    log.finish()
    log.clean(engine, segment_bytes_max=1)
    assert log.aborted_indexed() == [Aborted(21, 0, 1, 1), Aborted(21, 2, 3, 3)]


def test_a_segment_that_reaches_above_the_upper_offset_is_left_alone(
    engine: CleaningEngine,
) -> None:
    log = Log()
    log.batch((b"a", b"1"))
    log.roll()
    log.batch((b"a", b"2"))
    log.roll()
    _, report = log.clean(engine, upper_offset=1)
    assert report.cleaned_to == 1
    assert log.seen() == {b"a": (1, b"2")}
    assert len(log.kept()) == 2


def test_an_order_without_segments_does_nothing(engine: CleaningEngine) -> None:
    log = Log()
    groups, report = run(log.disk, replace(ORDER, first_dirty_offset=7), engine)
    assert (groups, report.cleaned_to, report.groups) == ([], 7, 0)


def test_an_empty_segment_is_merged_with_the_next(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((b"a", b"1"))
    log.roll()
    log.batch((b"a", b"2"))
    log.finish()
    log.clean(engine, segment_bytes_max=1)
    assert [log.size_of(base) > 0 for base in log.bases] == [False, True, False]
    log.clean(engine)
    assert log.bases == [0, 3]


def test_one_batch_with_more_keys_than_the_map_holds_is_cleaned_in_several_passes(
    engine: CleaningEngine,
) -> None:
    log = Log()
    log.batch(*((b"key-%d" % (place % 50), b"%d" % place) for place in range(100)))
    log.finish()
    passes = 0
    while log.first_dirty_offset < log.order().upper_offset:
        log.clean(engine, map_bytes_max=24 * 10)
        passes += 1
    assert log.seen() == {
        b"key-%d" % place: (50 + place, b"%d" % (50 + place)) for place in range(50)
    }
    assert passes == 12  # nine keys each


def test_a_map_that_holds_no_key_refuses(engine: CleaningEngine) -> None:
    log = Log()
    log.batch((b"a", b"1"))
    log.finish()
    with pytest.raises(Exception, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        log.clean(engine, map_bytes_max=24)


def test_times_at_the_end_of_all_numbers_survive(engine: CleaningEngine) -> None:
    log = Log()
    times = [2**63 - 1, 0, -1, 7]
    log.batch(*((b"%d" % place, b"v") for place in range(4)), times_ms=times)
    log.batch((b"0", None))
    log.finish()
    log.clean(engine)
    assert [record.timestamp for record in log.kept()[0][1]] == times[1:]


def test_an_order_travels_between_processes() -> None:

    order = replace(
        ORDER, segments=(Segment(0, 5, 10, -1, False),), aborted_later=(Aborted(1, 2, 3, 4),)
    )
    there: Order = pickle.loads(pickle.dumps(order))
    assert there == order
