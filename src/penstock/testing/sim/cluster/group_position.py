"""The position of a client in a group's partitions; clients that commit without transactions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from penstock.model import NO_LEADER_EPOCH, TopicPartition
from penstock.testing.history import Isolation
from penstock.testing.sim.cluster.delivery_client import (
    AUDIT,
    BILLS,
    READS,
    TOPIC_PARTITIONS,
    Deliveries,
    DeliveryClient,
)
from penstock.testing.sim.cluster.routing import RoutedScript
from penstock.testing.sim.group_member import (
    FENCED_INSTANCE,
    FENCED_MEMBER,
    GROUP_NOT_FOUND,
    ILLEGAL_GENERATION,
    PASSING,
    REBALANCING,
    STALE_MEMBER,
    UNKNOWN_MEMBER,
    Dismissed,
    SimMembership,
)
from penstock.testing.sim.group_offsets import fetch_offsets, offset_commit
from penstock.testing.sim.partition_cursor import Fetched, PartitionCursor
from penstock.testing.sim.script import TopicFacts
from penstock.testing.sim.transactional import error_codes

OFFSET_FETCH_VERSIONS = (8, 9, 10)
# The group goes on without this member.
COMMIT_REJECTED = (
    ILLEGAL_GENERATION,
    UNKNOWN_MEMBER,
    REBALANCING,
    GROUP_NOT_FOUND,
    FENCED_INSTANCE,
    FENCED_MEMBER,
    STALE_MEMBER,
)

JoinGroup: TypeAlias = Callable[[DeliveryClient, Mapping[str, TopicFacts]], SimMembership]


class GroupPosition:
    """The next offsets of one member, and those that the group has committed."""

    def __init__(self, client: DeliveryClient, group: str) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self._client = client
        self._group = group
        self._cursors: dict[TopicPartition, PartitionCursor] = {}

    @property
    def moved(self) -> dict[TopicPartition, int]:
        """Return the positions that the group does not know."""
        return {
            partition: cursor.positions[partition]
            for partition, cursor in self._cursors.items()
            if cursor.positions[partition] != self.committed[partition]
        }

    @property
    def leader_epochs(self) -> dict[TopicPartition, int]:
        """Return the leader epochs of the records before the positions."""
        return {
            partition: cursor.leader_epochs.get(partition, NO_LEADER_EPOCH)
            for partition, cursor in self._cursors.items()
        }

    def restart(self) -> None:
        """Forget all positions: the group knows where to go on."""
        self._client.process.revoked(list(self.committed))
        self._cursors.clear()
        self.committed.clear()

    def find(self, wanted: Sequence[TopicPartition]) -> RoutedScript[None]:
        """Ask the group for missing positions."""
        missing = [each for each in wanted if each not in self.committed]
        if not missing:
            return
        client = self._client
        version = client.chance.choice(OFFSET_FETCH_VERSIONS)
        script = fetch_offsets(version, self._group, missing, client.facts)
        found = yield from client.fetch_committed(self._group, missing, script)
        for partition, (offset, leader_epoch) in found.items():
            self._cursors[partition] = cursor = client.cursor(partition)
            if offset >= 0:
                cursor.leader_epochs[partition] = leader_epoch
            self.committed[partition] = max(0, offset)
            self._seek(partition)

    def _seek(self, partition: TopicPartition) -> None:
        offset = self.committed[partition]
        self._cursors[partition].positions[partition] = offset
        self._client.process.sought(partition, offset)

    def go_back(self) -> None:
        """Read again from where the group is."""
        for partition in self.committed:
            self._seek(partition)

    def poll(self) -> RoutedScript[list[Fetched]]:
        """Read one of the partitions."""
        if not self._cursors:
            return []
        partition = self._client.chance.choice(list(self._cursors))
        return (yield from self._client.poll(self._cursors[partition]))


class CommittingClient(DeliveryClient):
    """Reads bills as a member of a group, and commits its position."""

    def __init__(self, shared: Deliveries, name: str, join: JoinGroup) -> None:
        isolation = shared.run.simulation.chance.choice(list(Isolation))
        super().__init__(shared, name, isolation)
        self._join = join
        self.membership: SimMembership

    def script(self) -> RoutedScript[None]:
        yield from self.find_topics()
        self.membership = self._join(self, {BILLS: self.facts[BILLS]})
        position = GroupPosition(self, AUDIT)
        try:
            while not self.shared.is_over:
                if (yield from self.play(self.membership.speak())):
                    position.restart()
                yield from position.find(self.membership.partitions)
                yield from position.poll()
                yield from self._commit(position)
                yield self.rest_between()
            yield from self.play(self.membership.leave())
        except Dismissed:
            pass

    def _commit(self, position: GroupPosition) -> RoutedScript[None]:
        moved = position.moved
        if not moved:
            return
        owners, membership = self.shared.owners, self.membership
        others = owners.others(AUDIT, list(moved), self.name)
        committing = self.process.commit_offsets(AUDIT, moved)
        version = self.chance.choice(membership.commit_versions)
        epochs = position.leader_epochs
        ask = offset_commit(version, AUDIT, moved, self.facts, membership.member, epochs)
        response = yield from self.ask(ask)
        if response is None:
            return
        codes = error_codes(ask.key, response)
        if not any(codes):
            committing.ok()
            position.committed.update(moved)
            if others:
                owners.accepted(AUDIT, self.name, others)
        elif all(code in COMMIT_REJECTED for code in codes):
            committing.failed()
        else:
            assert all(code in (0, *PASSING) for code in codes), f"{self.name}: errors {codes}"


class ProgressWatcher(DeliveryClient):
    """Asks for the committed offsets of all groups, which never go back."""

    def __init__(self, shared: Deliveries, name: str) -> None:
        super().__init__(shared, name)
        self.progress: dict[tuple[str, TopicPartition], int] = {}

    def script(self) -> RoutedScript[None]:
        yield from self.find_topics()
        while not self.shared.is_over:
            for group, topic in READS.items():
                yield from self._look(group, TOPIC_PARTITIONS[topic])
            yield self.pause(0.0, 3 * self.shared.pace_ms)

    def _look(self, group: str, wanted: Sequence[TopicPartition]) -> RoutedScript[None]:
        version = self.chance.choice(OFFSET_FETCH_VERSIONS)
        script = fetch_offsets(version, group, wanted, self.facts)
        found = yield from self.fetch_committed(group, wanted, script)
        for partition, (offset, _leader_epoch) in found.items():
            before = self.progress.get((group, partition), -1)
            if offset < before:
                self.shared.violations.append(
                    f"{group} went back from {before} to {offset} in {partition}"
                )
            self.progress[group, partition] = offset


class WholeLogReader(DeliveryClient):
    """Reads all partitions from their begin to the end that they have by now."""

    def script(self) -> RoutedScript[None]:
        yield from self.find_topics()
        for partitions in TOPIC_PARTITIONS.values():
            for partition in partitions:
                yield from self._read(partition)

    def _read(self, partition: TopicPartition) -> RoutedScript[None]:
        reading = self.process.read_to_end(partition)
        cursor = self.cursor(partition)
        end_offset: int | None = None
        while end_offset is None or cursor.positions[partition] < end_offset:
            yield from self.poll(cursor)
            if end_offset is None:
                end_offset = cursor.high_watermarks.get(partition)
        reading.reached(end_offset)
