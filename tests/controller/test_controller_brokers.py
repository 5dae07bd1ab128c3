"""Registration, fencing, elections, features, producer ids."""

from typing import Any

import pytest
from controller_bench import ORDERS, Bench, alter, manual, registration

from penstock import errors
from penstock.controller.configs import SET
from penstock.controller.image import ELIGIBLE_LEADERS, NO_LEADER, RECOVERING, PartitionImage
from penstock.controller.records import METADATA_VERSION
from penstock.wire.messages import k57_update_features as k57
from penstock.wire.messages import k64_unregister_broker as k64
from penstock.wire.messages import k67_allocate_producer_ids as k67
from penstock.wire.messages import k70_controller_registration as k70
from penstock.wire.structures import RegisteredListener


def test_a_broker_starts_fenced_and_its_epoch_is_the_offset_of_its_registration() -> None:
    bench = Bench(())
    offset = bench.offset
    reply = bench.ask(registration(1, rack="a"), 4)
    assert (reply.error_code, reply.broker_epoch) == (0, offset)
    broker = bench.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack) == (offset, True, "a")
    assert broker.endpoints[0].port == 9093
    beat = bench.beat(1, offset)
    assert (beat.is_caught_up, beat.is_fenced) == (True, False)
    assert bench.image.brokers[1].active


def test_a_broker_that_lags_behind_its_registration_stays_fenced() -> None:
    bench = Bench(())
    epoch = bench.ask(registration(1), 4).broker_epoch
    bench.offset, offset = epoch - 1, bench.offset
    assert bench.beat(1, epoch).is_fenced
    bench.offset = offset


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, errors.InconsistentClusterId),
        ({"log_dirs": []}, errors.InvalidRegistration),
        ({"log_dirs": [bytes([5]) * 16] * 2}, errors.InvalidRegistration),
        ({"log_dirs": [bytes(16)]}, errors.InvalidRegistration),
        ({"log_dirs": [bytes([9, 1]) * 8]}, errors.InvalidRegistration),
        ({"listeners": []}, errors.InvalidRegistration),
        ({"is_migrating_zk_broker": True}, errors.BrokerIdNotRegistered),
    ],
)
def test_registrations_that_are_refused(
    fields: dict[str, Any], error: type[errors.KafkaError]
) -> None:
    bench = Bench((1,))
    assert bench.ask(registration(2, **fields), 4).error_code == error.code
    assert 2 not in bench.image.brokers


def test_a_broker_too_old_for_the_cluster_is_refused() -> None:
    bench = Bench(())
    request = registration(1)
    for feature in request.features:
        if feature.name == "transaction.version":
            feature.max_supported_version = 1
    assert bench.ask(request, 4).error_code == errors.UnsupportedVersion.code


def test_another_start_takes_over_and_the_older_one_is_stale() -> None:
    bench = Bench(())
    old = bench.join(1)
    new = bench.join(1, incarnation_id=b"second start 123")
    assert new > old
    assert bench.beat(1, old).error_code == errors.StaleBrokerEpoch.code
    assert bench.beat(5, 1).error_code == errors.StaleBrokerEpoch.code


def test_the_same_start_may_register_again() -> None:
    bench = Bench(())
    epoch = bench.join(1)
    assert bench.ask(registration(1, rack="b"), 4).broker_epoch == epoch
    assert bench.image.brokers[1].rack == "b"
    assert not bench.image.brokers[1].fenced


def test_after_a_clean_stop_partitions_keep_leader_and_epoch() -> None:
    bench = Bench(())
    epoch = bench.join(1)
    bench.create("orders", 2)
    before = bench.image.topics["orders"]
    stop = bench.beat(1, epoch, want_shut_down=True)
    assert stop.should_shut_down
    bench.join(1, incarnation_id=b"second start 123", previous_broker_epoch=epoch)
    assert bench.image.topics["orders"] == before


def test_after_a_crash_the_only_replica_leads_on_in_a_new_epoch() -> None:
    bench = Bench((1,))
    bench.create("orders", 2)
    bench.join(1, incarnation_id=b"second start 123")
    partition = bench.image.topics["orders"].partitions[1]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1,))


