"""Heartbeats: fencing, controlled shutdown, failed and cordoned directories."""

from collections.abc import Callable
from typing import Any

import pytest
from controller_bench import Bench, manual, registration

from penstock import errors
from penstock.controller.broker_sessions import FenceStaleBroker
from penstock.controller.controller import Controller
from penstock.controller.image import (
    ELIGIBLE_LEADERS,
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    PartitionImage,
)
from penstock.controller.live_facts import LiveFacts
from penstock.controller.settings import ControllerSettings
from penstock.effects import Outcome
from penstock.wire.records.metadata import PartitionChangeRecord

FIRST, SECOND = bytes([9, 1]) * 8, bytes([7, 1]) * 8  # directories of broker 1


def partition_of(bench: Bench, index: int = 0) -> PartitionImage:
    return bench.image.topics["orders"].partitions[index]


def assigned(bench: Bench, *replicas: list[int]) -> None:
    assert manual(bench, dict(enumerate(replicas))).error_code == 0


def beat(bench: Bench, broker_id: int, **fields: Any) -> Any:
    return bench.beat(broker_id, bench.image.brokers[broker_id].epoch, **fields)


def stop(bench: Bench, broker_id: int, **fields: Any) -> tuple[bool, bool]:
    reply = beat(bench, broker_id, want_shut_down=True, **fields)
    return reply.is_fenced, reply.should_shut_down


# Controlled shutdown


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    bench = Bench((1, 2))
    assigned(bench, [1, 2])
    assert stop(bench, 2) == (True, True)
    assert bench.image.brokers[2].fenced
    assert partition_of(bench).isr == (1,)


def test_a_leader_hands_its_partitions_over_before_it_stops() -> None:
    bench = Bench((1, 2))
    assigned(bench, [1, 2], [2, 1])
    assert stop(bench, 1) == (False, False)
    assert bench.image.brokers[1].in_controlled_shutdown
    assert [partition_of(bench, index).leader for index in (0, 1)] == [2, 2]
    assert [partition_of(bench, index).isr for index in (0, 1)] == [(2,), (2,)]


def test_it_stops_when_all_active_brokers_have_read_of_the_new_leaders() -> None:
    bench = Bench((1, 2, 3))
    assigned(bench, [1, 2])
    stop(bench, 1)
    handed_over_at = bench.offset - 1
    beat(bench, 2)
    beat(bench, 3, current_metadata_offset=handed_over_at - 1)
    assert stop(bench, 1) == (False, False)
    beat(bench, 3, current_metadata_offset=handed_over_at)
    assert stop(bench, 1) == (True, True)
    assert bench.image.brokers[1].fenced


def test_two_brokers_that_stop_do_not_wait_for_each_other() -> None:
    bench = Bench((1, 2, 3))
    assigned(bench, [1], [2])
    assert stop(bench, 1) == stop(bench, 2) == (False, False)
    beat(bench, 3)
    assert stop(bench, 1) == stop(bench, 2) == (True, True)


def test_the_last_active_broker_may_stop_at_once() -> None:
    bench = Bench((1, 2))
    assigned(bench, [1], [2])
    beat(bench, 2, want_fence=True)
    assert stop(bench, 1) == (True, True)
    assert (partition_of(bench).leader, partition_of(bench).eligible_leaders) == (NO_LEADER, (1,))


@pytest.mark.parametrize("without", ["", ELIGIBLE_LEADERS])
def test_partitions_without_another_replica_stay_without_a_leader_and_keep_nobody(
    without: str,
) -> None:
    bench = Bench((1, 2), without=without)
    assigned(bench, [1])
    assert stop(bench, 1) == (False, False)
    assert partition_of(bench).leader == NO_LEADER
    beat(bench, 2)
    assert stop(bench, 1) == (True, True)
    epoch = bench.image.brokers[1].epoch
    bench.join(1, incarnation_id=b"second start 123", previous_broker_epoch=epoch)
    assert (partition_of(bench).leader, partition_of(bench).isr) == (1, (1,))
    assert partition_of(bench).recovery_state == 0


