"""The metadata quorum as a node sees it: durability, images, snapshots, restarts."""

from typing import Any

import pytest
from metadata_world import MetadataWorld

from penstock import errors
from penstock.broker.metadata.quorum_controller import SnapshotPolicy
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY, SNAPSHOTS_KEPT
from penstock.broker.metadata.snapshot_files import list_snapshots
from penstock.controller.delta import Delta
from penstock.controller.describe import describe_quorum
from penstock.controller.image import TOPIC, ConfigResourceId, Image
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k55_describe_quorum as k55
from penstock.world import DiskFailed, DiskFull


def test_a_first_start_formats_and_activates() -> None:
    world = MetadataWorld()
    world.run()
    image = world.metadata.image
    assert image.features["metadata.version"] == 30
    assert image.features["transaction.version"] == 2
    view = world.metadata.describe()
    assert (view.leader_id, view.epoch, view.kraft_version) == (1, 1, 1)
    assert view.high_watermark == view.end_offset == image.offset + 1


def test_nothing_is_answered_or_shown_before_it_is_synced() -> None:
    world = MetadataWorld()
    world.join()
    replies: list[Any] = []
    topic = k19.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    world.metadata.submit(k19.CreateTopicsRequest(topics=[topic]), 7, replies.append)
    world.step()
    assert replies == []
    assert "orders" not in world.metadata.image.topics
    world.run()
    assert replies[0].topics[0].error_code == 0
    assert "orders" in world.metadata.image.topics


def test_the_image_is_there_before_the_reply_leaves() -> None:
    world = MetadataWorld()
    world.join()
    seen: list[bool] = []
    topic = k19.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    world.metadata.submit(
        k19.CreateTopicsRequest(topics=[topic]),
        7,
        lambda _: seen.append("orders" in world.metadata.image.topics),
    )
    world.run()
    assert seen == [True]


def test_listeners_get_each_image_with_what_changed() -> None:
    world = MetadataWorld()
    world.join()
    heard: list[tuple[Image, Delta]] = []
    world.metadata.on_image(lambda image, delta: heard.append((image, delta)))
    topic_id = world.create("orders", 2)
    (image, delta), *rest = heard
    assert not rest
    assert delta.created_topics == ("orders",)
    assert image.topic_names[topic_id] == "orders"
    assert image is world.metadata.image


def test_a_restart_takes_the_next_epoch_and_keeps_everything() -> None:
    world = MetadataWorld()
    world.join()
    world.create("orders", 3)
    before = world.metadata.image
    world.restart()
    after = world.metadata.image
    assert world.metadata.describe().epoch == 2
    assert (after.topics, after.configs, after.brokers) == (
        before.topics,
        before.configs,
        before.brokers,
    )


@pytest.mark.parametrize("seed", range(10))
def test_what_was_answered_survives_a_crash(seed: int) -> None:
    world = MetadataWorld(seed=seed)
    world.join()
    for number in range(5):
        world.create(f"t{number}", 2)
    unanswered: list[Any] = []
    topic = k19.CreatableTopic(name="maybe", num_partitions=1, replication_factor=1)
    world.metadata.submit(k19.CreateTopicsRequest(topics=[topic]), 7, unanswered.append)
    world.crash(seed)
    assert unanswered == []
    assert set(world.metadata.image.topics) - {"maybe"} == {f"t{n}" for n in range(5)}
    world.join()
    world.create("later")


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_right_after_the_first_start_does_no_harm(seed: int) -> None:
    world = MetadataWorld(seed=seed)
    world.crash(seed)
    world.join()
    world.create("orders")
    world.crash(seed + 1)
    assert "orders" in world.metadata.image.topics


def test_a_failed_sync_stops_the_controller() -> None:
    world = MetadataWorld()
    world.join()
    world.disk.fail_sync(0)
    with pytest.raises(errors.NotController):
        world.create("orders")
    assert len(world.failures) == 1
    with pytest.raises(errors.NotController):
        world.create("more")


def test_a_full_disk_refuses_the_change_and_nothing_else() -> None:
    world = MetadataWorld()
    world.join()
    world.disk.fail_write(0, full=True)
    with pytest.raises(errors.KafkaStorageError, match="No room"):
        world.create("orders")
    assert world.failures == []
    world.create("orders")
    world.restart()
    assert "orders" in world.metadata.image.topics


def test_a_failed_write_stops_the_controller() -> None:
    world = MetadataWorld()
    world.join()
    world.disk.fail_write(0)
    with pytest.raises(errors.KafkaStorageError):
        world.create("orders")
    assert len(world.failures) == 1
    with pytest.raises(errors.NotController):
        world.create("more")


def test_a_snapshot_that_found_no_room_is_written_anew() -> None:
    world = MetadataWorld()
    world.join()
    for number in range(300):
        world.create(f"t{number}")
    outcome: list[DiskFailed | None] = []
    world.disk.fail_write(1, full=True)
    assert world.metadata.snapshot(outcome.append)
    world.run()
    assert isinstance(outcome[0], DiskFull)
    assert world.failures == []
    assert world.metadata.snapshot(outcome.append)
    world.run()
    assert outcome[1] is None
    assert len(snapshot_names(world)) == 2
    world.restart()
    assert len(world.metadata.image.topics) == 300