def partition_of(bench: Bench, name: str = "orders") -> PartitionImage:
    return bench.image.topics[name].partitions[0]


def fence(bench: Bench, broker_id: int) -> None:
    broker = bench.image.brokers[broker_id]
    assert bench.beat(broker_id, broker.epoch, want_fence=True).is_fenced


def assigned(bench: Bench, *replicas: int) -> None:
    assert manual(bench, {0: list(replicas)}).error_code == 0


def test_a_fenced_leader_is_replaced_from_the_in_sync_replicas() -> None:
    bench = Bench((1, 2, 3))
    assigned(bench, 1, 2, 3)
    fence(bench, 1)
    partition = partition_of(bench)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)
    assert partition.eligible_leaders == ()


def test_below_min_isr_those_that_leave_stay_eligible() -> None:
    bench = Bench((1, 2, 3), min_insync_replicas=2)
    assigned(bench, 1, 2, 3)
    for broker_id in (1, 2, 3):
        fence(bench, broker_id)
    partition = partition_of(bench)
    assert (partition.leader, partition.isr) == (NO_LEADER, ())
    assert sorted(partition.eligible_leaders) == [2, 3]
    assert partition.last_known_leaders == (3,)

    epoch = bench.image.brokers[2].epoch
    assert not bench.beat(2, epoch).is_fenced
    partition = partition_of(bench)
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (2, (2,), (3,))
    assert partition.last_known_leaders == ()
    assert partition.recovery_state == 0


def test_one_that_was_not_in_sync_does_not_lead_unless_asked_for() -> None:
    for allowed, leader in (("false", NO_LEADER), ("true", 1)):
        bench = Bench((1, 2))
        assigned(bench, 1, 2)
        fence(bench, 1)
        fence(bench, 2)
        alter(bench, ORDERS, ("unclean.leader.election.enable", SET, allowed))
        bench.beat(1, bench.image.brokers[1].epoch)
        partition = partition_of(bench)
        assert partition.leader == leader
        assert partition.recovery_state == (RECOVERING if leader == 1 else 0)


def test_a_crashed_replica_is_no_longer_in_sync_when_there_are_others() -> None:
    bench = Bench((1, 2))
    assigned(bench, 1, 2)
    bench.join(1, incarnation_id=b"second start 123")
    partition = partition_of(bench)
    assert (partition.leader, partition.isr) == (2, (2,))


def test_the_last_leader_returns_when_nobody_else_is_left() -> None:
    bench = Bench((1, 2))
    assigned(bench, 1, 2)
    fence(bench, 1)
    bench.join(2, incarnation_id=b"second start 123")
    partition = partition_of(bench)
    assert (partition.leader, partition.isr) == (2, (2,))
    assert partition.recovery_state == RECOVERING


def test_without_eligible_leaders_the_last_one_in_sync_stays_named() -> None:
    bench = Bench((1, 2), without=ELIGIBLE_LEADERS)
    assigned(bench, 1, 2)
    fence(bench, 1)
    fence(bench, 2)
    partition = partition_of(bench)
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (NO_LEADER, (2,), ())
    bench.beat(1, bench.image.brokers[1].epoch)
    assert partition_of(bench).leader == NO_LEADER
    bench.beat(2, bench.image.brokers[2].epoch)
    partition = partition_of(bench)
    assert (partition.leader, partition.isr) == (2, (2,))


def test_without_eligible_leaders_a_crash_changes_no_set() -> None:
    bench = Bench((1, 2), without=ELIGIBLE_LEADERS)
    assigned(bench, 1, 2)
    before = partition_of(bench)
    bench.ask(registration(1, incarnation_id=b"second start 123"), 4)
    assert partition_of(bench) == before


def test_a_broker_that_stops_hands_over_what_others_can_lead() -> None:
    bench = Bench((1, 2))
    assigned(bench, 1, 2)
    bench.create("alone", 1)
    bench.beat(1, bench.image.brokers[1].epoch, want_shut_down=True)
    assert partition_of(bench).leader == 2
    assert bench.image.brokers[1].in_controlled_shutdown
    assert partition_of(bench, "alone").leader != NO_LEADER