def test_the_only_broker_stops_without_a_record() -> None:
    bench = Bench((1,))
    assigned(bench, [1])
    before = bench.image
    assert stop(bench, 1) == (True, True)
    assert bench.image is before


def test_a_broker_that_was_allowed_to_stop_may_start_again_at_once() -> None:
    bench = Bench((1, 2), facts=LiveFacts(has_session=lambda *_: True))
    second = registration(2, incarnation_id=b"second start 123")
    assert bench.ask(second, 4).error_code == errors.DuplicateBrokerRegistration.code
    assert stop(bench, 2) == (True, True)
    assert bench.ask(second, 4).error_code == 0


def test_a_fenced_broker_may_stop_at_once() -> None:
    bench = Bench((1,))
    beat(bench, 1, want_fence=True)
    written = len(bench.log)
    assert stop(bench, 1) == (True, True)
    assert len(bench.log) == written


def test_a_broker_that_wants_both_is_fenced_and_stops_at_once() -> None:
    bench = Bench((1, 2))
    assigned(bench, [1, 2])
    assert stop(bench, 1, want_fence=True) == (True, True)
    assert partition_of(bench).leader == 2


def test_a_broker_in_controlled_shutdown_begins_again_with_another_active_controller() -> None:
    bench = Bench((1, 2))
    assigned(bench, [1, 2])
    stop(bench, 1)
    settings = ControllerSettings(cluster_id="", node_id=2)
    successor = Controller(settings, bench.rules, (), lambda _: None, bench.image)
    successor.follow()
    bench.controller = successor
    bench.apply(successor.loaded(0))
    assert stop(bench, 1) == (True, True)


def test_a_broker_that_was_fenced_on_its_way_is_no_longer_in_controlled_shutdown() -> None:
    bench = Bench((1, 2))
    assigned(bench, [1, 2])
    stop(bench, 1)
    bench.expire(1)
    assert stop(bench, 1) == (True, True)


# Sessions


def test_a_stale_broker_is_fenced_and_its_partitions_get_other_leaders() -> None:
    bench = Bench((1, 2))
    assigned(bench, [1, 2])
    assert bench.expire(1)
    assert bench.image.brokers[1].fenced
    assert (partition_of(bench).leader, partition_of(bench).leader_epoch) == (2, 1)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda bench: bench.join(1, incarnation_id=b"second start 123"),
        lambda bench: beat(bench, 1, want_fence=True),
    ],
    ids=["registered again", "fenced already"],
)
def test_a_late_expiry_changes_nothing(prepare: Callable[[Bench], object]) -> None:
    bench = Bench((1,))
    epoch = bench.image.brokers[1].epoch
    prepare(bench)
    before = bench.image
    assert not bench.expire(1, epoch)
    assert not bench.expire(7, 3)
    assert bench.image is before


def test_a_broker_that_was_in_contact_again_is_not_fenced() -> None:
    bench = Bench((1,), facts=LiveFacts(has_session=lambda *_: True))
    assert not bench.expire(1)
    assert not bench.image.brokers[1].fenced


def test_an_exception_in_an_expiry_names_the_event() -> None:
    bench = Bench((1,))
    outcome = bench.controller.recover(FenceStaleBroker(1, 7), RuntimeError("ours"), 0)
    assert outcome.failures[0].subject == "FenceStaleBroker to the controller"


def test_a_heartbeat_before_the_registration_is_stale() -> None:
    bench = Bench(())
    assert bench.beat(1, 3).error_code == errors.StaleBrokerEpoch.code


# Directories


def two_directories() -> Bench:
    """Broker 1 with two directories; partition 0 is in the first one, partition 1 in the second."""
    bench = Bench((2,))
    epoch = bench.ask(registration(1, log_dirs=[FIRST, SECOND]), 4).broker_epoch
    bench.beat(1, epoch)
    assigned(bench, [1, 2], [1, 2])
    for index, directory in enumerate((FIRST, SECOND)):
        place(bench, index, directory)
    return bench


def place(bench: Bench, index: int, directory: bytes) -> None:
    """Put the replica of broker 1, the first one, into a directory."""
    directories = [directory, *partition_of(bench, index).directories[1:]]
    topic_id = bench.image.topics["orders"].topic_id
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=directories)
    bench.apply(Outcome([record]))


