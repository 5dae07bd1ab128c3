"""The controller's decisions as transcripts: a request goes in, records and an answer come out."""

from pathlib import Path
from typing import Any

import pytest
from controller_bench import ORDERS, Bench, alter_response, manual, registration
from replica_requests import alter_in_sync_set, assign_directory

from penstock.controller.elections import LeaderElection
from penstock.controller.image import LOST_DIRECTORY
from penstock.controller.periodic_elections import ElectionRound, LeaderCheck
from penstock.controller.records import decode_record
from penstock.effects import SetTimer
from penstock.errors import BY_CODE
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k37_create_partitions as k37
from penstock.wire.messages import k43_elect_leaders as k43
from penstock.wire.messages import k45_alter_partition_reassignments as k45
from penstock.wire.records.metadata import PartitionChangeRecord
from transcripts import Command, check

SCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
SET = 0


def error_name(code: int) -> str:
    return BY_CODE[code].__name__ if code else "ok"


def shown(value: Any) -> str:
    """Return a field as a reader wants it: no long ids, no spaces."""
    match value:
        case bytes():
            return value.hex().lstrip("0")[:6] or "0"
        case list() | tuple():
            return f"[{','.join(shown(each) for each in value)}]"
    return str(getattr(value, "name", value))


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def fields_of(record: object) -> str:
    """Return the fields of a record that are not empty; of a change, all that it names."""
    named = ((each, getattr(record, each)) for each in record.__annotations__)
    changes = isinstance(record, PartitionChangeRecord)
    return " ".join(
        f"{name}={shown(value)}"
        for name, value in named
        if value or value == 0 or (changes and value is not None)
    )


class Play:
    """One controller, the requests of a script, and what came of each."""

    def __init__(self) -> None:
        self.bench = Bench(broker_ids=())
        self._epochs: dict[int, int] = {}
        self._starts = 1

    def __call__(self, command: Command) -> list[str]:
        written = len(self.bench.log)
        answer = getattr(self, command.verb)(command)
        batches = [[decode_record(value) for value in batch] for batch in self.bench.log[written:]]
        records = [record for batch in batches for record in batch]
        lines = [f"{type(each).__name__} {fields_of(each)}".rstrip() for each in records]
        return [*lines, f"-> {answer}"]

    def register(self, command: Command) -> str:
        broker_id = int(command.objects[0])
        reply = self.bench.ask(registration(broker_id), 4)
        self._epochs[broker_id] = reply.broker_epoch
        return f"{error_name(reply.error_code)} epoch={reply.broker_epoch}"

    def beat(self, command: Command) -> str:
        broker_id = int(command.objects[0])
        wish = dict.fromkeys(command.objects[1:], True)
        reply = self.bench.beat(broker_id, self._epochs[broker_id], **wish)
        stop = " stop" if reply.should_shut_down else ""
        return f"{error_name(reply.error_code)} fenced={reply.is_fenced}{stop}"

    def restart(self, command: Command) -> str:
        """Register a new incarnation, after a clean stop or without one."""
        broker_id = int(command.objects[0])
        self._starts += 1
        incarnation_id = bytes([self._starts, broker_id]) * 8
        previous = self._epochs[broker_id] if "cleanly" in command.objects else -1
        request = registration(
            broker_id, incarnation_id=incarnation_id, previous_broker_epoch=previous
        )
        reply = self.bench.ask(request, 4)
        self._epochs[broker_id] = reply.broker_epoch
        return f"{error_name(reply.error_code)} epoch={reply.broker_epoch}"

    def expire(self, command: Command) -> str:
        return f"fenced={self.bench.expire(int(command.objects[0]))}"

    def create(self, command: Command) -> str:
        result = self.bench.create(
            command.objects[0], command.number("partitions", 1), command.number("factor", 1)
        )
        return error_name(result.error_code)

    def place(self, command: Command) -> str:
        """Create `orders` with the replicas of its only partition."""
        result = manual(self.bench, {0: numbers(command.objects[0])})
        return error_name(result.error_code)

    def sync(self, command: Command) -> str:
        """Have the leader of `orders`, or another broker, ask for an in-sync set."""
        asker = command.options.get("by")
        answer = alter_in_sync_set(
            self.bench,
            numbers(command.objects[0]),
            leader=None if asker is None else int(asker),
            leader_recovery_state=command.number("recovery", 0),
        )
        if answer.error_code:
            return error_name(answer.error_code)
        epochs = f"{answer.leader_epoch}/{answer.partition_epoch}"
        return f"ok leader={answer.leader_id} epochs={epochs} isr={shown(answer.isr)}"

    def assign(self, command: Command) -> str:
        """Report the replica of `orders` as lost, or as in the directory of its broker."""
        broker_id = int(command.objects[0])
        directory = self.bench.image.brokers[broker_id].directories[0]
        wanted = LOST_DIRECTORY if "lost" in command.objects else directory
        [code] = assign_directory(self.bench, broker_id, wanted)
        return error_name(code)

    def elect(self, command: Command) -> str:
        kinds = {"preferred": 0, "unclean": 1}
        named = k43.TopicPartitions(topic="orders", partitions=[0])
        request = k43.ElectLeadersRequest(
            election_type=kinds[command.objects[0]], topic_partitions=[named]
        )
        [topic] = self.bench.ask(request, 2).replica_election_results
        return error_name(topic.partition_result[0].error_code)

    def check(self, command: Command) -> str:
        """Let the controller look for leaders by itself, with the rounds that follow."""
        kind = LeaderElection(command.objects[0])
        outcome = self.bench.controller.handle(LeaderCheck(kind), 0)
        events = [each.event for each in outcome.timers if isinstance(each, SetTimer)]
        rounds = [each for each in events if isinstance(each, ElectionRound)]
        for each in rounds:
            self.bench.apply(self.bench.controller.handle(each, 0))
        return f"rounds={len(rounds)}"

    def grow(self, command: Command) -> str:
        wanted = k37.CreatePartitionsTopic(
            name=command.objects[0], count=command.number("partitions", 1), assignments=None
        )
        (result,) = self.bench.ask(k37.CreatePartitionsRequest(topics=[wanted]), 3).results
        return error_name(result.error_code)

    def delete(self, command: Command) -> str:
        topics = [k20.DeleteTopicState(name=command.objects[0])]
        (result,) = self.bench.ask(k20.DeleteTopicsRequest(topics=topics), 6).responses
        return error_name(result.error_code)

    def config(self, command: Command) -> str:
        changes = [(name, SET, value) for name, value in command.options.items()]
        return error_name(alter_response(self.bench, ORDERS, changes).error_code)

    def reassign(self, command: Command) -> str:
        brokers = numbers(command.options["to"])
        wanted = k45.ReassignablePartition(partition_index=0, replicas=brokers)
        topics = [k45.ReassignableTopic(name=command.objects[0], partitions=[wanted])]
        request = k45.AlterPartitionReassignmentsRequest(topics=topics)
        (topic,) = self.bench.ask(request, 1).responses
        return error_name(topic.partitions[0].error_code)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_controller_decides_as_the_transcript_says(script: Path) -> None:
    check(script, Play())
