"""A directory that cannot be used: what it holds is offline, everything else is served."""

from pathlib import Path

import pytest

from penstock.client.admin.blocking import Admin
from penstock.client.values import At
from penstock.errors import KafkaError, KafkaStorageError
from penstock.model import TopicPartition
from penstock.node import StartRefused
from penstock.testing import Cluster, NodeFailed
from penstock.world import DiskFailed

PARTITIONS = [TopicPartition("t", index) for index in (0, 1)]


def cluster_over(*directories: Path) -> Cluster:
    return Cluster({"log.dirs": ",".join(map(str, directories))}, memory=False)


def states(cluster: Cluster) -> list[type[KafkaError] | None]:
    """What each partition answers."""
    with Admin(bootstrap=cluster.bootstrap) as admin:
        found = admin.offsets(dict.fromkeys(PARTITIONS, At.END))
    answers = [found[each] for each in PARTITIONS]
    return [type(each) if isinstance(each, KafkaError) else None for each in answers]


def test_a_directory_that_cannot_be_opened_at_the_start_costs_its_own_partitions_only(
    tmp_path: Path,
) -> None:
    first, second, away = (tmp_path / name for name in ("first", "second", "away"))
    with cluster_over(first, second) as cluster:
        cluster.create_topic("t", 2)
    second.rename(away)
    second.write_text("no directory")
    with cluster_over(first, second) as cluster:
        assert states(cluster) == [None, KafkaStorageError]
        with Admin(bootstrap=cluster.bootstrap) as admin:
            described = admin.log_dirs.describe()
        (directories,) = described.values()
        assert not isinstance(directories, Exception)
        assert not isinstance(directories[str(first)], KafkaError)
        assert isinstance(directories[str(second)], KafkaStorageError)
    second.unlink()
    away.rename(second)
    with cluster_over(first, second) as cluster:
        assert states(cluster) == [None, None]


def test_without_the_directory_of_the_metadata_there_is_no_start(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with cluster_over(first, second):
        pass
    first.rename(tmp_path / "away")
    first.write_text("no directory")
    with pytest.raises(StartRefused, match="first"):
        cluster_over(first, second).start()


def test_a_node_whose_metadata_directory_fails_ends_and_says_so(tmp_path: Path) -> None:
    cluster = cluster_over(tmp_path / "first", tmp_path / "second").start()
    directory = cluster.broker.replicas.directories[0]
    cluster.call(lambda: directory.take_offline(DiskFailed("it is gone")))
    with pytest.raises(NodeFailed, match="the metadata log is in it"):
        cluster.advance(seconds=1)  # those who wait for an answer hear of it first
    with pytest.raises(NodeFailed):
        cluster.close()
