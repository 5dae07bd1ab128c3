"""What a log may hold of consumer groups, whoever wrote it."""

import pytest
from consumer_story import GROUP, Consumer, Story, settle

from penstock.coordinator.groups.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.groups.consumer.subscription import MetadataHash, all_topics
from penstock.coordinator.records import CoordinatorRecord
from penstock.wire.records import group as kept
from penstock.wire.structures import TopicIdPartitions

T = (1).to_bytes(16, "big")


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def current(
    member_id: str, epoch: int, *partitions: int, state: int = 0, epochs: list[int] | None = None
) -> CoordinatorRecord:
    owned = kept.TopicPartitions(topic_id=T, partitions=list(partitions), assignment_epochs=epochs)
    return CoordinatorRecord(
        kept.ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id),
        kept.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=epoch,
            state=state,
            assigned_partitions=[owned] if partitions else [],
        ),
    )


def member(
    member_id: str, instance_id: str | None = None, rebalance_timeout_ms: int = 60_000
) -> CoordinatorRecord:
    return CoordinatorRecord(
        kept.ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=member_id),
        kept.ConsumerGroupMemberMetadataValue(
            instance_id=instance_id,
            rack_id=None,
            subscribed_topic_names=["t"],
            subscribed_topic_regex=None,
            rebalance_timeout_ms=rebalance_timeout_ms,
            server_assignor=None,
            classic_member_metadata=None,
        ),
    )


def epoch(number: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        kept.ConsumerGroupMetadataKey(group_id=GROUP), kept.ConsumerGroupMetadataValue(epoch=number)
    )


def partition_metadata() -> CoordinatorRecord:
    return CoordinatorRecord(
        kept.ConsumerGroupPartitionMetadataKey(group_id=GROUP),
        kept.ConsumerGroupPartitionMetadataValue(
            topics=[kept.TopicMetadata(topic_id=T, topic_name="t", num_partitions=4)]
        ),
    )


def target(member_id: str, *partitions: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        kept.ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id=member_id),
        kept.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TopicIdPartitions(topic_id=T, partitions=list(partitions))]
        ),
    )


def target_epoch(number: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        kept.ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP),
        kept.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number),
    )


def load(story: Story, *records: CoordinatorRecord) -> None:
    for record in records:
        story.machine.replay(record)
    story._perform(story.machine.loaded(story.now_ms))


def group_of_kafka_4_0(story: Story) -> Consumer:
    """A group at rest, as a server of that version left it."""
    load(
        story,
        member("a"),
        partition_metadata(),
        epoch(5),
        target("a", 0, 1, 2, 3),
        target_epoch(5),
        current("a", 5, 0, 1, 2, 3),
    )
    left = Consumer(story, "a", "t")
    left.epoch, left.has = 5, ["t-0", "t-1", "t-2", "t-3"]
    return left


def test_a_group_of_an_older_server_goes_on(story: Story) -> None:
    left = group_of_kafka_4_0(story)
    assert story.group_state == "Stable"
    assert left.report().error == "NONE"
    settle(story, left)
    assert left.has == ["t-0", "t-1", "t-2", "t-3"]


def test_what_an_older_server_kept_of_partitions_gives_way_to_the_hash(story: Story) -> None:
    group_of_kafka_4_0(story).report()
    kinds = story.take_kinds()
    assert kinds[1:3] == ["Metadata", "-PartitionMetadata"]
    assert not story.group.has_partition_metadata


def test_partitions_without_an_epoch_are_as_old_as_their_member(story: Story) -> None:
    group_of_kafka_4_0(story)
    assert story.group.members["a"].assigned == {T: {0: 5, 1: 5, 2: 5, 3: 5}}


def test_partitions_keep_their_epochs(story: Story) -> None:
    load(story, member("a"), current("a", 5, 0, 1, epochs=[3, 4]))
    assert story.group.members["a"].assigned == {T: {0: 3, 1: 4}}


def test_a_record_that_does_not_mention_the_classic_protocol_means_none(story: Story) -> None:
    record = member("a")
    assert isinstance(record.value, kept.ConsumerGroupMemberMetadataValue)
    record.value.classic_member_metadata = kept.ClassicMemberMetadata()
    load(story, record)
    assert story.group.members["a"].classic is None