def test_a_broker_can_be_forgotten_once_it_is_down() -> None:
    bench = Bench((1, 2))
    reply = bench.ask(k64.UnregisterBrokerRequest(broker_id=2))
    assert reply.error_code == errors.InvalidRequest.code
    fence(bench, 2)
    assert bench.ask(k64.UnregisterBrokerRequest(broker_id=2)).error_code == 0
    assert 2 not in bench.image.brokers
    reply = bench.ask(k64.UnregisterBrokerRequest(broker_id=2))
    assert reply.error_code == errors.BrokerIdNotRegistered.code


def test_a_controller_tells_its_endpoints() -> None:
    bench = Bench(())
    request = k70.ControllerRegistrationRequest(
        controller_id=1,
        incarnation_id=b"1" * 16,
        listeners=[RegisteredListener(name="CONTROLLER", host="localhost", port=9093)],
    )
    assert bench.ask(request).error_code == 0
    assert bench.image.controllers[1].endpoints[0].name == "CONTROLLER"


def test_producer_ids_come_in_blocks_and_never_twice() -> None:
    bench = Bench((1,))
    request = k67.AllocateProducerIdsRequest(broker_id=1, broker_epoch=bench.image.brokers[1].epoch)
    starts = [bench.ask(request).producer_id_start for _ in range(3)]
    assert starts == [0, 1000, 2000]
    assert bench.image.producer_ids.next_producer_id == 3000
    stale = k67.AllocateProducerIdsRequest(broker_id=1, broker_epoch=-7)
    assert bench.ask(stale).error_code == errors.StaleBrokerEpoch.code


def update(bench: Bench, name: str, level: int, kind: int = 1, **fields: Any) -> Any:
    change = k57.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    return bench.ask(k57.UpdateFeaturesRequest(feature_updates=[change], **fields), 2)


def test_features_go_down_only_when_that_was_said() -> None:
    bench = Bench((1,))
    down = update(bench, "transaction.version", 1)
    assert down.error_code == errors.InvalidUpdateVersion.code
    assert update(bench, "transaction.version", 1, 2, validate_only=True).error_code == 0
    assert bench.image.features["transaction.version"] == 2
    assert update(bench, "transaction.version", 1, 2).error_code == 0
    assert bench.image.features["transaction.version"] == 1
    up = update(bench, "transaction.version", 2, 2)
    assert up.error_code == errors.InvalidUpdateVersion.code
    assert update(bench, "transaction.version", 2).error_code == 0


@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        ("no.such", 1, 1, "Local controller 1 does not support this feature."),
        ("transaction.version", 9, 1, "Local controller 1 only supports versions 0-2"),
        ("transaction.version", -1, 1, "A feature version cannot be less than 0."),
        ("transaction.version", 2, 7, "The controller does not support the given upgrade type."),
        (METADATA_VERSION, 31, 1, "Local controller 1 only supports versions 7-30"),
        (METADATA_VERSION, 29, 2, "Refusing to perform the requested downgrade"),
        (METADATA_VERSION, 20, 3, "eligible.leader.replicas.version is in use"),
        ("kraft.version", 0, 2, "The quorum's version is fixed"),
    ],
)
def test_feature_updates_that_are_refused(name: str, level: int, kind: int, reason: str) -> None:
    bench = Bench((1,))
    reply = update(bench, name, level, kind)
    assert reply.error_code == errors.InvalidUpdateVersion.code
    first, second = reply.error_message.split(": Invalid ")
    assert first == "The update failed for all features since the following feature had an error"
    assert reason in second


def test_a_new_cluster_has_the_features_it_was_formatted_with() -> None:
    bench = Bench(())
    assert bench.image.features[METADATA_VERSION] == 30
    assert bench.image.features[ELIGIBLE_LEADERS] == 1
    assert "share.version" not in bench.image.features
