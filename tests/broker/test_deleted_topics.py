"""Deleted topics are gone from the disk, whenever the node dies; what nobody knows is kept."""

import pytest
from simulated_node import PRODUCE, Bench, produce, replies

from depth import sample
from penstock.broker.storage.placements import PLACEMENTS
from penstock.log.checkpoints import START_OFFSETS
from penstock.testing.sim.world import WorldDisk
from penstock.wire.frame import request_frame
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k20_delete_topics as k20
from penstock.world import DiskFailed

CREATE_TOPICS, DELETE_TOPICS = 19, 20
SETTINGS = {"log.segment.delete.delay.ms": "1000"}
DELETED_BY_MS = 5_000
STEPS = sample(range(0, 60, 2), every=5)


def with_records() -> Bench:
    bench = Bench(SETTINGS)
    bench.create_topic("t", 2)
    connection, peer = bench.connect()
    for partition in (0, 1):
        bench.receive(connection, bench.frame(PRODUCE, produce("t", b"old", partition)))
    bench.settle(2_000)
    assert len(replies(peer, [PRODUCE] * 2)) == 2
    connection.closed()
    return bench


def delete(bench: Bench, *, create_again: bool = False) -> None:
    connection, _ = bench.connect()
    request = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
    frames = request_frame(DELETE_TOPICS, 5, 1, "test", request)
    if create_again:
        topic = k19.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        message = k19.CreateTopicsRequest(topics=[topic])
        frames += request_frame(CREATE_TOPICS, 7, 2, "test", message)
    bench.receive(connection, frames)


def died_after(bench: Bench, steps: int, *, power: bool) -> dict[str, WorldDisk]:
    for _ in range(steps):
        bench.simulation.step()
    bench.world.kill()
    return bench.world.disks_after_power_loss() if power else bench.world.disks_after_kill()


def remains(bench: Bench) -> list[str]:
    """Names in the root that have to do with the topic."""
    return [name for name in bench.world.disks["data"].list() if name.startswith("t-")]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_a_deleted_topic_goes_wherever_the_node_dies(steps: int, power: bool) -> None:
    bench = with_records()
    delete(bench)
    again = Bench(SETTINGS, disks=died_after(bench, steps, power=power))
    if "t" in again.broker.image.topics:  # it died before that was decided
        assert remains(again) == ["t-0", "t-1"]
        return
    again.settle(DELETED_BY_MS)
    assert remains(again) == []


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_a_topic_made_again_is_a_new_one_wherever_the_node_dies(steps: int, power: bool) -> None:
    bench = with_records()
    old_id = bench.broker.image.topics["t"].topic_id
    delete(bench, create_again=True)
    again = Bench(SETTINGS, disks=died_after(bench, steps, power=power))
    again.settle(DELETED_BY_MS)
    topic = again.broker.image.topics.get("t")
    if topic is None:
        assert remains(again) == []
        return
    assert remains(again) == ["t-0", "t-1"]
    ends = [again.broker.find("t", index).log.end_offset for index in (0, 1)]
    if topic.topic_id != old_id:
        assert ends == [0, 0]
    elif not power:  # which the page cache does not survive
        assert ends == [1, 1]


def test_a_second_death_before_the_files_went_changes_nothing() -> None:
    bench = with_records()
    delete(bench)
    disks = died_after(bench, 4, power=False)
    for _ in range(3):
        bench = Bench(SETTINGS, disks=disks)
        disks = died_after(bench, 3, power=False)
    again = Bench(SETTINGS, disks=disks)
    again.settle(DELETED_BY_MS)
    assert remains(again) == [] or "t" in again.broker.image.topics


def test_metadata_that_is_older_than_the_partitions_removes_none() -> None:
    bench = with_records()
    delete(bench)
    bench.simulation.run_until(lambda: "t" not in bench.broker.image.topics)
    disks = died_after(bench, 0, power=False)
    left = [name for name in disks["data"].list() if name in ("t-0", "t-1")]
    assert left
    # As if somebody had put back metadata from before the topic was made.
    said = disks["data"].files()[PLACEMENTS].decode().splitlines()
    [place] = [at for at, line in enumerate(said) if line.startswith("metadata offset")]
    said[place] = "metadata offset 1000000"
    disks["data"].replace_now(PLACEMENTS, "\n".join([*said, ""]).encode())
    again = Bench(SETTINGS, disks=disks)
    again.settle(DELETED_BY_MS)
    assert "t" not in again.broker.image.topics
    assert len(remains(again)) == len(left)
    assert all(name.endswith("-stray") for name in remains(again))


