"""A group under random members: they join, leave, die and repeat themselves; topics grow and go.

Clients here take what they are told as real ones do: they give back before they report it, and
begin anew when they are fenced. Answers may be lost or late, and the disk of the log full. After
every step no partition has two owners, where an owner is whoever was told of it and has not given
it back; epochs never fall. When everybody is left in peace, the group comes to rest with every
partition owned once.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from consumer_story import GROUP, Cluster, Story

from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.errors import NONE, KafkaError, KafkaStorageError
from penstock.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPICS = ("a", "b", "bc", "c")
REGEXES = ("a|b", "b.*", "[a-c]", "nothing")
CLIENTS = 5
STEPS = 60
ROUNDS_TO_REST = 40

Partition = tuple[bytes, int]


@dataclass
class Client:
    """One process with a consumer: its member dies with it, a static one may come back."""

    name: str
    instance_id: str | None
    lives: int = 0
    member_id: str = ""
    epoch: int = 0  # 0: not in the group
    running: bool = False
    names: tuple[str, ...] = ()
    regex: str | None = None
    assignor: str | None = None
    owned: set[Partition] = field(default_factory=set)  # may be read from right now
    target: set[Partition] = field(default_factory=set)  # was told to have
    report_due: bool = False
    say_all: bool = False  # after an answer was lost
    impersonated: bool = False  # an old join in its name has said that it gave everything up

    def be_born(self, chance: Random) -> None:
        self.lives += 1
        self.member_id = f"{self.name}-{self.lives}"
        self.running = True
        self.names, self.regex = (), None
        if chance.random() < 0.3:
            self.regex = chance.choice(REGEXES)
        else:
            self.names = tuple(chance.sample(TOPICS, chance.randint(0, 3)))
        self.assignor = chance.choice((None, None, "range", "uniform"))
        self.begin_anew()

    def begin_anew(self) -> None:
        """All partitions are given up before it says anything again."""
        self.epoch = 0
        self.owned.clear()
        self.target.clear()
        self.report_due = self.say_all = self.impersonated = False

    def die(self) -> None:
        """It may have had partitions; nobody reads from them now."""
        self.running = False
        self.begin_anew()


class Model:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        interval_ms = self.chance.choice((0, 0, 1_000))
        self.story = Story(assignment_interval_ms=interval_ms)
        self.clients = [
            Client(f"m{number}", f"i{number}" if self.chance.random() < 0.3 else None)
            for number in range(CLIENTS)
        ]
        self.late: list[tuple[Client, ConsumerGroupHeartbeatRequest]] = []
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0
        self.trace: list[str] = []

    @property
    def cluster(self) -> Cluster:
        return self.story.cluster

    # Random life

    def run(self) -> None:
        self.story.make_topic("a", self.chance.randint(1, 6))
        for _ in range(STEPS):
            self.step()
            self.check()
        self.come_to_rest()

    def step(self) -> None:
        if self.chance.random() < (0.03 if self.story.refusal is None else 0.25):
            self.fill_or_clear_the_disk()
        client = self.chance.choice(self.clients)
        roll = self.chance.random()
        if not client.running:
            client.be_born(self.chance)
            self.heartbeat(client)
        elif roll < 0.55:
            self.work(client)
            self.heartbeat(client, lose=self.chance.random() < 0.15)
        elif roll < 0.60:
            self.subscribe_anew(client)
        elif roll < 0.65:
            self.leave(client, -1)
        elif roll < 0.70 and client.instance_id is not None:
            self.leave(client, -2)
        elif roll < 0.75:
            self.note(f"{client.member_id} dies")
            client.die()
        elif roll < 0.80 and self.late:
            self.deliver_late()
        elif roll < 0.86:
            self.change_topics()
        elif roll < 0.90:
            self.note("restart")
            self.story.restart()
        else:
            self.story.pass_ms(self.chance.choice((500, 3_000, 20_000)))
            self.fence_the_dead()

    def fill_or_clear_the_disk(self) -> None:
        full = self.story.refusal is None
        self.note(f"the disk is {'full' if full else 'no longer full'}")
        self.story.refusal = KafkaStorageError() if full else None

    def note(self, what: str) -> None:
        self.trace.append(what)

    def work(self, client: Client) -> None:
        """What goes on between two heartbeats: partitions are given back and taken up."""
        if client.owned != client.target and self.chance.random() < 0.8:
            client.owned &= client.target
            client.report_due = True

    def heartbeat(self, client: Client, *, lose: bool = False) -> None:
        request = self.request(client)
        if self.chance.random() < 0.1:
            self.late.append((client, request))  # the network delivers it a second time
        self.note(f"{client.member_id} says {request}{' (lost)' if lose else ''}")
        answer = self.story.ask(request, 1, client.name)
        if lose:
            client.say_all = True
            return
        client.report_due = client.say_all = False
        self.hear(client, answer)

    def request(self, client: Client) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=client.epoch,
            instance_id=client.instance_id,
        )
        if client.epoch == 0 or client.say_all:
            request.rebalance_timeout_ms = 30_000
            request.subscribed_topic_names = None if client.regex else list(client.names)
            request.subscribed_topic_regex = client.regex
            request.server_assignor = client.assignor
        if client.epoch == 0 or client.say_all or client.report_due:
            request.topic_partitions = listed(client.owned)
        return request

    def hear(self, client: Client, answer: Any) -> None:
        self.note(f"  answer {answer!r}")
        if isinstance(answer, KafkaStorageError):
            client.say_all = True  # it will say it again
            return
        if isinstance(answer, KafkaError):
            assert answer.kafka_name() in (
                "FENCED_MEMBER_EPOCH",
                "UNKNOWN_MEMBER_ID",
                "UNRELEASED_INSTANCE_ID",
                "FENCED_INSTANCE_ID",
                "GROUP_ID_NOT_FOUND",
            )
            client.begin_anew()
            if answer.kafka_name() == "FENCED_INSTANCE_ID":
                client.running = False
            return
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        assert answer.error_code == NONE
        client.epoch = answer.member_epoch
        client.impersonated = False
        if answer.assignment is not None:
            client.target = {
                (each.topic_id, partition)
                for each in answer.assignment.topic_partitions
                for partition in each.partitions
            }
            # What is new is begun with at once; what was taken away is given back by and by.
            client.owned |= client.target

    def subscribe_anew(self, client: Client) -> None:
        if client.epoch <= 0:
            return
        client.names = tuple(self.chance.sample(TOPICS, self.chance.randint(0, 3)))
        client.regex = self.chance.choice(("", "", *REGEXES))
        request = self.request(client)
        request.subscribed_topic_names = list(client.names)
        request.subscribed_topic_regex = client.regex
        self.note(f"{client.member_id} says {request}")
        self.hear(client, self.story.ask(request, 1, client.name))

    def leave(self, client: Client, epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance_id,
        )
        self.note(f"{client.member_id} leaves with {epoch}")
        client.die()
        self.story.ask(request, 1, client.name)

    def deliver_late(self) -> None:
        """Somebody's old request arrives again; nobody hears the answer."""
        client, request = self.late.pop(self.chance.randrange(len(self.late)))
        self.note(f"late: {request}")
        before = self.members().get(request.member_id)
        self.story.ask(request, 1, client.name)
        if request.member_id != client.member_id:
            return
        # To the coordinator this is a member that begins anew, and who else it is it cannot
        # know. The client itself is fenced as soon as that has made a difference.
        if request.member_epoch == 0:
            client.impersonated = client.epoch != 0
        # An old report names no partition of a later answer: to the coordinator the member has
        # given those back. The member's epoch moves on, so the client's next heartbeat is fenced.
        after = self.members().get(request.member_id)
        reported = request.topic_partitions
        if before and after and after.epoch > before.epoch and reported is not None:
            held = {(each.topic_id, one) for each in reported for one in each.partitions}
            client.impersonated |= not client.owned <= held

    def change_topics(self) -> None:
        name = self.chance.choice(TOPICS)
        known = self.cluster.topic(name)
        self.note(f"topic {name} changes")
        if known is None:
            self.story.make_topic(name, self.chance.randint(1, 4))
        elif self.chance.random() < 0.4:
            self.story.delete_topic(name)
        else:
            self.story.make_topic(name, known.partitions + self.chance.randint(1, 3))

    def fence_the_dead(self) -> None:
        """Who was silent for a session knows by its own clock that it is out."""
        members = self.members()
        for client in self.clients:
            if client.epoch > 0 and client.member_id not in members:
                client.begin_anew()

    # What must hold

    def members(self) -> dict[str, Any]:
        group = self.story.machine.group(GROUP)
        return dict(group.members) if isinstance(group, ConsumerGroup) else {}

    def check(self) -> None:
        group = self.story.machine.group(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        assert group.epoch >= self.group_epoch, "a group's epoch never falls"
        assert group.target_epoch <= group.epoch
        self.group_epoch = group.epoch
        told: dict[Partition, str] = {}
        for member in group.members.values():
            assert member.epoch <= group.epoch
            before = self.epochs.get(member.member_id, 0)
            assert member.epoch >= before or member.epoch == -2, "a member's epoch never falls"
            self.epochs[member.member_id] = member.epoch
            for owned in (member.assigned, member.revoking):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        key = (topic_id, partition)
                        assert told.setdefault(key, member.member_id) == member.member_id, (
                            "two members have the same partition"
                        )
                        assert group.owner(*key) == member.member_id
        self.check_clients(group)

    def check_clients(self, group: ConsumerGroup) -> None:
        """What clients really have, be it told to them or not."""
        readers: dict[Partition, str] = {}
        for client in self.clients:
            if client.member_id not in group.members or client.impersonated:
                continue  # it was fenced, and will hear of that; others may have its partitions
            for partition in client.owned:
                other = readers.setdefault(partition, client.member_id)
                assert other == client.member_id, f"{other} and {client.member_id} read {partition}"

    # Peace

    def come_to_rest(self) -> None:
        """Nobody dies and nothing is lost any more."""
        self.note("peace")
        self.late.clear()
        self.story.refusal = None
        for client in self.clients:
            if not client.running:
                client.be_born(self.chance)
        self.wait_for_rest()
        self.change_topics()  # with nobody who comes or goes and would notice it anyway
        self.wait_for_rest()

    def wait_for_rest(self) -> None:
        for _ in range(ROUNDS_TO_REST):
            self.quiet_round()
            if self.is_at_rest():
                return
        raise AssertionError(f"the group is still {self.story.group_state}")

    def quiet_round(self) -> None:
        for client in self.clients:
            client.owned &= client.target
            client.report_due = True
            client.say_all = False
            self.heartbeat(client)
            self.late.clear()
            self.check()
        self.story.pass_ms(2_000)
        self.fence_the_dead()

    def is_at_rest(self) -> bool:
        group = self.story.machine.group(GROUP)
        if not isinstance(group, ConsumerGroup) or group.state_name != "Stable":
            return False
        if group.unresolved_regexes():
            return False
        if not all(client.running and client.epoch > 0 for client in self.clients):
            return False
        if not all(client.owned == client.target for client in self.clients):
            return False
        self.check_everything_is_owned(group)
        return True

    def check_everything_is_owned(self, group: ConsumerGroup) -> None:
        wanted: set[Partition] = set()
        for member in group.members.values():
            for name in self.cluster.topic_names():
                resolved = group.regexes.get(member.regex)
                if name in member.topics or (resolved is not None and name in resolved.topics):
                    topic = self.cluster.topics[name]
                    wanted |= {(topic.topic_id, each) for each in range(topic.partitions)}
        ids = {client.member_id for client in self.clients}
        strangers = group.members.keys() - ids
        assert not strangers, f"{strangers} are dead, and should be out by now"
        owned = [each for client in self.clients for each in sorted(client.owned)]
        assert len(owned) == len(set(owned))
        assert set(owned) == wanted


def listed(owned: set[Partition]) -> list[TopicPartitions]:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(owned):
        by_topic.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=k, partitions=v) for k, v in by_topic.items()]
