"""Sessions of brokers: times of contact, and the broker to fence."""

from collections.abc import Mapping

import pytest

from penstock.controller import broker_sessions
from penstock.controller.broker_sessions import BrokerSessions, FenceStaleBroker
from penstock.controller.image import BrokerImage

TIMEOUT_MS = 900


def broker(broker_id: int, epoch: int = 5, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, epoch, b"", (), {}, None, fenced, False, ())


def brokers(*given: BrokerImage) -> Mapping[int, BrokerImage]:
    return {each.broker_id: each for each in given}


def begun(*given: BrokerImage, mono_ms: float = 0) -> BrokerSessions:
    sessions = BrokerSessions(TIMEOUT_MS)
    sessions.begin(given, mono_ms)
    return sessions


def test_a_new_active_controller_grants_each_unfenced_broker_a_full_session() -> None:
    sessions = begun(broker(1), broker(2, fenced=True), mono_ms=100)
    registered = brokers(broker(1), broker(2, fenced=True))
    assert sessions.stale(registered, 999) is None
    assert sessions.stale(registered, 1000) == FenceStaleBroker(1, 5)


def test_a_broker_that_a_new_controller_has_not_heard_has_no_session() -> None:
    sessions = begun(broker(1), mono_ms=100)
    assert not sessions.has_session(1, 5, 100)
    sessions.contact(1, 5, 200)
    assert sessions.has_session(1, 5, 200)


def test_a_new_controller_awaits_a_broker_for_half_a_session() -> None:
    sessions = begun(broker(1), broker(2, fenced=True), mono_ms=100)
    assert sessions.is_awaited(1, 5, 549)
    assert not sessions.is_awaited(1, 5, 550)
    assert not sessions.is_awaited(2, 5, 100)


def test_a_broker_that_was_heard_is_awaited_no_longer() -> None:
    sessions = begun(broker(1))
    sessions.contact(1, 5, 200)
    assert not sessions.is_awaited(1, 5, 200)


def test_a_contact_begins_a_session_in_the_epoch_of_the_heartbeat() -> None:
    sessions = begun()
    sessions.contact(1, 5, 50)
    assert sessions.has_session(1, 5, 949)
    assert not sessions.has_session(1, 6, 50)


def test_a_contact_before_the_end_prolongs_the_session() -> None:
    sessions = begun(broker(1))
    sessions.contact(1, 5, 899)
    assert sessions.stale(brokers(broker(1)), 1798) is None
    assert sessions.stale(brokers(broker(1)), 1799) == FenceStaleBroker(1, 5)


def test_the_broker_that_was_silent_longest_is_fenced_first() -> None:
    registered = brokers(broker(1), broker(2), broker(3))
    sessions = begun(*registered.values())
    sessions.contact(1, 5, 20)
    sessions.contact(2, 5, 10)
    assert sessions.stale(registered, 2000) == FenceStaleBroker(3, 5)


def test_the_next_broker_waits_until_the_first_is_fenced_in_the_image() -> None:
    sessions = begun(broker(1), broker(2))
    registered = brokers(broker(1), broker(2))
    assert sessions.stale(registered, 900) == sessions.stale(registered, 900)
    registered = brokers(broker(1, fenced=True), broker(2))
    assert sessions.stale(registered, 900) == FenceStaleBroker(2, 5)


def test_the_session_of_an_earlier_incarnation_is_forgotten() -> None:
    sessions = begun(broker(1, 5))
    registered = brokers(broker(1, 9, fenced=True))
    assert sessions.stale(registered, 900) is None
    assert sessions.next_check_ms(900) == 900 + TIMEOUT_MS


def test_an_unfenced_broker_without_a_session_gets_one() -> None:
    sessions = begun()
    assert sessions.stale(brokers(broker(1)), 100) is None
    assert sessions.stale(brokers(broker(1)), 1000) == FenceStaleBroker(1, 5)


def test_the_next_check_is_at_the_first_end_of_a_session() -> None:
    sessions = begun(broker(1), broker(2))
    sessions.contact(1, 5, 300)
    assert sessions.next_check_ms(400) == 900
    sessions.contact(2, 5, 400)
    assert sessions.next_check_ms(400) == 1200


def test_while_a_fencing_waits_the_next_check_is_an_eighth_of_the_timeout_away() -> None:
    sessions = begun(broker(1))
    assert sessions.stale(brokers(broker(1)), 900) is not None
    assert sessions.next_check_ms(900) == 900 + TIMEOUT_MS / 8


def test_contacts_under_made_up_ids_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_sessions, "SESSIONS_MAX", 2)
    sessions = begun(broker(1))
    for broker_id in (1, 7, 8, 9):
        sessions.contact(broker_id, 5, 0)
    assert [sessions.has_session(each, 5, 0) for each in (1, 7, 8, 9)] == [True, True, False, False]
    sessions.contact(1, 5, 10)
    assert sessions.has_session(1, 5, 905)
