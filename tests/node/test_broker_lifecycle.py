"""The lifecycle of a broker: what it sends, when, and what each answer changes."""

import pytest

from penstock.errors import (
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    NotController,
    StaleBrokerEpoch,
)
from penstock.node.broker_lifecycle import (
    BrokerLeft,
    BrokerLifecycle,
    BrokerRegistered,
    BrokerUnfenced,
    HeartbeatReply,
    LifecycleSettings,
    RegistrationFailed,
    SendHeartbeat,
    SendRegistration,
)

SETTINGS = LifecycleSettings(
    heartbeat_interval_ms=2_000,
    registration_timeout_ms=60_000,
    leaving_ms_max=30_000,
    leaving_unheard_ms_max=2_000,
    controllers="a:9093, b:9093 (controller.quorum.bootstrap.servers)",
)
EPOCH = 7
FENCED = HeartbeatReply(is_fenced=True, should_shut_down=False)
UNFENCED = HeartbeatReply(is_fenced=False, should_shut_down=False)
GRANTED = HeartbeatReply(is_fenced=False, should_shut_down=True)
LOST = OSError("the connection broke")


@pytest.fixture
def broker() -> BrokerLifecycle:
    return BrokerLifecycle(SETTINGS)


def registered(broker: BrokerLifecycle) -> None:
    broker.start(0)
    broker.registered(EPOCH, 0)


def serving(broker: BrokerLifecycle) -> None:
    registered(broker)
    broker.heard(FENCED, 0)
    broker.opened(10)
    broker.heard(UNFENCED, 20)


def test_a_start_registers(broker: BrokerLifecycle) -> None:
    assert broker.start(0) == [SendRegistration()]


def test_a_registered_broker_wants_to_stay_fenced_until_its_logs_are_open(
    broker: BrokerLifecycle,
) -> None:
    broker.start(0)
    assert broker.registered(EPOCH, 0) == [
        BrokerRegistered(EPOCH),
        SendHeartbeat(EPOCH, want_fence=True, want_shut_down=False),
    ]


def test_a_broker_registers_again_before_its_logs_are_told_open(broker: BrokerLifecycle) -> None:
    registered(broker)
    broker.heard(FENCED, 0)
    assert broker.register_again(10) == [SendRegistration()]
    assert broker.registered(EPOCH + 1, 20) == [
        BrokerRegistered(EPOCH + 1),
        SendHeartbeat(EPOCH + 1, want_fence=True, want_shut_down=False),
    ]


def test_a_broker_that_leaves_does_not_register_again(broker: BrokerLifecycle) -> None:
    serving(broker)
    broker.stop(30)
    assert broker.register_again(40) == []


def test_open_logs_are_told_to_the_controller_at_once(broker: BrokerLifecycle) -> None:
    registered(broker)
    broker.heard(FENCED, 0)
    assert broker.opened(10) == [SendHeartbeat(EPOCH, want_fence=False, want_shut_down=False)]


def test_open_logs_wait_for_a_heartbeat_under_way(broker: BrokerLifecycle) -> None:
    registered(broker)
    assert broker.opened(10) == []
    assert broker.heard(FENCED, 20) == [
        SendHeartbeat(EPOCH, want_fence=False, want_shut_down=False)
    ]


def test_an_unfenced_broker_is_announced_once(broker: BrokerLifecycle) -> None:
    registered(broker)
    broker.heard(FENCED, 0)
    broker.opened(10)
    assert broker.heard(UNFENCED, 20) == [BrokerUnfenced()]
    broker.time_passed(2_020)
    assert broker.heard(UNFENCED, 2_030) == []


def test_heartbeats_follow_their_interval(broker: BrokerLifecycle) -> None:
    serving(broker)
    assert broker.wake_up_ms == 2_020
    assert broker.time_passed(2_019) == []
    assert broker.time_passed(2_020) == [
        SendHeartbeat(EPOCH, want_fence=False, want_shut_down=False)
    ]


def test_one_heartbeat_is_under_way(broker: BrokerLifecycle) -> None:
    serving(broker)
    broker.time_passed(2_020)
    assert broker.time_passed(9_000) == []


def test_a_broker_without_an_active_controller_asks_again_soon(broker: BrokerLifecycle) -> None:
    broker.start(0)
    for now_ms in (0, 100, 200):
        assert broker.registered(NotController(), now_ms) == []
        assert broker.wake_up_ms == now_ms + 100
        assert broker.time_passed(now_ms + 100) == [SendRegistration()]


