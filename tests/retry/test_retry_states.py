"""Pending keys, seen events, held records, owned partitions: states of one process, and pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.records import Record
from penstock.model import TopicPartition
from penstock.retry import pending_keys as pending_module
from penstock.retry.delay_queue import DelayQueue
from penstock.retry.idempotency_keys import IdempotencyKeys
from penstock.retry.ownership import Ownership, SourcePartition
from penstock.retry.pending_keys import NotPending, PendingKeys, TooManyWait

KEYS = st.sampled_from([b"", b"a", b"ab", b"\x00" * 9])
CHANGES = st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 6)), max_size=40)


# -- pending


@given(CHANGES)
def test_what_was_written_restores_the_same_state(changes: list[tuple[bool, bytes, int]]) -> None:
    pending, written, model = PendingKeys(), [], set[tuple[bytes, int]]()
    for adds, key, offset in changes:
        change = pending.add(key, offset) if adds else pending.remove(key, offset)
        assert (change is None) == (((key, offset) in model) == adds)
        if change is not None:
            written.append((change.key, change.value))
        (model.add if adds else model.discard)((key, offset))
    restored, compacted = PendingKeys(), PendingKeys()
    restored.restore(written)
    compacted.restore(dict(written).items())
    for each in (pending, restored, compacted):
        assert len(each) == len(model)
        for key in (b"", b"a", b"ab", b"\x00" * 9):
            for offset in range(7):
                assert each.waits(key, offset) == ((key, offset) in model)
                first = min((at for named, at in model if named == key), default=offset)
                assert each.may_try(key, offset) == (offset <= first)


def test_what_is_none_of_its_records_is_refused() -> None:
    for name in (None, b"short"):
        with pytest.raises(NotPending):
            PendingKeys().restore([(name, b"waits")])


def test_records_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_module, "WAITING_PER_KEY_MAX", 2)
    monkeypatch.setattr(pending_module, "WAITING_MAX", 3)
    pending = PendingKeys()
    for key, offset in ((b"a", 1), (b"a", 2), (b"b", 3)):
        pending.add(key, offset)
    for key in (b"a", b"b"):
        with pytest.raises(TooManyWait):
            pending.add(key, 9)
    assert pending.add(b"a", 1) is None, "one that waits already takes no room"


# -- seen


@given(st.lists(st.tuples(st.sampled_from([b"x", b"y", b"z"]), st.integers(0, 50)), max_size=30))
def test_an_event_is_known_within_its_window(events: list[tuple[bytes, int]]) -> None:
    seen, handled, now_ms = IdempotencyKeys(window_ms=40), dict[bytes, int](), 0
    for key, later_ms in events:
        now_ms += later_ms
        for each in (b"x", b"y", b"z"):
            assert seen.holds(each, now_ms) == (now_ms - handled.get(each, -99) < 40)
        seen.add(key, now_ms, now_ms)
        handled[key] = now_ms


def test_the_oldest_events_are_forgotten_when_there_are_too_many() -> None:
    seen = IdempotencyKeys(window_ms=1_000, keys_max=2)
    for number, key in enumerate((b"a", b"b", b"c")):
        seen.add(key, number, number)
    assert [seen.holds(key, 3) for key in (b"a", b"b", b"c")] == [False, True, True]
    assert (len(seen), seen.forgotten_early) == (2, 1)


# -- held records


def held(partition: int, offset: int) -> Record[bytes, bytes]:
    return Record("t.retry", partition, offset, None, b"")


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100)), max_size=30), st.integers(0, 100)
)
def test_records_leave_the_shelf_in_the_order_of_their_partition(
    puts: list[tuple[int, int]], now_ms: int
) -> None:
    delay_queue = DelayQueue()
    for offset, (partition, due_ms) in enumerate(puts):
        delay_queue.put(held(partition, offset), due_ms)
    taken = delay_queue.take_due(now_ms)
    for partition in range(3):
        mine = [(offset, due) for offset, (p, due) in enumerate(puts) if p == partition]
        ready = []
        for offset, due_ms in mine:
            if due_ms > now_ms:
                break
            ready.append(offset)
        assert [each.offset for each in taken if each.partition == partition] == ready
        assert delay_queue.holds(TopicPartition("t.retry", partition)) == (len(ready) < len(mine))
    next_ms = delay_queue.next_due_ms()
    assert (
        next_ms is None
        if not delay_queue.topic_partitions
        else next_ms is not None and next_ms > now_ms
    )
    delay_queue.drop([TopicPartition("t.retry", each) for each in range(3)])
    assert len(delay_queue) == 0 and delay_queue.next_due_ms() is None


# -- owned partitions

TOGETHER = {"s": ["s.5s", "s.1m"], "alone": []}
PLACES = [TopicPartition(t, p) for t in ("s", "s.5s", "s.1m", "alone") for p in range(2)]


@given(st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from(PLACES))), max_size=20))
def test_a_source_is_worked_on_exactly_while_all_that_belongs_to_it_is_owned(
    moves: list[tuple[bool, set[TopicPartition]]],
) -> None:
    ownership, owned, whole = Ownership(TOGETHER), set[TopicPartition](), set[SourcePartition]()
    for gains, topic_partitions in moves:
        if gains:
            owned |= topic_partitions
            whole |= set(ownership.gained(sorted(topic_partitions)))
        else:
            owned -= topic_partitions
            whole -= set(ownership.lost(sorted(topic_partitions)))
        expected = {
            SourcePartition(topic, p)
            for topic, steps in TOGETHER.items()
            for p in range(2)
            if all(TopicPartition(each, p) in owned for each in (topic, *steps))
        }
        assert whole == expected == {s for s in whole if ownership.is_whole(s)}
        assert set(ownership.separated) == {
            each for each in owned if ownership.source_of(each) not in expected
        }
