"""Partitions with three replicas: brokers that are fenced, stop, start again or are forgotten."""

from typing import Any

import pytest
from controller_bench import Bench, manual, registration
from replica_requests import alter_in_sync_set, fence, partition_of, unfence

from penstock import errors
from penstock.controller.image import ELIGIBLE_LEADERS, NO_LEADER, RECOVERED, RECOVERING
from penstock.wire.messages import k57_update_features as k57
from penstock.wire.messages import k64_unregister_broker as k64


@pytest.fixture
def bench() -> Bench:
    """Three brokers, each the preferred leader of one partition; two replicas make a whole set."""
    made = Bench((1, 2, 3), min_insync_replicas=2)
    assert manual(made, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}).error_code == 0
    return made


def state(bench: Bench, index: int = 0) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return leader, in-sync set and eligible leader replicas."""
    partition = partition_of(bench, index)
    return partition.leader, partition.isr, tuple(sorted(partition.eligible_leaders))


def epochs(bench: Bench, index: int = 0) -> tuple[int, int]:
    partition = partition_of(bench, index)
    return partition.leader_epoch, partition.partition_epoch


def stop(bench: Bench, broker_id: int, **fields: Any) -> tuple[bool, bool]:
    """Ask for a shutdown; return whether the broker is fenced, and whether it may stop."""
    epoch = bench.image.brokers[broker_id].epoch
    reply = bench.beat(broker_id, epoch, want_shut_down=True, **fields)
    return reply.is_fenced, reply.should_shut_down


def start_again(bench: Bench, broker_id: int, *, clean: bool) -> None:
    """Register a new incarnation of the broker; its heartbeat is still to come."""
    previous = bench.image.brokers[broker_id].epoch if clean else -1
    incarnation_id = bytes([bench.offset % 256, broker_id]) * 8
    request = registration(broker_id, incarnation_id=incarnation_id, previous_broker_epoch=previous)
    assert bench.ask(request, 4).error_code == 0


# Fencing


def test_a_fenced_broker_leaves_every_in_sync_set(bench: Bench) -> None:
    fence(bench, 1)
    assert [state(bench, index) for index in range(3)] == [
        (2, (2, 3), ()),
        (2, (2, 3), ()),
        (3, (3, 2), ()),
    ]


def test_only_a_partition_with_a_new_leader_gets_a_new_leader_epoch(bench: Bench) -> None:
    fence(bench, 1)
    assert [epochs(bench, index) for index in range(3)] == [(1, 1), (0, 1), (0, 1)]


def test_a_broker_that_is_back_is_in_sync_only_when_its_leader_says_so(bench: Bench) -> None:
    fence(bench, 1)
    unfence(bench, 1)
    assert state(bench) == (2, (2, 3), ())
    alter_in_sync_set(bench, [2, 3, 1])
    assert state(bench) == (2, (2, 3, 1), ())


def test_the_second_broker_that_is_fenced_stays_eligible(bench: Bench) -> None:
    fence(bench, 1, 2)
    assert state(bench) == (3, (3,), (2,))


def test_the_last_broker_that_is_fenced_leaves_an_empty_set(bench: Bench) -> None:
    fence(bench, 1, 2, 3)
    assert state(bench) == (NO_LEADER, (), (2, 3))
    assert partition_of(bench).last_known_leaders == (3,)


def test_the_first_eligible_replica_that_is_back_leads_alone(bench: Bench) -> None:
    fence(bench, 1, 2, 3)
    unfence(bench, 1)
    assert state(bench) == (NO_LEADER, (), (2, 3))
    unfence(bench, 2)
    assert state(bench) == (2, (2,), (3,))
    assert partition_of(bench).recovery_state == RECOVERED
    alter_in_sync_set(bench, [2, 1])
    assert state(bench) == (2, (2, 1), ())


def test_a_new_leader_is_named_in_a_new_epoch_although_it_led_before(bench: Bench) -> None:
    fence(bench, 1, 2, 3)
    led, changed = epochs(bench)
    unfence(bench, 3)
    assert (partition_of(bench).leader, epochs(bench)) == (3, (led + 1, changed + 1))


# Starts after a kill, and after a clean stop


def test_a_killed_broker_is_neither_in_sync_nor_eligible(bench: Bench) -> None:
    fence(bench, 1)
    start_again(bench, 2, clean=False)
    assert state(bench) == (3, (3,), ())
    assert state(bench, 1) == (3, (3,), ())


def test_a_broker_that_stopped_cleanly_stays_eligible(bench: Bench) -> None:
    fence(bench, 1)
    start_again(bench, 2, clean=True)
    assert state(bench) == (3, (3,), (2,))


def test_a_killed_broker_is_no_longer_eligible_where_it_was(bench: Bench) -> None:
    fence(bench, 1, 2, 3)
    start_again(bench, 2, clean=False)
    assert state(bench) == (NO_LEADER, (), (3,))


def test_after_kills_of_all_the_last_leader_leads_uncleanly(bench: Bench) -> None:
    fence(bench, 1, 2, 3)
    for broker_id in (2, 3, 1):
        start_again(bench, broker_id, clean=False)
    assert state(bench) == (NO_LEADER, (), ())
    unfence(bench, 1, 2)
    assert state(bench) == (NO_LEADER, (), ())
    unfence(bench, 3)
    assert state(bench) == (3, (3,), ())
    partition = partition_of(bench)
    assert (partition.recovery_state, partition.last_known_leaders) == (RECOVERING, ())


def test_a_recovered_leader_takes_the_others_back(bench: Bench) -> None:
    test_after_kills_of_all_the_last_leader_leads_uncleanly(bench)
    assert alter_in_sync_set(bench, [3, 1, 2]).error_code == 0
    assert state(bench) == (3, (3, 1, 2), ())
    assert partition_of(bench).recovery_state == RECOVERED


# Controlled shutdown


def test_a_broker_that_stops_hands_over_to_replicas_in_sync_only(bench: Bench) -> None:
    alter_in_sync_set(bench, [1, 3])
    assert stop(bench, 1) == (False, False)
    assert [state(bench, index) for index in range(3)] == [
        (3, (3,), (1,)),
        (2, (2, 3), ()),
        (3, (3, 2), ()),
    ]


def test_a_broker_that_stops_joins_no_in_sync_set_again(bench: Bench) -> None:
    stop(bench, 1)
    ineligible = errors.IneligibleReplica.code
    assert alter_in_sync_set(bench, [2, 3, 1]).error_code == ineligible


def test_a_stop_waits_until_the_others_have_read_of_the_new_leaders(bench: Bench) -> None:
    stop(bench, 1)
    handed_over_at = bench.offset - 1
    bench.beat(2, bench.image.brokers[2].epoch)
    lagging = bench.image.brokers[3].epoch
    bench.beat(3, lagging, current_metadata_offset=handed_over_at - 1)
    assert stop(bench, 1) == (False, False)
    bench.beat(3, lagging, current_metadata_offset=handed_over_at)
    assert stop(bench, 1) == (True, True)


def test_a_stop_changes_partitions_once(bench: Bench) -> None:
    stop(bench, 1)
    changed = [epochs(bench, index) for index in range(3)]
    for broker_id in (2, 3):
        bench.beat(broker_id, bench.image.brokers[broker_id].epoch)
    assert stop(bench, 1) == (True, True)
    assert [epochs(bench, index) for index in range(3)] == changed


def test_a_rolling_restart_leaves_every_partition_led(bench: Bench) -> None:
    for broker_id in (1, 2, 3):
        stop(bench, broker_id)
        others = [each for each in (1, 2, 3) if each != broker_id]
        for other in others:
            bench.beat(other, bench.image.brokers[other].epoch)
        assert stop(bench, broker_id) == (True, True)
        assert all(partition_of(bench, index).leader in others for index in range(3))
        start_again(bench, broker_id, clean=True)
        unfence(bench, broker_id)
        for index in range(3):
            isr = [*partition_of(bench, index).isr, broker_id]
            assert alter_in_sync_set(bench, isr, index=index).error_code == 0
    assert all(len(partition_of(bench, index).isr) == 3 for index in range(3))


# The feature is switched off


def without_eligible_leaders(bench: Bench) -> None:
    key = k57.FeatureUpdateKey(feature=ELIGIBLE_LEADERS, max_version_level=0, upgrade_type=2)
    assert bench.ask(k57.UpdateFeaturesRequest(feature_updates=[key]), 2).error_code == 0
    assert not bench.image.eligible_leaders_enabled


def test_a_replica_that_was_eligible_leads_although_the_feature_is_off(bench: Bench) -> None:
    fence(bench, 1, 2, 3)
    without_eligible_leaders(bench)
    unfence(bench, 2)
    assert state(bench) == (2, (2,), ())


def test_the_last_known_leader_does_not_lead_while_the_feature_is_off(bench: Bench) -> None:
    fence(bench, 1, 2, 3)
    for broker_id in (2, 3):
        start_again(bench, broker_id, clean=False)
    without_eligible_leaders(bench)
    unfence(bench, 3)
    assert state(bench) == (NO_LEADER, (), ())


# Brokers that are forgotten


def test_a_broker_that_is_forgotten_is_in_no_in_sync_set(bench: Bench) -> None:
    fence(bench, 3)
    assert bench.ask(k64.UnregisterBrokerRequest(broker_id=3)).error_code == 0
    assert [partition_of(bench, index).isr for index in range(3)] == [(1, 2), (2, 1), (1, 2)]
    assert [partition_of(bench, index).leader for index in range(3)] == [1, 2, 1]


# New topics


def test_a_new_partition_is_led_by_its_first_live_replica() -> None:
    bench = Bench((1, 2, 3))
    fence(bench, 1)
    manual(bench, {0: [1, 2, 3]})
    assert state(bench) == (2, (2, 3), ())


def test_a_new_partition_without_a_live_replica_is_rejected() -> None:
    bench = Bench((1, 2, 3))
    fence(bench, 1, 2)
    result = manual(bench, {0: [1, 2]})
    assert result.error_code == errors.InvalidReplicaAssignment.code
    assert "fenced or in controlled shutdown" in (result.error_message or "")


def test_a_factor_above_the_brokers_is_rejected() -> None:
    bench = Bench((1, 2))
    result = bench.create("orders", 1, 3)
    assert result.error_code == errors.InvalidReplicationFactor.code
    assert "only 2 broker(s) are registered" in (result.error_message or "")


def test_a_fenced_broker_gets_a_replica_where_no_other_is_left() -> None:
    bench = Bench((1, 2, 3))
    fence(bench, 3)
    assert bench.create("orders", 1, 3).error_code == 0
    assert sorted(partition_of(bench).replicas) == [1, 2, 3]
    assert 3 not in partition_of(bench).isr


def test_min_insync_replicas_above_the_factor_counts_as_the_factor() -> None:
    bench = Bench((1, 2), min_insync_replicas=5)
    manual(bench, {0: [1, 2]})
    fence(bench, 1)
    assert state(bench) == (2, (2,), (1,))
    unfence(bench, 1)
    alter_in_sync_set(bench, [2, 1])
    assert state(bench) == (2, (2, 1), ())
