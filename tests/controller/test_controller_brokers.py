"""Registration, fencing, elections, features, producer ids."""

from typing import Any

import pytest
from controller_bench import ORDERS, Bench, alter, manual, registration

from penstock import errors
from penstock.controller.configs import SET
from penstock.controller.image import (
    ELIGIBLE_LEADERS,
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    PartitionImage,
)
from penstock.controller.live_facts import LiveFacts
from penstock.controller.records import METADATA_VERSION, decode_record
from penstock.wire.messages import k57_update_features as k57
from penstock.wire.messages import k62_broker_registration as k62
from penstock.wire.messages import k64_unregister_broker as k64
from penstock.wire.messages import k67_allocate_producer_ids as k67
from penstock.wire.messages import k70_controller_registration as k70
from penstock.wire.records.metadata import PartitionChangeRecord, RegisterBrokerRecord
from penstock.wire.structures import RegisteredFeature, RegisteredListener


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
        (
            {"listeners": [RegisteredListener(name="X", host="h", port=1, security_protocol=9)]},
            errors.InvalidRegistration,
        ),
        ({"features": []}, errors.InvalidRegistration),
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


def without_feature(name: str) -> k62.BrokerRegistrationRequest:
    request = registration(1)
    request.features = [each for each in request.features if each.name != name]
    return request


def test_a_finalized_feature_that_the_broker_does_not_name_is_not_supported() -> None:
    bench = Bench(())
    reply = bench.ask(without_feature("group.version"), 4)
    assert reply.error_code == errors.UnsupportedVersion.code


@pytest.mark.parametrize(("level", "error"), [(0, 0), (1, errors.UnsupportedVersion.code)])
def test_the_version_of_the_quorum_counts_as_a_finalized_feature(level: int, error: int) -> None:
    bench = Bench((), facts=LiveFacts(kraft_version=lambda: level))
    assert bench.ask(without_feature("kraft.version"), 4).error_code == error


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


SECOND_START = b"second start 123"


def test_after_a_clean_stop_the_only_replica_is_eligible_until_it_leads_again() -> None:
    bench = Bench((1,))
    bench.create("orders", 2)
    epoch = bench.image.brokers[1].epoch
    request = registration(1, incarnation_id=SECOND_START, previous_broker_epoch=epoch)
    epoch = bench.ask(request, 4).broker_epoch
    partition = bench.image.topics["orders"].partitions[1]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (NO_LEADER, 1, ())
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((1,), (1,))
    bench.beat(1, epoch)
    partition = bench.image.topics["orders"].partitions[1]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, (1,))
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((), ())
    assert partition.recovery_state == RECOVERED


def test_after_a_kill_the_only_replica_leads_again_as_the_last_known_leader() -> None:
    bench = Bench((1,))
    bench.create("orders", 2)
    epoch = bench.ask(registration(1, incarnation_id=SECOND_START), 4).broker_epoch
    partition = bench.image.topics["orders"].partitions[1]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (NO_LEADER, 1, ())
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((), (1,))
    bench.beat(1, epoch)
    partition = bench.image.topics["orders"].partitions[1]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, (1,))
    assert (partition.last_known_leaders, partition.recovery_state) == ((), RECOVERING)


def test_a_broker_killed_twice_before_it_was_unfenced_still_leads_again() -> None:
    bench = Bench((1,))
    bench.create("orders", 1)
    bench.ask(registration(1, incarnation_id=SECOND_START), 4)
    bench.join(1, incarnation_id=b"third start 1234")
    assert partition_of(bench).leader == 1


def test_an_old_registration_request_cannot_tell_of_a_clean_stop() -> None:
    bench = Bench((1,))
    bench.create("orders", 1)
    epoch = bench.image.brokers[1].epoch
    request = registration(1, incarnation_id=SECOND_START, previous_broker_epoch=epoch)
    bench.ask(request, 2)
    assert partition_of(bench).eligible_leaders == ()


