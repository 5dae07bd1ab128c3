"""What a cleaning should leave, by a plain dict of the newest record per key.

The judge reads the log as consumers do, before and after, and compares records with all they have:
offset, timestamp, key, value, headers.
"""

from dataclasses import dataclass

from compaction_story import DELETE_RETENTION_MS, Story, noted_indexes

from penstock.log.compaction.chunks import CleaningEngine
from penstock.log.compaction.order import CleaningReport, Order
from penstock.log.directory import INDEX, TIME_INDEX
from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CONTROL,
    LAST_OFFSET_DELTA,
    PRODUCER_ID,
    TRANSACTIONAL,
    Record,
    checksum_holds,
    read_marker,
    read_records,
)

DELETE_HORIZON = 0x40


@dataclass(frozen=True)
class Seen:
    """A record as a consumer gets it, and the delete horizon of its batch (-1: none)."""

    record: Record
    horizon_ms: int


@dataclass(frozen=True)
class View:
    """What both kinds of consumers see of a log, and what it holds besides."""

    uncommitted: list[Seen]
    committed: list[Seen]
    markers: dict[int, tuple[int, bool]]  # offset -> horizon, whether its transaction has batches
    last_offsets: dict[int, int]  # producer -> last offset of its newest data batch


def view_of(story: Story) -> View:
    """Read the whole log. A read_committed consumer gets the aborted transactions from the
    indexes of the segments."""
    waiting = sorted(story.aborted_indexed(), key=lambda each: each.first_offset)
    view = View([], [], {}, {})
    hidden: set[int] = set()
    with_data: set[int] = set()
    previous = -1
    for header, batch in story.batches():
        assert checksum_holds(memoryview(batch), header)
        last = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
        assert header[BASE_OFFSET] > previous, "offsets rise"
        previous = last
        horizon = header[BASE_TIMESTAMP] if header[ATTRIBUTES] & DELETE_HORIZON else -1
        while waiting and waiting[0].first_offset <= last:
            hidden.add(waiting.pop(0).producer_id)
        if header[ATTRIBUTES] & CONTROL:
            marker = read_marker(batch)
            if marker is not None:
                view.markers[last] = horizon, header[PRODUCER_ID] in with_data
                with_data.discard(header[PRODUCER_ID])
            if marker is not None and marker[0] == ABORT_MARKER:
                hidden.discard(header[PRODUCER_ID])
            continue
        if header[ATTRIBUTES] & TRANSACTIONAL:
            with_data.add(header[PRODUCER_ID])
        if header[PRODUCER_ID] >= 0:
            view.last_offsets[header[PRODUCER_ID]] = last
        records = [Seen(record, horizon) for record in read_records(batch)]
        records = [seen for seen in records if seen.record.offset >= story.start_offset]
        view.uncommitted.extend(records)
        if not (header[ATTRIBUTES] & TRANSACTIONAL and header[PRODUCER_ID] in hidden):
            view.committed.extend(records)
    return view


def expected(before: View, order: Order, report: CleaningReport) -> list[Seen]:
    """The records that should be there for read_committed consumers."""
    newest: dict[bytes, int] = {}
    for seen in before.committed:
        record = seen.record
        if record.key is not None and record.offset < report.cleaned_to:
            newest[record.key] = record.offset
    return [seen for seen in before.committed if _stays(seen, newest, order, report)]


def _stays(seen: Seen, newest: dict[bytes, int], order: Order, report: CleaningReport) -> bool:
    record = seen.record
    if record.offset >= report.cleaned_to:
        return True
    if record.key is None or newest[record.key] != record.offset:
        return False
    return record.value is not None or not 0 <= seen.horizon_ms <= order.now_ms


def judge(before: View, after: View, order: Order, report: CleaningReport, story: Story) -> None:
    """Compare what was with what is."""
    should = expected(before, order, report)
    assert [seen.record for seen in after.committed] == [seen.record for seen in should]
    _judge_aborted(after, order, report)
    _judge_horizons(should, after, order, report)
    _judge_markers(before, after, order, report)
    for producer, offset in order.last_offsets.items():
        assert after.last_offsets.get(producer, -1) == offset, "the newest batch is kept"
    judge_indexes(story, order)


def _rewritten_to(order: Order, report: CleaningReport) -> int:
    ends = [each.end_offset for each in order.segments if each.base_offset < report.cleaned_to]
    return max([0, *ends])


def _judge_aborted(after: View, order: Order, report: CleaningReport) -> None:
    """Of what was rewritten nothing aborted is left, whoever looks."""
    visible = {seen.record.offset for seen in after.committed}
    for seen in after.uncommitted:
        offset = seen.record.offset
        assert offset in visible or offset >= _rewritten_to(order, report)


def _judge_horizons(should: list[Seen], after: View, order: Order, report: CleaningReport) -> None:
    fresh = order.now_ms + DELETE_RETENTION_MS
    for was, now in zip(should, after.committed, strict=True):
        if was.horizon_ms >= 0:
            assert now.horizon_ms == was.horizon_ms, "a horizon is set once"
        elif was.record.value is None and was.record.offset < report.cleaned_to:
            assert now.horizon_ms == fresh
        else:
            assert now.horizon_ms in (-1, fresh)


def _judge_markers(before: View, after: View, order: Order, report: CleaningReport) -> None:
    """A marker stays with its transaction; alone, it gets a horizon, and goes after it."""
    expected = {}
    for offset, (horizon, with_data) in before.markers.items():
        if offset >= _rewritten_to(order, report) or with_data or horizon > order.now_ms:
            expected[offset] = horizon
        elif horizon < 0:
            expected[offset] = order.now_ms + DELETE_RETENTION_MS
    assert {offset: horizon for offset, (horizon, _) in after.markers.items()} == expected


def judge_indexes(story: Story, order: Order) -> None:
    """Offset and time indexes are those that appends would have made."""
    for base in story.bases[:-1]:
        offsets, times = noted_indexes(base, story.bytes_of(base), order.index_interval_bytes)
        assert story.disk.files()[story.path(base, INDEX)] == offsets
        assert story.disk.files()[story.path(base, TIME_INDEX)] == times


def tell(story: Story, engine: CleaningEngine, rounds: int = 4) -> None:
    """Write and clean by turns; a clock that sometimes passes horizons."""
    for _ in range(rounds):
        story.write_on()
        if story.dice.random() < 0.2:
            story.start_offset = story.dice.randint(story.start_offset, story.stable_offset)
        before = view_of(story)
        map_bytes = story.dice.choice((24 * 4, 24 * 40, 1 << 16))
        order, report = story.clean(engine, map_bytes_max=map_bytes)
        judge(before, view_of(story), order, report, story)
        story.now_ms += story.dice.choice((0, DELETE_RETENTION_MS // 2, 2 * DELETE_RETENTION_MS))
