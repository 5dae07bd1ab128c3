"""A coordinator whose log has something wrong: its neighbours go on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from api_asking import Asker, asking, new_topic
from delivery_cases import commit, group_with_coordinator, sync

from penstock.coordinator import batches
from penstock.coordinator.partitions import partition_for
from penstock.errors import NotCoordinator, UnknownServerError
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k11_join_group as k11
from penstock.wire.messages import k14_sync_group as k14
from penstock.wire.messages.k15_describe_groups import DescribeGroupsRequest
from penstock.wire.records.coordinator import write_coordinator_key

pytest_plugins = ["api_fixtures"]

PARTITIONS = 50
FROM_THE_FUTURE = b"\x00\x63" + bytes(20)  # a value of version 99


@pytest.fixture
def from_the_future(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on a coordinator writes its values in a version that nobody knows."""

    def spoil() -> None:
        monkeypatch.setattr(batches, "write_record", spoilt)
        monkeypatch.setattr(batches, "write_quickly", lambda _records: None)

    def spoilt(key: object, _value: object) -> tuple[bytes, bytes]:
        return write_coordinator_key(key), FROM_THE_FUTURE

    return spoil


def test_a_record_that_nobody_knows_costs_one_coordinator_partition_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, from_the_future: Callable[[], None]
) -> None:
    cluster = Cluster(data=tmp_path / "data")
    with cluster, asking(cluster) as asker:
        topic = new_topic(cluster)
        spoilt = group_with_coordinator(asker)
        index = partition_for(spoilt, PARTITIONS)
        from_the_future()
        commit(asker, spoilt, topic)
    with cluster, asking(cluster) as asker:
        other = group_with_coordinator(asker)
        while partition_for(other, PARTITIONS) == index:
            other = group_with_coordinator(asker)
        [described] = asker.ask(DescribeGroupsRequest(groups=[other]), 0).groups
        assert described.error_code == 0
        assert commit(asker, spoilt, topic) == NotCoordinator.code
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


def test_a_group_whose_record_is_too_large_disturbs_no_neighbour(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    large = group_with_coordinator(asker)
    neighbour = f"{large}x"
    while partition_for(neighbour, PARTITIONS) != partition_for(large, PARTITIONS):
        neighbour += "x"
    with asking(penstock_cluster) as patient:
        first = asker.ask(_join_request(neighbour), 3)
        assert asker.ask(_sync_request(first, neighbour), 3).error_code == 0
        patient.send(_join_request(neighbour), 3)  # waits until the first one rejoins
        joined = asker.ask(_join_request(large, metadata=bytes(1_200_000)), 3)
        refused = asker.ask(_sync_request(joined, large), 3)
        assert refused.error_code == UnknownServerError.code
        assert asker.ask(_join_request(neighbour, first.member_id), 3).error_code == 0
        assert patient.receive().error_code == 0


def test_a_group_whose_record_was_refused_can_begin_again(asker: Asker) -> None:
    group = group_with_coordinator(asker)
    joined = asker.ask(_join_request(group, metadata=bytes(1_200_000)), 3)
    asker.ask(_sync_request(joined, group), 3)
    assert sync(asker, group).error_code == 0
