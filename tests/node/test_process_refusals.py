"""Starts that must not happen: each says what is wrong, where, and what to do next."""

import shutil
import socket
import time
from pathlib import Path

import pytest
from node_clients import API_VERSIONS, ask, create_topic
from node_process import START_SECONDS_MAX, NodeProcess, own_disk, produce_all, read_all, refused

from penstock.config.broker import BrokerConfig
from penstock.config.single_node import SINGLE_NODE_SETTINGS
from penstock.node import PenstockNode, StartRefused
from penstock.real.world import RealWorld


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that a node has used and left cleanly; tests copy it."""
    data = tmp_path_factory.mktemp("left") / "data"
    with NodeProcess(data) as node:
        create_topic(node, "t")
        assert produce_all(node.bootstrap, "t", [b"kept"]) == [None]
        node.terminate()
    return data


@pytest.fixture
def used(left: Path, tmp_path: Path) -> Path:
    """Return a directory that a node has used and left cleanly, for this test alone."""
    return Path(shutil.copytree(left, tmp_path / "data"))


def _wait_for(directory: Path, pattern: str) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not any(directory.glob(pattern)):
        assert time.monotonic() < deadline, f"no {pattern} in {directory}"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(tmp_path / "data", {"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    assert f"127.0.0.1:{port}" in said
    assert "--set listeners=" in said


def test_a_port_that_was_taken_before_another_was_not_to_be_had_is_free_again(
    tmp_path: Path,
) -> None:
    world = RealWorld()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        first = probe.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"A://127.0.0.1:{first},B://127.0.0.1:{taken.getsockname()[1]}"
        settings = {
            **SINGLE_NODE_SETTINGS,
            "listeners": listeners,
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
            "inter.broker.listener.name": "A",
            "log.dirs": str(tmp_path / "data"),
        }
        node = PenstockNode(world, BrokerConfig.of(settings))
        with pytest.raises(StartRefused, match="Cannot listen") as caught:
            node.start(lambda: None, lambda: None)
        assert "give B another port in the line `listeners`" in str(caught.value)
    with socket.create_server(("127.0.0.1", first)):
        pass
    world.close()


def test_two_nodes_do_not_share_a_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with NodeProcess(data) as node:
        said = refused(data)
        create_topic(node, "still-served")
    assert str(data) in said
    assert "--data" in said


def test_a_directory_whose_node_was_killed_can_be_used_at_once(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        node.kill()
    with NodeProcess(tmp_path / "data") as node:
        create_topic(node, "t")


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    said = refused(tmp_path, before=own_disk(tmp_path, "ro"))
    assert str(tmp_path) in said
    assert "Only a node without data may use another one (--data DIR" in said


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = refused(tmp_path / "file" / "data")
    assert str(tmp_path / "file" / "data") in said
    assert "--data" in said


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert str(tmp_path / "data") in refused(tmp_path / "data")


def test_another_node_id_is_refused(used: Path) -> None:
    said = refused(used, {"node.id": "7"})
    assert "7" in said
    assert "meta.properties" in said or str(used) in said
    with NodeProcess(used) as node:
        assert read_all(node.bootstrap, "t") == [b"kept"]


def test_another_cluster_id_is_refused(used: Path) -> None:
    said = refused(used, {}, "--cluster-id", "4L6g3nShT-eMCtK--X86sw")
    assert "4L6g3nShT-eMCtK--X86sw" in said


@pytest.mark.parametrize(
    ("old", "new"), [("node.id=1", "node.id=x"), ("version=1", "version=99"), ("cluster.id=", "x=")]
)
def test_meta_properties_that_make_no_sense_are_refused(used: Path, old: str, new: str) -> None:
    change(used / "meta.properties", old, new)
    assert "meta.properties" in refused(used)


def test_meta_properties_of_noise_are_refused(used: Path) -> None:
    (used / "meta.properties").write_bytes(bytes(range(128, 256)) * 4)
    assert "meta.properties" in refused(used)


def test_missing_meta_properties_beside_data_do_not_make_a_new_cluster(used: Path) -> None:
    kept = (used / "meta.properties").read_text()
    (used / "meta.properties").unlink()
    refused(used)
    (used / "meta.properties").write_text(kept)
    with NodeProcess(used) as node:
        assert read_all(node.bootstrap, "t") == [b"kept"]


def test_a_metadata_log_with_a_broken_middle_is_refused(used: Path) -> None:
    segment = next((used / "__cluster_metadata-0").glob("*.log"))
    _spoil(segment, 150)
    said = refused(used)
    assert "__cluster_metadata-0" in said


def test_a_metadata_log_that_was_cut_short_is_refused_with_advice_for_that_alone(
    used: Path,
) -> None:
    segment = next((used / "__cluster_metadata-0").glob("*.log"))
    with segment.open("r+b") as file:
        file.truncate(200)
    said = refused(used)
    assert "__cluster_metadata-0" in said
    assert "Check that the directory exists" not in said


def test_a_log_that_is_broken_in_the_middle_is_not_cut(tmp_path: Path) -> None:
    """What was durable is kept and the damage told; what comes after it is not thrown away."""
    data = tmp_path / "data"
    with NodeProcess(data) as node:
        create_topic(node, "bad")
        create_topic(node, "good")
        for topic in ("bad", "good"):
            values = [b"%d" % number * 50 for number in range(20)]
            assert produce_all(node.bootstrap, topic, values, apart=True) == [None] * 20
        node.terminate()
    (data / ".kafka_cleanshutdown").unlink()
    segment = next((data / "bad-0").glob("*.log"))
    before = segment.stat().st_size
    _spoil(segment, before // 2)
    with NodeProcess(data) as node:
        assert len(read_all(node.bootstrap, "good")) == 20
        assert "bad-0" in node.stderr
        node.terminate()
    assert segment.stat().st_size == before


def test_damage_in_an_older_segment_after_a_kill_costs_no_later_segment(tmp_path: Path) -> None:
    """Seconds after the writes, before any recovery point was written down."""
    data = tmp_path / "data"
    settings = {
        "log.segment.bytes": str(1 << 20),
        "replica.high.watermark.checkpoint.interval.ms": "600000",
    }
    with NodeProcess(data, settings) as node:
        create_topic(node, "bad")
        values = [b"%06d" % number + b"x" * 10_000 for number in range(260)]
        assert produce_all(node.bootstrap, "bad", values, apart=True) == [None] * len(values)
        _wait_for(data / "bad-0", "*.snapshot")  # an older segment is durable from here on
        node.kill()
    segments = sorted((data / "bad-0").glob("*.log"))
    assert len(segments) >= 3
    sizes = [each.stat().st_size for each in segments]
    _spoil(segments[0], sizes[0] // 2, 40)
    with NodeProcess(data, settings) as node:
        assert segments[0].name in node.stderr
        assert "cut off" not in node.stderr
        node.kill()
    assert [each.stat().st_size for each in segments] == sizes


def test_damage_is_known_from_a_lost_tail_soon_after_the_write(tmp_path: Path) -> None:
    """In the segment that is written to: by the recovery point of a moment later."""
    data = tmp_path / "data"
    settings = {
        "log.durability": "fsync",
        "replica.high.watermark.checkpoint.interval.ms": "50",
    }
    with NodeProcess(data, settings) as node:
        create_topic(node, "bad")
        values = [b"%06d" % number + b"x" * 500 for number in range(40)]
        assert produce_all(node.bootstrap, "bad", values, apart=True) == [None] * len(values)
        _wait_for_recovery_point(node, "bad 0 40\n")
        node.kill()
    segment = next((data / "bad-0").glob("*.log"))
    size = segment.stat().st_size
    _spoil(segment, size // 2, 40)
    with NodeProcess(data, settings) as node:
        assert segment.name in node.stderr
        node.kill()
    assert segment.stat().st_size == size


def test_metadata_that_was_just_written_is_known_to_be_durable(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with NodeProcess(data) as node:
        create_topic(node, "t")
        _wait_for_recovery_point(node, "__cluster_metadata 0 ")
        node.kill()
    segment = next((data / "__cluster_metadata-0").glob("*.log"))
    before = segment.read_bytes()
    _spoil(segment, 150)
    assert "__cluster_metadata-0" in refused(data)
    assert len(segment.read_bytes()) == len(before)


def _wait_for_recovery_point(node: NodeProcess, text: str) -> None:
    path = node.data / "recovery-point-offset-checkpoint"
    until = time.monotonic() + START_SECONDS_MAX
    with socket.create_connection(node.address) as connection:
        while not path.exists() or text not in path.read_text():
            assert time.monotonic() < until, f"{path} never said {text!r}"
            assert ask(connection, API_VERSIONS)


def _spoil(path: Path, position: int, size: int = 8) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        old = file.read(size)
        file.seek(position)
        file.write(bytes(byte ^ 0xFF for byte in old))
