"""kafka-log-dirs: prints the log directories of brokers as one line of JSON."""

import json
from collections.abc import Collection, Mapping, Sequence

from penstock.cli.connection.results import value_of
from penstock.cli.kafka.framework.client_options import BOOTSTRAP_SERVER, COMMAND_CONFIG, admin_of
from penstock.cli.kafka.framework.options import GivenOptions, Option
from penstock.cli.kafka.framework.runner import CommandRejected, command, print_message, require
from penstock.cli.terminal.output import Json
from penstock.client.admin.cluster_values import LogDir
from penstock.errors import KafkaError

VERSION = 1
OPTIONS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Option("describe", "REQUIRED: what this command does."),
    Option("topic-list", "Only these topics, with commas between.", "String: Topic list", ""),
    Option("broker-list", "Only these brokers, with commas between.", "String: Broker list", ""),
)


@command(
    "kafka-log-dirs",
    "What is in the data directories of brokers.",
    OPTIONS,
    failed=print_message,
    usage_on_error=False,
)
def main(given: GivenOptions) -> None:
    require(given, "bootstrap-server", "describe")
    topics = {each for each in given.required("topic-list").split(",") if each}
    with admin_of(given) as admin:
        present = [broker.node_id for broker in admin.describe_cluster().brokers]
        wanted = _brokers(given) or present
        missing = [each for each in wanted if each not in present]
        if missing:
            raise CommandRejected(
                "ERROR: The given brokers do not exist from --broker-list: "
                f"{_joined(missing)}. Current existent brokers: {_joined(present)}"
            )
        print("Querying brokers for log directories information")
        found = admin.log_dirs.describe(wanted)
    print(f"Received log directory information from brokers {_joined(wanted)}")
    brokers: list[Json] = [
        {"broker": broker, "logDirs": _directories(directories, topics)}
        for broker, directories in found.items()
    ]
    print(json.dumps({"brokers": brokers, "version": VERSION}, separators=(",", ":")))


def _brokers(given: GivenOptions) -> list[int]:
    text = given.required("broker-list")
    try:
        return [int(each) for each in text.split(",") if each]
    except ValueError:
        raise CommandRejected(f"--broker-list {text}: must be ids of brokers") from None


def _joined(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _directories(
    found: Mapping[str, LogDir | KafkaError] | KafkaError, topics: Collection[str]
) -> list[Json]:
    shown: list[Json] = []
    for path, directory in value_of(found).items():
        partitions: list[Json] = []
        error = None
        if isinstance(directory, KafkaError):
            error = directory.kafka_name()
        else:
            partitions = [
                {
                    "partition": str(partition),
                    "size": log.size_bytes,
                    "offsetLag": log.offset_lag,
                    "isFuture": log.future,
                }
                for partition, log in sorted(directory.replicas.items())
                if not topics or partition.topic in topics
            ]
        shown.append({"partitions": partitions, "error": error, "logDir": path})
    return shown
