"""What users of `penstock.testing` may pass, and what they get."""

from pathlib import Path

from penstock.config.single_node import SINGLE_NODE_SETTINGS
from penstock.testing import Cluster


def test_settings_may_be_what_python_has_for_them() -> None:
    settings: dict[str, str | int | float | bool] = {
        "num.partitions": 3,
        "auto.create.topics.enable": False,
        "unclean.leader.election.enable": True,
        "log.cleaner.min.cleanable.ratio": 0.25,
        "broker.rack": "a",
    }
    with Cluster(settings) as cluster:
        config = cluster.broker.config
        assert {name: config.get(name) for name in settings} == settings


def test_a_topics_settings_too() -> None:
    with Cluster() as cluster:
        assert cluster.create_topic("a", config={"retention.ms": 5, "preallocate": True}) == "a"


def test_data_may_be_a_path(tmp_path: Path) -> None:
    with Cluster(data=tmp_path / "data") as cluster:
        assert cluster.data == str(tmp_path / "data")
    assert (tmp_path / "data").is_dir()


def test_a_cluster_has_the_settings_of_a_single_node_on_a_free_port() -> None:
    with Cluster() as cluster:
        static = {name: each.text for name, each in cluster.broker.config.static.items()}
    own = {"listeners", "log.dirs"}
    assert {name: static[name] for name in SINGLE_NODE_SETTINGS if name not in own} == {
        name: text for name, text in SINGLE_NODE_SETTINGS.items() if name not in own
    }
    assert static["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert static["log.segment.delete.delay.ms"] == "1000"