def test_the_registration_comes_after_the_changes_of_the_new_incarnation() -> None:
    bench = Bench((1,))
    bench.create("orders", 2)
    bench.ask(registration(1, incarnation_id=SECOND_START), 4)
    kinds = [type(decode_record(value)) for value in bench.log[-1]]
    assert kinds == [PartitionChangeRecord, PartitionChangeRecord, RegisterBrokerRecord]


def test_a_broker_is_unfenced_only_when_it_has_read_its_registration() -> None:
    bench = Bench((1,))
    bench.create("orders", 3)
    epoch = bench.ask(registration(1, incarnation_id=SECOND_START), 4).broker_epoch
    registered_at = bench.offset - 1
    assert registered_at == epoch + 3
    behind = bench.beat(1, epoch, current_metadata_offset=registered_at - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    there = bench.beat(1, epoch, current_metadata_offset=registered_at)
    assert (there.is_caught_up, there.is_fenced) == (True, False)


def test_a_second_broker_with_the_same_id_is_rejected_while_the_first_has_a_session() -> None:
    alive = {(1, 7): True}
    bench = Bench((), facts=LiveFacts(has_session=lambda *key: alive.get(key, False)))
    assert bench.join(1) == 7
    before = bench.image
    second = registration(1, incarnation_id=SECOND_START)
    assert bench.ask(second, 4).error_code == errors.DuplicateBrokerRegistration.code
    assert bench.image is before
    assert bench.ask(registration(1), 4).broker_epoch == 7
    alive.clear()
    assert bench.ask(second, 4).error_code == 0


def test_a_second_broker_is_rejected_while_a_new_controller_awaits_the_first() -> None:
    awaited = {(1, 7): True}
    bench = Bench((), facts=LiveFacts(is_awaited=lambda *key: awaited.get(key, False)))
    assert bench.join(1) == 7
    second = registration(1, incarnation_id=SECOND_START)
    assert bench.ask(second, 4).error_code == errors.DuplicateBrokerRegistration.code
    awaited.clear()
    assert bench.ask(second, 4).error_code == 0


def test_the_claim_of_a_clean_stop_ends_the_wait_of_a_new_controller() -> None:
    bench = Bench((), facts=LiveFacts(is_awaited=lambda *_key: True))
    assert bench.join(1) == 7
    claim = registration(1, incarnation_id=SECOND_START, previous_broker_epoch=7)
    assert bench.ask(claim, 4).error_code == 0


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


@pytest.mark.parametrize("stopped_cleanly", [True, False])
def test_without_eligible_leaders_a_new_incarnation_counts_as_fenced(
    stopped_cleanly: bool,
) -> None:
    bench = Bench((1, 2), without=ELIGIBLE_LEADERS)
    assigned(bench, 1, 2)
    bench.create("alone", 2)
    previous = bench.image.brokers[1].epoch if stopped_cleanly else -1
    request = registration(1, incarnation_id=SECOND_START, previous_broker_epoch=previous)
    epoch = bench.ask(request, 4).broker_epoch
    assert (partition_of(bench).leader, partition_of(bench).isr) == (2, (2,))
    alone = next(
        each for each in bench.image.topics["alone"].partitions.values() if each.replicas == (1,)
    )
    assert (alone.leader, alone.isr, alone.leader_epoch) == (NO_LEADER, (1,), 1)
    bench.beat(1, epoch)
    alone = bench.image.topics["alone"].partitions[alone.partition_id]
    assert (alone.leader, alone.isr, alone.recovery_state) == (1, (1,), RECOVERED)


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


@pytest.mark.parametrize(("metadata_version", "epoch"), [(11, 1), (12, 0)])
def test_an_in_sync_set_that_shrinks_begins_an_epoch_below_3_6_only(
    metadata_version: int, epoch: int
) -> None:
    bench = Bench((1, 2), without=ELIGIBLE_LEADERS, metadata_version=metadata_version)
    assigned(bench, 1, 2)
    fence(bench, 2)
    partition = partition_of(bench)
    assert (partition.leader, partition.isr) == (1, (1,))
    assert (partition.leader_epoch, partition.partition_epoch) == (epoch, 1)


def test_the_last_known_leader_is_noted_once() -> None:
    bench = Bench((1, 2), min_insync_replicas=2)
    assigned(bench, 1, 2)
    fence(bench, 2)
    fence(bench, 1)
    assert partition_of(bench).last_known_leaders == (1,)
    bench.ask(registration(2, incarnation_id=SECOND_START), 4)
    partition = partition_of(bench)
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((1,), (1,))
    bench.ask(registration(1, incarnation_id=SECOND_START), 4)
    partition = partition_of(bench)
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((), (1,))


def test_while_a_replica_is_eligible_the_last_known_leader_has_to_wait() -> None:
    bench = Bench((1, 2), min_insync_replicas=2)
    assigned(bench, 1, 2)
    fence(bench, 2)
    fence(bench, 1)
    bench.join(1, incarnation_id=SECOND_START)
    partition = partition_of(bench)
    assert (partition.leader, partition.eligible_leaders) == (NO_LEADER, (2,))
    bench.beat(2, bench.image.brokers[2].epoch)
    partition = partition_of(bench)
    assert (partition.leader, partition.isr, partition.recovery_state) == (2, (2,), RECOVERED)


def test_a_broker_that_is_forgotten_leads_nothing() -> None:
    bench = Bench((1, 2), without=ELIGIBLE_LEADERS)
    assigned(bench, 1, 2)
    fence(bench, 2)
    assert bench.ask(k64.UnregisterBrokerRequest(broker_id=2)).error_code == 0
    partition = partition_of(bench)
    assert (partition.leader, partition.isr) == (1, (1,))


def controller_registration(
    controller_id: int, *features: RegisteredFeature, **fields: Any
) -> k70.ControllerRegistrationRequest:
    return k70.ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=bytes([controller_id]) * 16,
        features=list(features),
        **fields,
    )


