"""Random members of one classic group, and the judge of what they are told.

Members behave as clients do, only worse: they die, come back, ask twice, are heard late, miss
answers; and the disk of the log is full now and then. The judge knows nothing of the coordinator's
rules: it looks at answers and at the log.
"""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from classic_story import BEGINNING_MS, GROUP, Asked, Story, subscription

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic import ClassicGroup
from penstock.coordinator.groups.classic.group_record import record_of
from penstock.errors import NONE, KafkaError, KafkaStorageError
from penstock.wire.messages.k08_offset_commit import OffsetCommitRequest
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest
from penstock.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.wire.messages.k42_delete_groups import DeleteGroupsRequest
from penstock.wire.records.group import GroupMetadataValue

STEPS = 300
PARTITIONS = 7
INSTANCES = ("box-1", "box-2")
PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"))
PASSING_MS = (0, 10, 100, 500, 1_000, 3_000, 7_000)
LONG_MS = 70_000
AFTER_ALL_MS = 3_600_000


@dataclass(slots=True)
class Client:
    name: str
    instance_id: str | None
    version: int
    session_ms: int
    rebalance_ms: int
    protocols: tuple[str, ...]
    topics: tuple[str, ...] = ("t",)
    member_id: str = ""
    generation: int = -1
    doing: str = "out"  # out, joined, in, dead
    leads: list[str] = field(default_factory=list)  # whom it has to assign to
    asked: Asked | None = None
    on_answer: Callable[[Any], None] | None = None

    @property
    def identity(self) -> str:
        return self.instance_id or self.member_id