def snapshot_names(world: MetadataWorld) -> list[str]:
    return [each.file_name for each in list_snapshots(world.disk, METADATA_DIRECTORY)]


def test_a_snapshot_and_the_rest_of_the_log_make_the_same_image() -> None:
    world = MetadataWorld()
    world.join()
    for number in range(30):
        world.create(f"before{number}", 3)
    assert world.metadata.snapshot()
    assert not world.metadata.snapshot(), "one at a time"
    world.create("during")
    world.run()
    world.create("after")
    expected = world.metadata.image
    world.restart()
    image = world.metadata.image
    assert image.topics == expected.topics
    assert list(image.topics) == list(expected.topics)
    assert (image.topic_names, image.configs, image.features, image.brokers) == (
        expected.topic_names,
        expected.configs,
        expected.features,
        expected.brokers,
    )


def test_a_snapshot_is_due_after_some_bytes() -> None:
    world = MetadataWorld(snapshots=SnapshotPolicy(bytes_between_max=2000))
    world.join()
    for number in range(60):
        world.create(f"t{number}")
    names = snapshot_names(world)
    assert len(names) == SNAPSHOTS_KEPT
    assert "00000000000000000000-0000000000.checkpoint" not in names
    first_log = min(name for name in world.disk.list(METADATA_DIRECTORY) if name.endswith(".log"))
    assert first_log > "00000000000000000000.log", "the log behind old snapshots is gone"
    world.restart()
    assert len(world.metadata.image.topics) == 60


def test_a_snapshot_is_due_after_some_time_if_there_is_something_new() -> None:
    world = MetadataWorld(snapshots=SnapshotPolicy(interval_ms=1000))
    world.join()
    world.time.advance(1000)
    world.run()
    names = snapshot_names(world)
    assert len(names) == 2
    world.time.advance(1000)
    world.run()
    assert snapshot_names(world) == names


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_amid_a_snapshot_leaves_the_older_one(seed: int) -> None:
    world = MetadataWorld(seed=seed)
    world.join()
    for number in range(300):
        world.create(f"t{number}")
    world.metadata.snapshot()
    for _ in range(seed % 3 + 1):
        world.step()
    world.crash(seed)
    assert len(world.metadata.image.topics) == 300
    assert not [name for name in world.disk.list(METADATA_DIRECTORY) if name.endswith(".part")]


def test_a_log_shorter_than_its_snapshot_begins_anew_behind_it() -> None:
    world = MetadataWorld()
    world.join()
    world.create("orders")
    world.metadata.snapshot()
    world.run()
    world.metadata.stop()
    for name in world.disk.list(METADATA_DIRECTORY):
        if name.endswith((".log", ".index", ".timeindex", ".snapshot")):
            world.disk.remove_now(f"{METADATA_DIRECTORY}/{name}")
    world.start()
    world.run()
    assert "orders" in world.metadata.image.topics
    world.create("more")
    world.restart()
    assert list(world.metadata.image.topics) == ["orders", "more"]


def test_a_damaged_newest_snapshot_falls_back_to_the_one_before() -> None:
    world = MetadataWorld()
    world.join()
    world.create("orders")
    world.metadata.snapshot()
    world.run()
    newest = f"{METADATA_DIRECTORY}/{snapshot_names(world)[-1]}"
    world.metadata.stop()
    world.disk.corrupt(newest, 100, b"damage")
    world.start()
    world.run()
    assert "orders" in world.metadata.image.topics


def test_configs_of_a_topic_go_with_it() -> None:
    world = MetadataWorld()
    world.join()
    topic = k19.CreatableTopic(
        name="orders",
        num_partitions=1,
        replication_factor=1,
        configs=[k19.CreatableTopicConfig(name="retention.ms", value="1")],
    )
    world.ask(k19.CreateTopicsRequest(topics=[topic]), 7)
    assert ConfigResourceId(TOPIC, "orders") in world.metadata.image.configs


def test_stopping_tells_everyone_who_waits() -> None:
    world = MetadataWorld()
    world.join()
    replies: list[Any] = []
    topic = k19.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    world.metadata.submit(k19.CreateTopicsRequest(topics=[topic]), 7, replies.append)
    world.metadata.stop()
    assert isinstance(replies[0], errors.NotController)


def test_the_quorum_describes_itself() -> None:
    world = MetadataWorld()
    world.run()
    request = k55.DescribeQuorumRequest(
        topics=[
            k55.RequestTopicData(topic_name=name, partitions=[k55.RequestPartitionData()])
            for name in ("__cluster_metadata", "other")
        ]
    )
    reply = describe_quorum(request, world.metadata.describe())
    own, other = (topic.partitions[0] for topic in reply.topics)
    assert (own.leader_id, own.leader_epoch, own.error_code) == (1, 1, 0)
    assert own.current_voters[0].replica_directory_id == world.meta.directory_id
    assert own.high_watermark == own.current_voters[0].log_end_offset > 0
    assert reply.nodes[0].listeners[0].port == 9093
    assert other.error_code == errors.UnknownTopicOrPartition.code