def test_a_controller_with_an_unknown_security_protocol_is_rejected() -> None:
    bench = Bench(())
    listener = RegisteredListener(name="X", host="h", port=1, security_protocol=77)
    reply = bench.ask(controller_registration(2, listeners=[listener]))
    assert reply.error_code == errors.InvalidRegistration.code


def test_controllers_register_from_3_7_on() -> None:
    bench = Bench((), without=ELIGIBLE_LEADERS, metadata_version=14)
    reply = bench.ask(controller_registration(2))
    assert reply.error_code == errors.UnsupportedVersion.code


def test_a_feature_goes_no_higher_than_each_broker_and_each_controller_supports() -> None:
    bench = Bench((1,))
    assert update(bench, "group.version", 0, 2).error_code == 0
    old = registration(2)
    old.features = [each for each in old.features if each.name != "group.version"]
    bench.ask(old, 4)
    reply = update(bench, "group.version", 1)
    assert "Broker 2 does not support this feature." in reply.error_message
    assert bench.ask(k64.UnregisterBrokerRequest(broker_id=2)).error_code == 0
    bench.ask(controller_registration(3))
    reply = update(bench, "group.version", 1)
    assert "Controller 3 does not support this feature." in reply.error_message
    name = "group.version"
    feature = RegisteredFeature(name=name, min_supported_version=0, max_supported_version=1)
    bench.ask(controller_registration(3, feature))
    assert update(bench, "group.version", 1).error_code == 0


def test_a_feature_waits_for_the_registration_of_each_voter() -> None:
    bench = Bench((1,), facts=LiveFacts(voter_ids=lambda: (1, 2)))
    reply = update(bench, "transaction.version", 1, 2)
    assert "controller 2 has not registered" in reply.error_message