def test_pauses_grow_with_failures(broker: BrokerLifecycle) -> None:
    broker.start(0)
    pauses = []
    for _ in range(7):
        broker.registered(LOST, 0)
        pauses.append(broker.wake_up_ms)
        broker.time_passed(broker.wake_up_ms)
    assert pauses == [100, 200, 400, 800, 1_000, 1_000, 1_000]


def test_a_duplicate_waits_for_the_older_session(broker: BrokerLifecycle) -> None:
    broker.start(0)
    assert broker.registered(DuplicateBrokerRegistration(), 59_999) == []
    [failed] = broker.registered(DuplicateBrokerRegistration(), 60_000)
    assert isinstance(failed, RegistrationFailed)
    assert "Duplicate broker registration. Give each node its own node.id" in failed.reason


@pytest.mark.parametrize("failure", [NotController("no active controller is known"), LOST])
def test_without_a_controller_the_addresses_and_their_key_are_named(
    broker: BrokerLifecycle, failure: Exception
) -> None:
    broker.start(0)
    [failed] = broker.registered(failure, 60_000)
    assert isinstance(failed, RegistrationFailed)
    assert "no active controller answers at a:9093, b:9093 (controller.quorum" in failed.reason
    assert "rejected" not in failed.reason


def test_another_cluster_ends_the_start_at_once(broker: BrokerLifecycle) -> None:
    broker.start(0)
    [failed] = broker.registered(InconsistentClusterId("Expected cluster ID a"), 0)
    assert isinstance(failed, RegistrationFailed)
    assert "Expected cluster ID a" in failed.reason


def test_a_broker_with_an_old_epoch_registers_again(broker: BrokerLifecycle) -> None:
    serving(broker)
    broker.time_passed(2_020)
    assert broker.heard(StaleBrokerEpoch(), 2_030) == [SendRegistration()]
    assert broker.registered(EPOCH + 1, 2_040) == [
        BrokerRegistered(EPOCH + 1),
        SendHeartbeat(EPOCH + 1, want_fence=False, want_shut_down=False),
    ]


def test_a_fenced_broker_asks_often_to_serve_again(broker: BrokerLifecycle) -> None:
    serving(broker)
    broker.time_passed(2_020)
    broker.heard(FENCED, 2_030)
    assert broker.wake_up_ms == 2_130


def test_a_stop_asks_for_leave_until_it_is_granted(broker: BrokerLifecycle) -> None:
    serving(broker)
    leave = SendHeartbeat(EPOCH, want_fence=False, want_shut_down=True)
    assert broker.stop(1_000) == [leave]
    assert broker.heard(UNFENCED, 1_010) == []
    assert broker.time_passed(1_110) == [leave]
    assert broker.heard(GRANTED, 1_120) == [BrokerLeft(complete=True)]


def test_a_stop_waits_for_a_heartbeat_under_way(broker: BrokerLifecycle) -> None:
    serving(broker)
    broker.time_passed(2_020)
    assert broker.stop(2_030) == []
    assert broker.heard(UNFENCED, 2_040) == [
        SendHeartbeat(EPOCH, want_fence=False, want_shut_down=True)
    ]


def test_a_stop_without_a_controller_ends_soon(broker: BrokerLifecycle) -> None:
    serving(broker)
    broker.stop(1_000)
    assert broker.wake_up_ms == 3_000
    assert broker.time_passed(3_000) == [BrokerLeft(complete=False)]


def test_a_controller_that_grants_no_leave_is_waited_for_a_limited_time(
    broker: BrokerLifecycle,
) -> None:
    serving(broker)
    actions = broker.stop(1_000)
    now_ms = 1_000.0
    while BrokerLeft(complete=False) not in actions:
        broker.heard(UNFENCED, now_ms)
        now_ms = broker.wake_up_ms
        actions = broker.time_passed(now_ms)
    assert now_ms == 31_000


def test_a_broker_that_never_served_leaves_at_once(broker: BrokerLifecycle) -> None:
    registered(broker)
    assert broker.stop(10) == [BrokerLeft(complete=False)]


def test_nothing_follows_the_end(broker: BrokerLifecycle) -> None:
    registered(broker)
    broker.stop(10)
    assert broker.heard(UNFENCED, 20) == []
    assert broker.hurry(30) == []
