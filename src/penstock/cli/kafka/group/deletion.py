"""kafka-consumer-groups --delete and --delete-offsets."""

from collections.abc import Sequence

from penstock.cli.kafka.framework.options import GivenOptions
from penstock.cli.kafka.group.reset import partition_numbers
from penstock.cli.kafka.group.tables import WIDTH_MIN, print_error
from penstock.client.admin.blocking import Admin
from penstock.errors import (
    GroupAuthorizationFailed,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidGroupId,
    KafkaError,
    NonEmptyGroup,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from penstock.model import TopicPartition


def delete_groups(admin: Admin, names: Sequence[str]) -> None:
    results = admin.groups.delete(names)
    failed = {name: error for name, error in results.items() if error is not None}
    done = ", ".join(f"'{name}'" for name in results if name not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for name, error in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {error.message}")
    if done:
        print(f"\nThese consumer groups were deleted successfully: {done}")


def delete_offsets(admin: Admin, given: GivenOptions) -> None:
    group, topics = given.required("group"), given.texts("topic")
    results: dict[TopicPartition, KafkaError | None] = {}
    partitions: list[TopicPartition] = []
    for topic in topics:
        found = _partitions(admin, topic)
        if isinstance(found, KafkaError):
            results[TopicPartition(topic, -1)] = found
        else:
            partitions += found
    whole: KafkaError | None = None
    try:
        results |= admin.groups.delete_offsets(group, partitions)
    except KafkaError as rejected:
        whole = rejected
        results |= dict.fromkeys(partitions, rejected)
    _print_deleted(group, whole or next(filter(None, results.values()), None))
    width = max(WIDTH_MIN, *(len(each.topic) for each in results))
    print(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}", end="")
    for each, error in sorted(results.items()):
        number = str(each.partition) if each.partition >= 0 else "-"
        status = "Successful" if error is None else f"Error: {error.message}"
        print(f"\n{each.topic:<{width}} {number:<10} {status:<15}", end="")
    print()


def _partitions(admin: Admin, said: str) -> list[TopicPartition] | KafkaError:
    """Return the partitions of `orders` or `orders:0,2`."""
    name, colon, numbers = said.partition(":")
    if colon:
        return [TopicPartition(name, number) for number in partition_numbers(said, numbers)]
    topic = admin.describe_topics([name])[name]
    if isinstance(topic, KafkaError):
        return topic
    return [TopicPartition(name, each.partition) for each in topic.partitions]


def _print_deleted(group: str, error: KafkaError | None) -> None:
    match error:
        case None:
            print(f"Request succeeded for deleting offsets from group {group}.")
        case InvalidGroupId():
            print_error(f"'{group}' is not valid.")
        case GroupIdNotFound():
            print_error(f"'{group}' does not exist.")
        case GroupAuthorizationFailed():
            print_error(f"Access to '{group}' is not authorized.")
        case NonEmptyGroup():
            print_error(
                f"Deleting offsets of a consumer group '{group}' is forbidden if the group is "
                "not empty."
            )
        case GroupSubscribedToTopic() | TopicAuthorizationFailed() | UnknownTopicOrPartition():
            print_error("Encountered some partition-level error, see the follow-up details.")
        case _:
            print_error(f"Encountered some unknown error: {error.kafka_name()}")
