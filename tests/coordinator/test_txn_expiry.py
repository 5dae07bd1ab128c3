"""Time: transactions end with their timeout, ids are forgotten when nobody uses them."""

import pytest
from txn_story import A0, B0, NAME, TIMEOUT_MS, Story, error_of, on

from penstock.coordinator.transactions import expiry
from penstock.coordinator.transactions.expiry import FORGOTTEN_AT_ONCE_MAX
from penstock.coordinator.transactions.state import CLIENT_EPOCH_MAX
from penstock.coordinator.transactions.timers import ForgetExpired, LookForExpired
from penstock.coordinator.transactions.transaction_settings import TransactionSettings

DAY_MS = 86_400_000


def test_a_transaction_is_aborted_when_its_time_is_up() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.wait(TIMEOUT_MS - 1)
    assert story.status == "Ongoing"
    story.wait(1)
    assert story.status == "PrepareAbort"
    [marker] = story.write_markers()
    assert (marker.committed, marker.producer_epoch) == (False, 1)


def test_the_time_counts_from_the_first_partition() -> None:
    story = Story()
    producer = story.begin()
    story.wait(5 * TIMEOUT_MS)
    story.add(producer, A0)
    story.wait(TIMEOUT_MS // 2)
    story.add(producer, B0)
    story.wait(TIMEOUT_MS // 2)
    assert story.status == "PrepareAbort"


def test_the_producer_of_a_timed_out_transaction_is_fenced() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.wait(TIMEOUT_MS)
    story.write_markers()
    assert error_of(story.add(producer, A0)) == "PRODUCER_FENCED"
    assert error_of(story.verify(producer, A0)) == "PRODUCER_FENCED"
    assert error_of(story.commit(producer, v2=False)) == "PRODUCER_FENCED"


def test_a_commit_that_comes_too_late_is_refused() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.wait(TIMEOUT_MS)
    story.write_markers()
    assert error_of(story.commit(producer)) == "INVALID_TXN_STATE"


def test_a_producer_recovers_from_a_timeout_with_the_epoch_of_the_abort() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.wait(TIMEOUT_MS)
    story.write_markers()
    again = story.begin(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
    assert again == on(producer, 1)
    assert story.add(again, A0) is None


def test_a_producer_recovers_from_a_timeout_into_the_last_epoch_there_is_for_it() -> None:
    story = Story()
    story.begin()
    producer = story.at_epoch(CLIENT_EPOCH_MAX - 1)
    story.add(producer, A0)
    story.wait(TIMEOUT_MS)
    story.write_markers()
    again = story.begin(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
    assert again == on(producer, CLIENT_EPOCH_MAX)


def test_a_transaction_that_was_ended_does_not_time_out() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    producer = story.commit(producer)
    story.write_markers()
    story.wait(TIMEOUT_MS - 10)
    story.add(producer, A0)
    story.wait(TIMEOUT_MS - 10)
    assert story.status == "Ongoing", "the time of the next one is its own"
    story.wait(10)
    assert story.status == "PrepareAbort"


def test_the_timer_of_a_transaction_does_not_touch_the_next_of_the_same_epoch() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0, v2=False)
    _, timed_out = story.timers[f"timeout {NAME}"]
    story.commit(producer, v2=False)
    story.write_markers()
    story.wait(1)
    story.add(producer, A0, v2=False)
    story.tell(timed_out)
    story.wait(0)
    assert story.status == "Ongoing"


def test_a_timeout_survives_a_restart() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.wait(TIMEOUT_MS - 100)
    story.restart()
    story.wait(99)
    assert story.status == "Ongoing"
    story.wait(1)
    assert story.status == "PrepareAbort"


def test_a_clock_that_was_set_back_gives_a_transaction_no_more_than_its_timeout() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.now_ms -= 10 * TIMEOUT_MS
    story.restart()
    story.wait(TIMEOUT_MS)
    assert story.status == "PrepareAbort"


def test_what_timed_out_while_nobody_was_there_is_aborted_at_once() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.now_ms += 10 * TIMEOUT_MS
    story.restart()
    story.wait(0)
    assert story.status == "PrepareAbort"


def test_an_abort_that_the_log_refuses_is_tried_again() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.refuses = True
    story.wait(TIMEOUT_MS)
    assert story.status == "Ongoing"
    story.refuses = False
    story.wait(story.settings.abort_interval_ms)
    assert story.status == "PrepareAbort"


def test_an_end_leaves_no_timer_behind() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.commit(producer)
    assert f"timeout {NAME}" not in story.timers


# ---- ids


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    story = Story(TransactionSettings(id_expiration_ms=DAY_MS))
    story.restart()
    story.begin()
    story.wait(DAY_MS - 1)
    assert story.status == "Empty"
    story.wait(story.settings.expiration_interval_ms)
    assert story.machine.transactions.find(NAME) is None
    assert story.written[-1].value is None, "a tombstone"


def test_an_id_that_was_used_is_remembered_for_as_long_again() -> None:
    story = Story(TransactionSettings(id_expiration_ms=DAY_MS))
    story.restart()
    producer = story.begin()
    story.wait(DAY_MS - 10)
    story.abort(producer)
    story.wait(DAY_MS - 10)
    assert story.status == "CompleteAbort"


def test_an_open_transaction_is_never_forgotten() -> None:
    story = Story(TransactionSettings(id_expiration_ms=DAY_MS))
    story.restart()
    producer = story.begin(two_phase_commit=True)
    story.add(producer, A0)
    story.wait(30 * DAY_MS)
    assert story.status == "Ongoing"


def test_a_prepared_transaction_is_never_forgotten() -> None:
    story = Story(TransactionSettings(id_expiration_ms=DAY_MS))
    story.restart()
    producer = story.begin()
    story.add(producer, A0)
    story.commit(producer)
    story.wait(30 * DAY_MS)
    assert story.status == "PrepareCommit"


def test_many_ids_are_forgotten_in_batches() -> None:
    story = Story(TransactionSettings(id_expiration_ms=DAY_MS))
    story.restart()
    count = 2 * FORGOTTEN_AT_ONCE_MAX + 10
    for number in range(count):
        story.begin(name=f"id-{number}")
    story.wait(DAY_MS + story.settings.expiration_interval_ms)
    assert list(story.machine.transactions) == []


def test_a_look_goes_over_all_ids_once_and_looks_at_some_of_them_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each event must end within milliseconds, however many ids there are."""
    monkeypatch.setattr(expiry, "LOOKED_AT_ONCE_MAX", 10)
    story = Story(TransactionSettings(id_expiration_ms=DAY_MS))
    for number in range(25):
        story.begin(name=f"old-{number}")
    story.now_ms += DAY_MS
    for number in range(25):
        story.begin(name=f"new-{number}")
    story.tell(LookForExpired())
    slices = 0
    while story.timers.pop("forgetting", None) is not None:
        slices += 1
        assert slices <= 50 // 10 + 1, "it began at the first id again"
        written = len(story.written)
        story.tell(ForgetExpired())
        assert len(story.written) - written <= 10
    assert {each.transactional_id for each in story.machine.transactions} == {
        f"new-{number}" for number in range(25)
    }


def test_an_id_that_was_forgotten_begins_with_a_new_producer_id() -> None:
    story = Story(TransactionSettings(id_expiration_ms=DAY_MS))
    story.restart()
    first = story.begin()
    story.wait(2 * DAY_MS)
    assert error_of(story.add(first, A0)) == "INVALID_PRODUCER_ID_MAPPING"
    again = story.begin(producer_id=first.producer_id, producer_epoch=0)
    assert again.producer_id != first.producer_id


def test_tombstones_that_the_log_refuses_are_written_later() -> None:
    story = Story(TransactionSettings(id_expiration_ms=DAY_MS))
    story.restart()
    story.begin()
    story.refuses = True
    story.wait(DAY_MS + story.settings.expiration_interval_ms)
    assert story.status == "Empty"
    story.refuses = False
    story.wait(story.settings.expiration_interval_ms)
    assert story.machine.transactions.find(NAME) is None
