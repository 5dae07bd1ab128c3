"""Classic groups as stories: members speak, time passes, the coordinator dies and comes back.

Records are replayed at once and written to a log of bytes; a restart reads that log.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from penstock.coordinator.batches import decode, encode
from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.admin import AdminRequests
from penstock.coordinator.groups.classic import ClassicGroup, ClassicRequests
from penstock.coordinator.groups.group import GroupCoordinatorState
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.offsets import OffsetStore
from penstock.coordinator.records import CoordinatorRecord
from penstock.effects import Outcome, SetTimer, Ticket
from penstock.errors import NONE, KafkaError, NotCoordinator, from_code
from penstock.wire.batch import HEADER
from penstock.wire.codec import write
from penstock.wire.messages.k08_offset_commit import OffsetCommitRequest
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest
from penstock.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.wire.messages.k15_describe_groups import DescribedGroup, DescribeGroupsRequest
from penstock.wire.messages.k16_list_groups import ListGroupsRequest
from penstock.wire.messages.k42_delete_groups import DeleteGroupsRequest
from penstock.wire.records.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.records.coordinator import GROUP_RECORDS
from penstock.wire.records.group import GroupMetadataKey, GroupMetadataValue

GROUP = "orders"
BEGINNING_MS = 1_700_000_000_000
DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
WAKES_MAX = 10_000
NEWEST = {"join": 9, "sync": 5, "heartbeat": 4, "leave": 5}


def name_of(error_code: int) -> str:
    return "NONE" if error_code == NONE else type(from_code(error_code)).kafka_name()


def subscription(*topics: str, version: int = 3) -> bytes:
    said = ConsumerProtocolSubscription(topics=list(topics))
    return version.to_bytes(2, "big") + write(said, version)


class Asked:
    """A request and, once it has come, its answer."""

    def __init__(self) -> None:
        self._answer: Any = None

    @property
    def waits(self) -> bool:
        return self._answer is None

    @property
    def answer(self) -> Any:
        assert self._answer is not None, "still waiting"
        return self._answer

    @property
    def error(self) -> str:
        answer = self.answer
        return answer.kafka_name() if isinstance(answer, KafkaError) else name_of(answer.error_code)

    def take(self, answer: Any) -> None:
        assert self._answer is None, "answered twice"
        self._answer = answer


class Story:
    """One partition of __consumer_offsets."""

    def __init__(self, **settings: Any) -> None:
        self.settings = GroupSettings(**settings)
        self.now_ms = BEGINNING_MS
        self.log: list[bytes] = []
        self.new_records: list[CoordinatorRecord] = []
        self.refusal: KafkaError | None = None  # of the log, as long as it is there
        self.wakes = 0
        self._seeds = count(1)
        self._order = count()
        self._begin()

    def _begin(self) -> None:
        self.state = GroupCoordinatorState(OffsetStore())
        self.work = ClassicRequests(self.state, self.settings)
        self.admin = AdminRequests(self.state)
        self.waiting: dict[Ticket, Asked] = {}
        self._timers: dict[str, tuple[int, int, Any]] = {}
        self._due: list[tuple[int, int, str]] = []

    # What happens

    def _handle(self, call: GroupRequest) -> Outcome:
        match call.message:
            case JoinGroupRequest():
                return self.work.join(call, self.now_ms)
            case SyncGroupRequest():
                return self.work.sync(call, self.now_ms)
            case HeartbeatRequest():
                return self.work.heartbeat(call)
            case LeaveGroupRequest():
                return self.work.leave(call, self.now_ms)
            case DescribeGroupsRequest():
                return self.admin.describe(call)
            case ListGroupsRequest():
                return self.admin.list_all(call)
            case DeleteGroupsRequest():
                return self.admin.delete(call)
            case other:
                raise AssertionError(f"no request to classic groups: {other}")

    def ask(
        self, message: Any, version: int, client_id: str = "client", host: str = "/1.2.3.4"
    ) -> Asked:
        seed = next(self._seeds).to_bytes(16, "big")
        call = GroupRequest(message, version, client_id, host, seed)
        asked = Asked()
        try:
            outcome = self._handle(call)
        except KafkaError as error:
            asked.take(error)
        else:
            self._perform(outcome, asked)
        return asked

    def pass_ms(self, duration_ms: int) -> None:
        """Let the clock run, and wake the coordinator whenever it wanted to be woken."""
        end_ms = self.now_ms + duration_ms
        while self._due and self._due[0][0] <= end_ms:
            at_ms, number, name = heapq.heappop(self._due)
            timer = self._timers.get(name)
            if timer is None or timer[1] != number:
                continue
            del self._timers[name]
            self.now_ms = max(self.now_ms, at_ms)
            self._wake(timer[2])
        self.now_ms = end_ms

    def restart(self) -> None:
        """The coordinator moves: whoever waits is told so, and the log is read elsewhere."""
        waiting = list(self.waiting.values())
        self._begin()
        for asked in waiting:
            asked.take(NotCoordinator())
        for record in self.logged():
            self._replay(record)
        for group in list(self.state.groups.values()):
            if isinstance(group, ClassicGroup):
                self._perform(self.work.loaded(group, self.now_ms), None)

    # What is to be seen

    @property
    def group(self) -> ClassicGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def members(self) -> list[str]:
        return list(self.group.members)

    @property
    def timers(self) -> list[str]:
        return sorted(self._timers)

    def logged(self) -> Iterator[CoordinatorRecord]:
        for batch in self.log:
            for record in decode(GROUP_RECORDS, batch, HEADER.unpack_from(batch)):
                assert isinstance(record, CoordinatorRecord)
                yield record

    def take_records(self) -> list[CoordinatorRecord]:
        """What was written since the last look."""
        records, self.new_records = self.new_records, []
        return records

    def written(self) -> GroupMetadataValue:
        """The one record that was written since the last look."""
        [record] = self.take_records()
        assert record.key == GroupMetadataKey(group=GROUP)
        assert isinstance(record.value, GroupMetadataValue)
        return record.value

    def described(self, group_id: str = GROUP, version: int = 6) -> DescribedGroup:
        request = DescribeGroupsRequest(groups=[group_id])
        [described] = self.ask(request, version).answer.groups
        assert isinstance(described, DescribedGroup)
        return described

    # The runtime in small

    def _wake(self, event: Any) -> None:
        self.wakes += 1
        assert self.wakes < WAKES_MAX, "a timer that sets itself again and again"
        outcome = self.work.handle_timer(event, self.now_ms)
        assert outcome is not None, f"nobody knows {event}"
        self._perform(outcome, None)

    def _perform(self, outcome: Outcome, asked: Asked | None) -> None:
        if outcome.records and self.refusal is not None:
            self._refuse(outcome, asked, self.refusal)
            return
        if outcome.records:
            self.log.append(encode(outcome.records, self.now_ms))
            for record in outcome.records:
                self._replay(record)
            self.new_records += outcome.records
        for timer in outcome.timers:
            self._timers.pop(timer.name, None)
            if isinstance(timer, SetTimer):
                at_ms, number = self.now_ms + int(timer.after_ms), next(self._order)
                self._timers[timer.name] = (at_ms, number, timer.event)
                heapq.heappush(self._due, (at_ms, number, timer.name))
        if outcome.parked is not None:
            assert outcome.parked not in self.waiting, "a ticket is given out once"
            assert asked is not None
            self.waiting[outcome.parked] = asked
        elif asked is not None:
            asked.take(outcome.reply)
        for answer in outcome.answers:
            if answer.ticket in self.waiting:  # but whoever was refused has its answer
                self.waiting.pop(answer.ticket).take(answer.reply)

    def _refuse(self, outcome: Outcome, asked: Asked | None, error: KafkaError) -> None:
        """The machine takes back what it counts on already."""
        if asked is not None:
            asked.take(error)
        for answer in outcome.answers:
            if answer.ticket in self.waiting:
                self.waiting.pop(answer.ticket).take(error)
        if outcome.if_rejected is None:
            return
        undone = self.work.handle_timer(outcome.if_rejected, self.now_ms)
        assert undone is not None and not undone.records
        self._perform(undone, None)

    def _replay(self, record: Any) -> None:
        if isinstance(record.key, GroupMetadataKey):
            self.work.replay(record)


class Member:
    """A client in one group. It remembers what it was told, as clients do."""

    def __init__(
        self,
        story: Story,
        name: str,
        *,
        instance_id: str | None = None,
        protocols: Sequence[str] = ("range",),
        topics: Sequence[str] = ("t",),
        version: int = NEWEST["join"],
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
    ) -> None:
        self.story = story
        self.name = name
        self.instance_id = instance_id
        self.protocols = protocols
        self.topics = topics
        self.version = version
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.protocol_type = protocol_type
        self.member_id = ""
        self.joined = Asked()
        self.synced = Asked()

    @property
    def generation(self) -> int:
        return int(self.joined.answer.generation_id)

    @property
    def leads(self) -> bool:
        answer = self.joined.answer
        return bool(answer.leader == answer.member_id)

    def ask_to_join(self, version: int | None = None, group_id: str = GROUP) -> Asked:
        """One JoinGroup, and nothing else."""
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription(*self.topics))
                for name in self.protocols
            ],
        )
        used = self.version if version is None else version
        asked = self.story.ask(request, used, self.name, f"/{self.name}")
        if asked.waits or not isinstance(asked.answer, KafkaError):
            self.joined = asked
        return asked

    def join(self) -> Asked:
        """As a client does it: with the id that it is given, if it is given one."""
        asked = self.ask_to_join()
        if not asked.waits and asked.error == "MEMBER_ID_REQUIRED":
            self.member_id = asked.answer.member_id
            asked = self.ask_to_join()
        return asked

    def learn_id(self) -> None:
        self.member_id = self.joined.answer.member_id

    def sync(
        self,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = NEWEST["sync"],
        generation: int | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Asked:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        self.synced = self.story.ask(request, version, self.name)
        return self.synced

    def heartbeat(self, generation: int | None = None) -> str:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return self.story.ask(request, NEWEST["heartbeat"], self.name).error

    def leave(self, version: int = NEWEST["leave"]) -> str:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        request = LeaveGroupRequest(group_id=GROUP, member_id=self.member_id, members=[identity])
        answer = self.story.ask(request, version, self.name).answer
        assert answer.error_code == NONE or version < 3
        return name_of(answer.members[0].error_code if version >= 3 else answer.error_code)

    def commits(self, generation: int | None = None) -> str:
        """What a commit of offsets would be told."""
        try:
            generation = self.generation if generation is None else generation
            message = OffsetCommitRequest(
                member_id=self.member_id, group_instance_id=self.instance_id
            )
            self.story.group.check_commit(GroupRequest(message, 9), generation)
        except KafkaError as error:
            return error.kafka_name()
        return "NONE"


def assigned_by(name: str) -> bytes:
    """What leaders of these stories assign to a member of this name."""
    return f"partitions of {name}".encode()


def finish_rebalance(*members: Member) -> None:
    """All have been answered: learn ids, let the leader assign, everybody syncs."""
    for member in members:
        assert member.joined.error == "NONE", member.joined.error
        member.learn_id()
    [leader] = [member for member in members if member.leads]
    assignments = {member.member_id: assigned_by(member.name) for member in members}
    for member in members:
        member.sync(assignments if member is leader else None)
    for member in members:
        assert member.synced.answer.assignment == assigned_by(member.name)


def stable(story: Story, *members: Member) -> None:
    """An empty group becomes one with these members, at rest; the first of them leads."""
    for member in members:
        member.join()
    while any(member.joined.waits for member in members):
        story.pass_ms(DELAY_MS)
    finish_rebalance(*members)
    story.take_records()
    assert story.group.state_name == "Stable"
    assert members[0].leads
