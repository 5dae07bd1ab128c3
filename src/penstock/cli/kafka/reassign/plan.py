"""Plans of kafka-reassign-partitions: read, write, propose, and print their progress."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.cli.connection.results import value_of
from penstock.cli.kafka.framework.partition_json import read_partitions
from penstock.cli.kafka.framework.runner import CommandRejected
from penstock.client.admin.blocking import Admin
from penstock.client.admin.cluster_values import LogDir, Reassignment, Replica
from penstock.errors import KafkaError
from penstock.model import TopicPartition

ANY_DIRECTORY = "any"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ReassignmentPlan:
    """Target replicas and directories; `partitions` keeps duplicates of the file."""

    partitions: list[TopicPartition]
    replicas: dict[TopicPartition, tuple[int, ...]]
    directories: dict[Replica, str]


def parse_plan(path: str) -> ReassignmentPlan:
    plan = ReassignmentPlan([], {}, {})
    for partition, said in read_partitions(path):
        replicas = said.get("replicas")
        if not isinstance(replicas, list) or any(not isinstance(each, int) for each in replicas):
            raise CommandRejected(f"{path}: {partition} has no list of replicas")
        directories = said.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
        if len(directories) != len(replicas):
            raise CommandRejected(
                f"Size of replicas list {replicas} is different from size of log dirs list "
                f"{directories} for partition {partition}"
            )
        plan.partitions.append(partition)
        plan.replicas[partition] = tuple(replicas)
        for broker, directory in zip(replicas, directories, strict=True):
            if directory != ANY_DIRECTORY:
                plan.directories[Replica(*partition, broker)] = str(directory)
    return plan


def as_json(
    assignment: Mapping[TopicPartition, Sequence[int]],
    directories: Mapping[Replica, str] | None = None,
) -> str:
    """Return a plan as JSON; replicas without a directory get `any`."""
    known = directories or {}
    partitions = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(assignment[each]),
            "log_dirs": [
                known.get(Replica(*each, broker), ANY_DIRECTORY) for broker in assignment[each]
            ],
        }
        for each in sorted(assignment)
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def directories_of(
    admin: Admin, assignment: Mapping[TopicPartition, Sequence[int]]
) -> dict[Replica, str]:
    """Return the directory of each replica that its broker reports."""
    brokers = sorted({broker for replicas in assignment.values() for broker in replicas})
    found: dict[Replica, str] = {}
    for broker, directories in admin.log_dirs.describe(brokers, list(assignment)).items():
        for each in assignment:
            replica = Replica(*each, broker)
            here = None if isinstance(directories, KafkaError) else where(directories, replica)[0]
            if here is not None:
                found[replica] = here
    return found


def proposed(
    current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return an even spread of the same number of replicas: leaders in turn, replicas on
    different racks as far as possible."""
    if not racks:
        raise CommandRejected("Error: none of the brokers in --broker-list is there")
    order = _alternate_racks(racks)
    plan: dict[TopicPartition, tuple[int, ...]] = {}
    for at, partition in enumerate(sorted(current)):
        count = len(current[partition])
        if count > len(order):
            raise CommandRejected(
                f"{partition} has {count} replicas, and there are {len(order)} brokers for them"
            )
        # Followers shift once per round, so that no two brokers share all their partitions.
        shift = at // len(order) % max(1, len(order) - 1)
        first = at % len(order)
        others = [*order[first + 1 :], *order[:first]]
        others = others[shift:] + others[:shift]
        chosen = [order[first]]
        while len(chosen) < count:
            used = {racks[each] for each in chosen}
            left = [each for each in others if each not in chosen]
            fresh = [each for each in left if racks[each] is None or racks[each] not in used]
            chosen.append((fresh or left)[0])
        plan[partition] = tuple(chosen)
    return plan


def _alternate_racks(racks: Mapping[int, str | None]) -> list[int]:
    """Return brokers ordered so that neighbours are on different racks, if possible."""
    waiting: dict[str, list[int]] = {}
    for broker in sorted(racks):
        waiting.setdefault(racks[broker] or "", []).append(broker)
    order: list[int] = []
    while any(waiting.values()):
        for rack in sorted(waiting):
            if waiting[rack]:
                order.append(waiting[rack].pop(0))
    return order


def print_states(
    plan: ReassignmentPlan,
    current: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, Reassignment],
) -> None:
    print("Status of partition reassignment:")
    for each in sorted(plan.replicas):
        target = plan.replicas[each]
        found = tuple(current.get(each, ()))
        if each in ongoing:
            print(f"Reassignment of partition {each} is still in progress.")
        elif found == target:
            print(f"Reassignment of partition {each} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {each}, but replica set is "
                f"{','.join(map(str, found))} rather than {','.join(map(str, target))}."
            )


def print_move_states(admin: Admin, directories: Mapping[Replica, str]) -> bool:
    """Print the progress of moves between directories; return whether one is unfinished."""
    if not directories:
        print()
        return False
    found = admin.log_dirs.describe(
        sorted({each.broker for each in directories}),
        [TopicPartition(each.topic, each.partition) for each in directories],
    )
    moving = False
    for replica in sorted(directories):
        target = directories[replica]
        told_of = value_of(found.get(replica.broker, {}))
        here, coming = where(told_of, replica)
        at = f"Partition {replica.topic}-{replica.partition} on broker {replica.broker}"
        moving = moving or coming is not None or here is None
        if coming == target:
            print(f"Reassignment of replica {replica} is still in progress.")
        elif coming is not None:
            print(f"{at} is being moved to log dir {coming} instead of {target}.")
        elif here == target:
            print(f"Reassignment of replica {replica} completed successfully.")
        elif here is None:
            print(
                f"Partition {replica.topic}-{replica.partition} cannot be found in any live log "
                f"directory on broker {replica.broker}."
            )
        else:
            print(f"{at} is not being moved from log dir {here} to {target}.")
    return moving


def where(
    found: Mapping[str, LogDir | KafkaError], replica: Replica
) -> tuple[str | None, str | None]:
    """Return the current directory of a replica, and the one of its future replica."""
    here = coming = None
    for path, directory in found.items():
        if isinstance(directory, KafkaError):
            continue
        log = directory.replicas.get(TopicPartition(replica.topic, replica.partition))
        if log is not None and log.future:
            coming = path
        elif log is not None:
            here = path
    return here, coming