def test_leaders_move_away_from_a_directory_that_is_offline() -> None:
    bench = two_directories()
    beat(bench, 1, offline_log_dirs=[FIRST])
    assert [partition_of(bench, index).leader for index in (0, 1)] == [2, 1]
    assert partition_of(bench).isr == (2,)
    assert bench.image.brokers[1].directories == (SECOND,)


def test_a_directory_is_reported_offline_once() -> None:
    bench = two_directories()
    beat(bench, 1, offline_log_dirs=[FIRST])
    written = len(bench.log)
    beat(bench, 1, offline_log_dirs=[FIRST])
    assert len(bench.log) == written


def test_a_broker_returns_to_the_partitions_of_its_online_directories_only() -> None:
    bench = two_directories()
    beat(bench, 2, want_fence=True)
    beat(bench, 1, want_fence=True)
    beat(bench, 1, offline_log_dirs=[FIRST])
    assert not bench.image.brokers[1].fenced
    assert [partition_of(bench, index).leader for index in (0, 1)] == [NO_LEADER, 1]


def test_a_partition_changes_once_when_its_broker_is_fenced_with_an_offline_directory() -> None:
    bench = two_directories()
    beat(bench, 1, offline_log_dirs=[FIRST], want_fence=True)
    assert [partition_of(bench, index).leader_epoch for index in (0, 1)] == [1, 1]
    assert bench.image.brokers[1].directories == (SECOND,)


@pytest.mark.parametrize(
    ("directory", "leader"),
    [
        (MIGRATING_DIRECTORY, 1),
        (UNASSIGNED_DIRECTORY, 1),
        (LOST_DIRECTORY, NO_LEADER),
        (bytes([200]) * 16, NO_LEADER),
        (SECOND, 1),
    ],
)
def test_a_leader_needs_an_online_directory(directory: bytes, leader: int) -> None:
    bench = two_directories()
    beat(bench, 2, want_fence=True)
    beat(bench, 1, want_fence=True)
    place(bench, 0, directory)
    beat(bench, 1)
    assert partition_of(bench).leader == leader


def test_cordoned_directories_stand_in_the_registration_until_a_heartbeat_says_otherwise() -> None:
    bench = two_directories()
    beat(bench, 1, cordoned_log_dirs=[FIRST, bytes([200]) * 16])
    assert bench.image.brokers[1].cordoned == (FIRST,)
    written = len(bench.log)
    beat(bench, 1, cordoned_log_dirs=None)
    beat(bench, 1, cordoned_log_dirs=[FIRST])
    assert len(bench.log) == written
    beat(bench, 1, cordoned_log_dirs=[])
    assert bench.image.brokers[1].uncordoned_directories == (FIRST, SECOND)


def test_the_same_incarnation_keeps_its_cordoned_directories() -> None:
    bench = two_directories()
    beat(bench, 1, cordoned_log_dirs=[FIRST])
    bench.ask(registration(1, log_dirs=[FIRST, SECOND]), 4)
    assert bench.image.brokers[1].cordoned == (FIRST,)


def test_a_new_replica_goes_to_the_only_directory_that_is_not_cordoned() -> None:
    bench = two_directories()
    beat(bench, 1, cordoned_log_dirs=[FIRST])
    bench.create("later", 1, 2)
    partition = bench.image.topics["later"].partitions[0]
    assert partition.directory_of(1) == SECOND


def test_a_broker_with_cordoned_directories_only_gets_no_new_replica() -> None:
    bench = two_directories()
    beat(bench, 1, cordoned_log_dirs=[FIRST, SECOND])
    result = bench.create("later", 1, 2)
    assert result.error_code == errors.InvalidReplicationFactor.code
    assert "because only 1 broker(s) are registered" in (result.error_message or "")


def test_a_broker_in_controlled_shutdown_gets_no_new_replica() -> None:
    bench = two_directories()
    stop(bench, 1)
    assert bench.create("later", 4, 1).error_code == 0
    placed = bench.image.topics["later"].partitions.values()
    assert {each.replicas for each in placed} == {(2,)}