def test_a_state_of_a_newer_server_is_unknown(story: Story) -> None:
    load(story, member("a"), epoch(5), target_epoch(5), current("a", 5, 0, state=9))
    assert story.group.members["a"].state is MemberState.UNKNOWN
    left = Consumer(story, "a", "t")
    left.epoch, left.has = 5, ["t-0"]
    assert left.report().error == "FENCED_MEMBER_EPOCH"
    assert left.join().error == "NONE"


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (0, MemberState.STABLE),
        (1, MemberState.UNREVOKED_PARTITIONS),
        (2, MemberState.UNRELEASED_PARTITIONS),
    ],
)
def test_states_have_the_numbers_that_kafka_gives_them(
    story: Story, number: int, state: MemberState
) -> None:
    load(story, member("a"), current("a", 5, 0, state=number))
    assert story.group.members["a"].state is state


def test_the_later_record_says_who_has_a_partition(story: Story) -> None:
    # Compaction took the record in which the first member gave the partition back.
    load(story, member("a"), member("b"), current("a", 5, 0), current("b", 6, 0))
    assert story.group.owner(T, 0) == "b"
    story.machine.replay(current("a", 7))
    assert story.group.owner(T, 0) == "b"


def test_a_timeout_below_zero_in_an_older_log_counts_as_none(story: Story) -> None:
    load(story, member("a", rebalance_timeout_ms=-(2**31)), epoch(5))
    assert story.group.members["a"].rebalance_timeout_ms == 0


def test_a_member_with_another_instance_in_its_later_record_has_left_the_first(
    story: Story,
) -> None:
    load(story, member("a", "i0"), member("a", "i1"), epoch(5))
    assert story.group.static_ids == {"i1": "a"}
    load(story, CoordinatorRecord(member("a").key))
    assert Consumer(story, "b", "t", instance_id="i0").join().error == "NONE"


def test_tombstones_of_what_is_not_there_mean_nothing(story: Story) -> None:
    for record in (member("a"), current("a", 1), epoch(1), target("a"), target_epoch(1)):
        story.machine.replay(CoordinatorRecord(record.key))
    assert story.kind == "none"


def test_the_tombstones_of_a_group_remove_it(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    Consumer(story, "b", regex="t").join_resolved()
    first.beat()
    for record in story.group.tombstones():
        story.machine.replay(record)
    assert story.kind == "none"


def test_every_key_of_a_group_has_a_tombstone(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    Consumer(story, "b", regex="t").join_resolved()
    first.beat()
    live = {repr(record.key) for record in story.take_records() if record.value is not None}
    assert live == {repr(record.key) for record in story.group.tombstones()}


def test_every_story_reads_back_as_it_was(story: Story) -> None:
    first, second = (
        Consumer(story, "a", "t").join(),
        Consumer(story, "b", regex="t.*").join_resolved(),
    )
    first.beat()
    second.report()
    story.make_topic("tt", 2)
    first.report()
    before = vars(story.group).copy()
    story.restart()
    after = vars(story.group).copy()
    for soft in ("stale", "regexes_stale"):
        before.pop(soft)
        after.pop(soft)
    assert after == before


# The hash


def test_the_hash_of_the_same_topics_is_the_same_number_everywhere(story: Story) -> None:
    assert MetadataHash(story.cluster).of(["t"]) == 573170203122373476


def test_the_hash_of_no_topics_is_zero(story: Story) -> None:
    assert MetadataHash(story.cluster).of([]) == 0
    assert MetadataHash(story.cluster).of(["nowhere"]) == 0


def test_the_hash_sees_every_change_of_a_topic(story: Story) -> None:
    hashes = MetadataHash(story.cluster)
    seen = [hashes.of(["t"])]
    story.cluster.make("t", 5)
    seen.append(hashes.of(["t"]))
    story.cluster.make("t", 5, ["r1"])
    seen.append(hashes.of(["t"]))
    del story.cluster.topics["t"]
    story.cluster.make("t", 5, ["r1"])
    seen.append(hashes.of(["t"]))
    story.cluster.make("u", 5, ["r1"])
    seen.append(hashes.of(["t", "u"]))
    assert len(set(seen)) == len(seen)


def test_subscriptions_longer_than_the_list_of_topics_keep_their_existing_names(
    story: Story,
) -> None:
    absent = {f"absent-{number}" for number in range(100)}
    members = [
        ConsumerMember(str(number), topics=frozenset({*absent, "t", str(number)}))
        for number in range(3)
    ]
    assert all_topics(members, {}, story.cluster) == {"t"}


def test_the_hash_does_not_see_names_without_a_topic(story: Story) -> None:
    hashes = MetadataHash(story.cluster)
    absent = [f"absent-{number}" for number in range(100)]
    assert hashes.of([*absent, "t"]) == hashes.of(["t"])
