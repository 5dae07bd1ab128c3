"""A coordinator whose log has something wrong: its neighbours go on."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from api_asking import Asker, asking, new_topic
from delivery_cases import commit, group_with_coordinator

from penstock.coordinator import batches
from penstock.coordinator.partitions import partition_for
from penstock.errors import NotCoordinator, RebalanceInProgress, UnknownServerError
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k11_join_group as k11
from penstock.wire.messages import k12_heartbeat as k12
from penstock.wire.messages import k14_sync_group as k14
from penstock.wire.messages import k68_consumer_group_heartbeat as k68
from penstock.wire.records.coordinator import write_coordinator_key

pytest_plugins = ["api_fixtures"]

PARTITIONS = 50
TOO_MUCH = bytes(1_200_000)  # for one batch
FROM_THE_FUTURE = b"\x00\x63" + bytes(20)  # a value of version 99


Spoil = Callable[[bytes | None, bytes], None]


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Spoil:
    """From the call on a coordinator writes this value, and this key if there is one."""

    def write(spoilt_key: bytes | None, spoilt_value: bytes) -> None:
        def written(key: object, _value: object) -> tuple[bytes, bytes]:
            return (write_coordinator_key(key) if spoilt_key is None else spoilt_key), spoilt_value

        monkeypatch.setattr(batches, "write_record", written)
        monkeypatch.setattr(batches, "write_quickly", lambda _records: None)

    return write


def _neighbour_of(group: str) -> str:
    """Return another group with the same coordinator partition."""
    name = f"{group}x"
    while partition_for(name, PARTITIONS) != partition_for(group, PARTITIONS):
        name += "x"
    return name


def test_a_value_of_an_unknown_version_costs_one_group_only(
    tmp_path: Path, machine_failures: list[logging.LogRecord], spoil: Spoil
) -> None:
    cluster = Cluster(data=tmp_path / "data")
    with cluster, asking(cluster) as asker:
        topic = new_topic(cluster)
        spoilt = group_with_coordinator(asker)
        spoil(None, FROM_THE_FUTURE)
        commit(asker, spoilt, topic)
    with cluster, asking(cluster) as asker:
        group_with_coordinator(asker)
        assert commit(asker, _neighbour_of(spoilt), topic) == 0
        assert commit(asker, spoilt, topic) == UnknownServerError.code
    assert f"group '{spoilt}', set aside" in machine_failures[0].getMessage()


def test_an_unreadable_key_costs_no_group_and_is_logged_once_with_its_offset(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Spoil
) -> None:
    cluster = Cluster(data=tmp_path / "data")
    with cluster, asking(cluster) as asker:
        topic = new_topic(cluster)
        spoilt = group_with_coordinator(asker)
        spoil(b"", FROM_THE_FUTURE)
        commit(asker, spoilt, topic)
        commit(asker, spoilt, topic)
    with cluster, asking(cluster) as asker:
        group_with_coordinator(asker)
        assert commit(asker, spoilt, topic) == 0
    index = partition_for(spoilt, PARTITIONS)
    logged = [each for each in caplog.messages if "a key that cannot be read" in each]
    assert len(logged) == 1
    assert f"__consumer_offsets-{index}" in logged[0] and "offset 0" in logged[0]


def test_a_batch_with_broken_records_costs_one_coordinator_partition_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(data=tmp_path / "data")
    with cluster, asking(cluster) as asker:
        topic = new_topic(cluster)
        spoilt = group_with_coordinator(asker)
        monkeypatch.setattr(batches, "write_quickly", lambda _records: b"\x7f\x7f")
        commit(asker, spoilt, topic)
        monkeypatch.undo()
    with cluster, asking(cluster) as asker:
        other = group_with_coordinator(asker)
        while partition_for(other, PARTITIONS) == partition_for(spoilt, PARTITIONS):
            other = group_with_coordinator(asker)
        assert commit(asker, other, topic) == 0
        assert commit(asker, _neighbour_of(spoilt), topic) == NotCoordinator.code
    index = partition_for(spoilt, PARTITIONS)
    assert f"__consumer_offsets-{index} cannot be loaded" in caplog.text


def _join_request(group: str, member_id: str = "", metadata: bytes = b"m") -> k11.JoinGroupRequest:
    return k11.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="any",
        protocols=[k11.JoinGroupRequestProtocol(name="one", metadata=metadata)],
    )


def _sync_request(joined: k11.JoinGroupResponse, group: str) -> k14.SyncGroupRequest:
    return k14.SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )


class Neighbours:
    """A group whose second member waits until the first one rejoins, and another group, about to
    make trouble, with the same coordinator partition."""

    def __init__(self, asker: Asker, patient: Asker) -> None:
        self._asker, self._patient = asker, patient
        self.trouble = group_with_coordinator(asker)
        self.quiet = _neighbour_of(self.trouble)
        self._first = asker.ask(_join_request(self.quiet), 3)
        assert asker.ask(_sync_request(self._first, self.quiet), 3).error_code == 0
        patient.send(_join_request(self.quiet), 3)

    def are_undisturbed(self) -> bool:
        rejoined = self._asker.ask(_join_request(self.quiet, self._first.member_id), 3)
        joined = self._patient.receive()
        return (rejoined.error_code, joined.error_code) == (0, 0)


@pytest.fixture
def neighbours(asker: Asker, penstock_cluster: Cluster) -> Iterator[Neighbours]:
    with asking(penstock_cluster) as patient:
        yield Neighbours(asker, patient)


def test_a_group_whose_record_is_too_large_disturbs_no_neighbour(
    asker: Asker, neighbours: Neighbours
) -> None:
    large = neighbours.trouble
    joined = asker.ask(_join_request(large, metadata=TOO_MUCH), 3)
    refused = asker.ask(_sync_request(joined, large), 3)
    assert refused.error_code == UnknownServerError.code
    assert neighbours.are_undisturbed()


def test_a_consumer_group_whose_records_are_too_large_disturbs_no_neighbour(
    asker: Asker, neighbours: Neighbours
) -> None:
    request = k68.ConsumerGroupHeartbeatRequest(
        group_id=neighbours.trouble,
        member_id="m",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[f"{number:0>200}" for number in range(8_000)],
        topic_partitions=[],
    )
    assert asker.ask(request, 1).error_code == UnknownServerError.code
    request.subscribed_topic_names = ["t"]
    assert asker.ask(request, 1).error_code == 0
    assert neighbours.are_undisturbed()


def test_a_group_whose_record_was_refused_goes_on_with_its_members(asker: Asker) -> None:
    group = group_with_coordinator(asker)
    joined = asker.ask(_join_request(group, metadata=TOO_MUCH), 3)
    asker.ask(_sync_request(joined, group), 3)
    beat = k12.HeartbeatRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert asker.ask(beat, 3).error_code == RebalanceInProgress.code
    again = asker.ask(_join_request(group, joined.member_id), 3)
    assert (again.error_code, again.generation_id) == (0, joined.generation_id + 1)
    assert asker.ask(_sync_request(again, group), 3).error_code == 0