class Judge:
    """What was promised to whom."""

    def __init__(self) -> None:
        self.owners: dict[int, dict[str, str]] = {}  # generation -> partition -> who
        self.leaders: dict[tuple[int, int], str] = {}  # life of the coordinator, generation -> who
        self.written = -1

    @property
    def newest(self) -> int:
        """The newest generation of which anybody knows its assignment."""
        return max(self.owners, default=-1)

    def assigned(self, generation: int, identity: str, assignment: bytes) -> None:
        owners = self.owners.setdefault(generation, {})
        for partition in assignment.decode().split():
            owner = owners.setdefault(partition, identity)
            assert owner == identity, f"{owner} and {identity} own {partition} in {generation}"

    def led(self, life: int, generation: int, identity: str) -> None:
        leader = self.leaders.setdefault((life, generation), identity)
        assert leader == identity, f"{leader} and {identity} lead generation {generation}"

    def wrote(self, value: GroupMetadataValue) -> None:
        assert value.generation >= self.written, "a generation never goes back"
        self.written = value.generation


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.trouble = self.chance.choice((0.1, 0.5, 1.0))  # how much of all that goes wrong
        self.story = Story(
            initial_rebalance_delay_ms=self.chance.choice((0, 3_000)),
            size_max=self.chance.choice((3, 2**31 - 1)),
        )
        self.judge = Judge()
        self.life = 0
        self.was_full = False  # the disk
        self.late: list[tuple[int, Callable[[], None]]] = []
        self.watched: list[tuple[Asked, Callable[[Any], None]]] = []
        self.zombies: list[tuple[str, str | None, int]] = []
        self.trace = hashlib.sha256()
        self.names = 0
        self.clients = [self._client() for _ in range(self.chance.randint(2, 6))]

    # A life

    def run(self) -> None:
        for number in range(STEPS):
            self._deliver_late(number)
            self._happen(number)
            if self.story.refusal is not None:
                self.life += 1  # what no record holds may be forgotten, as with a restart
            self._judge()
        self._end()

    def _happen(self, number: int) -> None:
        if self._strikes(0.02):
            self.life += 1
            self.story.restart()
        elif self._strikes(0.01):
            self.story.pass_ms(LONG_MS)
        elif self._strikes(0.01):
            self._delete()
        elif self._strikes(0.01 if self.story.refusal is None else 0.2):
            full = self.story.refusal is None
            self.story.refusal = KafkaStorageError() if full else None
            self.was_full = True
        elif self.chance.random() < 0.15:
            self.story.pass_ms(self.chance.choice(PASSING_MS))
        else:
            self._act(self.chance.choice(self.clients), number)

    def _strikes(self, probability: float) -> bool:
        return self.chance.random() < probability * self.trouble

    def _delete(self) -> None:
        answer = self.story.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2).answer
        if not isinstance(answer, KafkaError) and answer.results[0].error_code == NONE:
            self.judge = Judge()  # another group of the same name
            self.zombies.clear()
            self.life += 1
            for client in self.clients:
                client.generation = -1

    def _end(self) -> None:
        """Everybody dies. What waits must be answered, what ticks must end."""
        self.story.refusal = None
        self.story.pass_ms(AFTER_ALL_MS)
        self._judge()
        assert self.story.waiting == {}
        assert self.story.timers == []
        group = self.story.state.groups.get(GROUP)
        assert group is None or group.is_empty
        self.trace.update(b"".join(self.story.log))

    # Clients

    def _client(self) -> Client:
        self.names += 1
        instance_id = self.chance.choice((None, None, *INSTANCES))
        return Client(
            f"client-{self.names}",
            instance_id,
            self.chance.randint(0 if instance_id is None else 5, 9),
            self.chance.choice((6_000, 10_000, 45_000)),
            self.chance.choice((10_000, 60_000)),
            self.chance.choice(PROTOCOLS),
        )

    def _act(self, client: Client, number: int) -> None:
        if self._strikes(0.02):
            self._die(client)
        elif client.asked is not None:
            self._listen(client)
        elif client.doing == "dead":
            if self.chance.random() < 0.3:
                self.clients[self.clients.index(client)] = self._client()
        elif client.doing == "out":
            self._join(client, number)
        elif client.doing == "joined":
            self._sync(client, number)
        else:
            self._live(client, number)

    def _die(self, client: Client) -> None:
        self.zombies.append((client.member_id, client.instance_id, client.generation))
        client.doing, client.asked = "dead", None

    def _listen(self, client: Client) -> None:
        assert client.asked is not None
        if client.asked.waits:
            if self._strikes(0.05):  # it gives up, and will ask again
                client.asked, client.doing = None, "out"
            return
        answer, client.asked = client.asked.answer, None
        if self._strikes(0.05):
            client.doing = "out"  # the answer was lost
        elif client.on_answer is not None:
            client.on_answer(answer)

    def _live(self, client: Client, number: int) -> None:
        fate = self.chance.random()
        if fate < 0.04:
            self._join(client, number)
        elif fate < 0.06:
            client.topics = self.chance.choice((("t",), ("t", "u")))
            self._join(client, number)
        elif fate < 0.09:
            self._leave(client, number)
        else:
            self._heartbeat(client, number)

    def _send(
        self,
        client: Client,
        number: int,
        request: Any,
        version: int,
        on_answer: Callable[[Any], None],
        watch: Callable[[Any], None] | None = None,
    ) -> None:
        """Now or later, once or twice."""
        copies = [Asked() for _ in range(2 if self._strikes(0.1) else 1)]
        client.asked = self.chance.choice(copies)
        client.on_answer = on_answer
        for copy in copies:
            if self._strikes(0.15):
                due = number + self.chance.randint(1, 60)
                self.late.append((due, partial(self._ask, copy, request, version, watch)))
            else:
                self._ask(copy, request, version, watch)

    def _ask(
        self, asked: Asked, request: Any, version: int, watch: Callable[[Any], None] | None
    ) -> None:
        real = self.story.ask(request, version, "client")
        self.watched.append((real, asked.take))
        if watch is not None:
            self.watched.append((real, watch))

    def _deliver_late(self, number: int) -> None:
        due = [deliver for at, deliver in self.late if at <= number]
        self.late = [(at, deliver) for at, deliver in self.late if at > number]
        self.chance.shuffle(due)
        for deliver in due:
            deliver()

    # What clients say, and what they make of the answers

    def _refused(self, client: Client, code: str) -> None:
        self.zombies.append((client.member_id, client.instance_id, client.generation))
        if code in {"FENCED_INSTANCE_ID", "GROUP_MAX_SIZE_REACHED", "INCONSISTENT_GROUP_PROTOCOL"}:
            client.doing = "dead"
            return
        if code == "UNKNOWN_MEMBER_ID":
            client.member_id = ""
        client.doing, client.generation = "out", -1

    def _join(self, client: Client, number: int) -> None:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=client.session_ms,
            rebalance_timeout_ms=client.rebalance_ms,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription(*client.topics))
                for name in client.protocols
            ],
        )
        life = self.life

        def answered(answer: Any) -> None:
            error = _error(answer)
            if error == "MEMBER_ID_REQUIRED":
                client.member_id = answer.member_id
            elif error == "NONE":
                client.member_id, client.generation = answer.member_id, answer.generation_id
                client.doing = "joined"
                leads = answer.leader == answer.member_id and not answer.skip_assignment
                client.leads = [each.member_id for each in answer.members] if leads else []
            else:
                self._refused(client, error)

        def watch(answer: Any) -> None:
            if _error(answer) == "NONE" and answer.members and life == self.life:
                identity = client.instance_id or answer.member_id
                self.judge.led(life, answer.generation_id, identity)

        self._send(client, number, request, client.version, answered, watch)

    def _sync(self, client: Client, number: int) -> None:
        assignments = {each: list[str]() for each in client.leads}
        for partition in range(PARTITIONS if client.leads else 0):
            assignments[self.chance.choice(client.leads)].append(str(partition))
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=" ".join(owned).encode())
                for each, owned in assignments.items()
            ],
        )
        identity, judge = client.identity, self.judge

        def answered(answer: Any) -> None:
            error = _error(answer)
            if error == "NONE":
                client.doing = "in"
            else:
                self._refused(client, error)

        def watch(answer: Any) -> None:
            if _error(answer) == "NONE" and judge is self.judge:
                judge.assigned(request.generation_id, identity, answer.assignment)

        self._send(client, number, request, 5, answered, watch)

    def _heartbeat(self, client: Client, number: int) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )

        def answered(answer: Any) -> None:
            if _error(answer) != "NONE":
                self._refused(client, _error(answer))

        self._send(client, number, request, 4, answered)

    def _leave(self, client: Client, number: int) -> None:
        identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)

        def answered(_: Any) -> None:
            self._die(client)

        self._send(
            client, number, LeaveGroupRequest(group_id=GROUP, members=[identity]), 5, answered
        )

    # The judge

    def _judge(self) -> None:
        for real, hear in [each for each in self.watched if not each[0].waits]:
            self.trace.update(repr(real.answer).encode())
            hear(real.answer)
        self.watched = [each for each in self.watched if each[0].waits]
        for record in self.story.take_records():
            if isinstance(record.value, GroupMetadataValue):
                self.judge.wrote(record.value)
        group = self.story.state.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            self._judge_group(group)
            self._judge_commits(group)
        else:
            assert not self.story.waiting
        self.trace.update(str(self.story.now_ms - BEGINNING_MS).encode())

    def _judge_group(self, group: ClassicGroup) -> None:
        assert group.generation >= self.judge.written
        assert (group.leader_id in group.members) if group.members else group.leader_id is None
        instances = {
            each.instance_id: each.member_id for each in group.members.values() if each.instance_id
        }
        assert group.static_ids == instances
        static = [each for each in group.members.values() if each.instance_id]
        assert len(static) == len(instances), "two members have one instance id"
        waiting = [each.ticket for each in (*group.joining.values(), *group.syncing.values())]
        assert sorted(map(str, waiting)) == sorted(map(str, self.story.waiting))
        assert {*group.joining, *group.syncing, *group.unsynced} <= set(group.members)
        assert not set(group.pending) & set(group.members)
        # A timer whose end was refused goes off, and means nothing then.
        assert self.was_full or set(self.story.timers) <= set(group.timers)
        assert bool(group.members) or group.state_name in {"Empty", "PreparingRebalance"}
        if group.state_name == "Stable":
            self._judge_log(group)

    def _judge_log(self, group: ClassicGroup) -> None:
        """A group at rest is what its last record says."""
        stored = list(self.story.logged())[-1].value
        now = record_of(GROUP, group.current).value
        assert isinstance(stored, GroupMetadataValue) and isinstance(now, GroupMetadataValue)
        stored.current_state_timestamp = now.current_state_timestamp
        assert stored == now

    def _judge_commits(self, group: ClassicGroup) -> None:
        now = [(each.member_id, each.instance_id, each.generation) for each in self.clients]
        self.zombies = self.zombies[-20:]
        for member_id, instance_id, generation in (*now, *self.zombies):
            if generation < 0:
                continue
            try:
                message = OffsetCommitRequest(member_id=member_id, group_instance_id=instance_id)
                group.check_commit(GroupRequest(message, 9), generation)
            except KafkaError:
                continue
            # A generation without an assignment may be newer; its members own nothing yet.
            assert generation >= self.judge.newest, "a commit of a generation that is over"
            assert generation == group.generation, "a commit of another generation"
            assert member_id in group.members, "a commit of somebody who has gone"


def _error(answer: Any) -> str:
    asked = Asked()
    asked.take(answer)
    return asked.error
