"""A node that is started again: which committed offsets it still has."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_asking import Asker, asking, find_coordinator

from penstock.broker.coordinators.coordinators import Coordinators
from penstock.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k08_offset_commit as k08
from penstock.wire.messages import k09_offset_fetch as k09
from penstock.wire.messages import k20_delete_topics as k20

TRIES_MAX = 10_000
NOT_YET = (CoordinatorLoadInProgress.code, NotCoordinator.code)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster({"offsets.topic.num.partitions": 1}, data=tmp_path) as running:
        yield running


def _commit(asker: Asker, topic: str, offset: int) -> None:
    partition = k08.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    wanted = k08.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    request = k08.OffsetCommitRequest(group_id="g", topics=[wanted])
    for _ in range(TRIES_MAX):
        [answer] = asker.ask(request, 9).topics
        code = answer.partitions[0].error_code
        if code not in NOT_YET:
            break
    assert code == 0


def _committed(asker: Asker) -> dict[str, int]:
    wanted = k09.OffsetFetchRequestGroup(group_id="g", topics=None)
    for _ in range(TRIES_MAX):
        [answer] = asker.ask(k09.OffsetFetchRequest(groups=[wanted]), 9).groups
        if answer.error_code not in NOT_YET:
            break
    assert answer.error_code == 0
    return {each.name: each.partitions[0].committed_offset for each in answer.topics}


def test_a_restart_forgets_the_offsets_of_topics_that_are_gone_and_no_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asking(cluster) as asker:
        find_coordinator(asker, 0, "g")
        for name in ("kept", "gone", "remade"):
            cluster.create_topic(name)
            _commit(asker, name, 5)
        # The coordinator is as deaf as one that is loading.
        monkeypatch.setattr(Coordinators, "follow", lambda _coordinators, _delta: None)
        names = [k20.DeleteTopicState(name=name) for name in ("gone", "remade")]
        asker.ask(k20.DeleteTopicsRequest(topics=names, timeout_ms=10_000), 6)
        cluster.create_topic("remade")
        assert _committed(asker) == {"kept": 5, "gone": 5, "remade": 5}
    cluster.stop()
    cluster.start()
    with asking(cluster) as asker:
        for _ in range(TRIES_MAX):
            if len(_committed(asker)) == 1:
                break
        assert _committed(asker) == {"kept": 5}