def test_a_directory_that_was_never_here_is_kept() -> None:
    bench = with_records()
    disks = bench.stop()
    files = disks["data"].files()
    for path, data in files.items():
        if path.startswith("t-0/"):
            disks["data"].put(path.replace("t-0/", "t-7/"), data)
    strange = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    disks["data"].put("t-7/partition.metadata", strange)
    again = Bench(SETTINGS, disks=disks)
    again.settle(DELETED_BY_MS)
    assert [name for name in remains(again) if name.endswith("-stray")]


# -- a topic that lived for a moment only


def just_made() -> Bench:
    """Nothing is written down of the topic but itself: it was made a moment ago."""
    bench = Bench(SETTINGS)
    bench.settle(2_000)
    bench.create_topic("t", 2)
    return bench


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_a_topic_that_lived_for_a_moment_goes_wherever_the_node_dies(
    steps: int, power: bool
) -> None:
    bench = just_made()
    delete(bench)
    again = Bench(SETTINGS, disks=died_after(bench, steps, power=power))
    again.settle(DELETED_BY_MS)
    if "t" in again.broker.image.topics:  # it died before that was decided
        assert remains(again) == ["t-0", "t-1"]
    else:
        assert remains(again) == []


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_a_topic_deleted_while_it_is_made_goes_wherever_the_node_dies(
    steps: int, power: bool
) -> None:
    bench = Bench(SETTINGS)
    bench.settle(2_000)
    connection, _ = bench.connect()
    topic = k19.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    made = request_frame(CREATE_TOPICS, 7, 1, "test", k19.CreateTopicsRequest(topics=[topic]))
    gone = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
    other, _ = bench.connect()
    bench.receive(connection, made)
    bench.simulation.run_until(lambda: "t" in bench.broker.image.topics)
    bench.receive(other, request_frame(DELETE_TOPICS, 5, 1, "test", gone))
    again = Bench(SETTINGS, disks=died_after(bench, steps, power=power))
    again.settle(DELETED_BY_MS)
    if "t" in again.broker.image.topics:
        assert remains(again) == ["t-0", "t-1"]
    else:
        assert remains(again) == []


# -- what the checkpoints say of it


def test_a_topic_made_again_does_not_begin_where_the_deleted_one_did() -> None:
    bench = with_records()
    partition = bench.broker.find("t", 0)
    partition.delete_before(1)
    bench.broker.replicas.start_offsets_moved([partition.directory])
    bench.settle()
    assert "t 0 1" in start_offsets(bench)
    delete(bench, create_again=True)
    old_id = partition.topic_id
    bench.simulation.run_until(lambda: _is_made_again(bench, old_id))
    assert "t 0 1" not in start_offsets(bench)
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"new")))
    bench.simulation.run_until(lambda: bool(peer.sent))
    again = Bench(SETTINGS, disks=died_after(bench, 0, power=False))
    log = again.broker.find("t", 0).log
    assert (log.start_offset, log.end_offset) == (0, 1)


def start_offsets(bench: Bench) -> list[str]:
    return bench.world.disks["data"].files()[START_OFFSETS].decode().splitlines()


def _is_made_again(bench: Bench, old_id: bytes) -> bool:
    topic = bench.broker.image.topics.get("t")
    if topic is None or topic.topic_id == old_id:
        return False
    return set(bench.broker.replicas.by_id.get(topic.topic_id, {})) == {0, 1}


# -- on a disk that is away


def test_a_topic_deleted_while_its_disk_is_away_goes_when_that_is_back() -> None:
    settings = {**SETTINGS, "log.dirs": "data,more"}
    bench = Bench(settings)
    bench.create_topic("t", 2)
    bench.settle(2_000)
    disks = bench.stop()
    (left,) = [name for name in disks["more"].list() if name.startswith("t-")]
    listed = disks["more"].list
    disks["more"].list = _cannot_list  # type: ignore[method-assign]
    bench = Bench(settings, disks=disks)
    delete(bench)
    bench.settle(2_000)
    assert "t" not in bench.broker.image.topics
    disks = _after(bench)
    for name in ("u", "v"):  # starts that cannot look at it either
        disks["more"].list = _cannot_list  # type: ignore[method-assign]
        bench = Bench(settings, disks=disks)
        bench.create_topic(name)
        bench.settle(2_000)
        disks = _after(bench)
    disks["more"].list = listed  # type: ignore[method-assign]
    assert left in listed()
    again = Bench(settings, disks=disks)
    again.settle(DELETED_BY_MS)
    assert not [name for name in listed() if name.startswith("t-")]


def _after(bench: Bench) -> dict[str, WorldDisk]:
    bench.world.kill()
    return bench.world.disks_after_kill()


def _cannot_list(path: str = "") -> list[str]:
    raise DiskFailed(f"cannot list {path}")
