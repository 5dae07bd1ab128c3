"""kafka-leader-election: elects the preferred replica, or any replica (unclean)."""

from penstock.cli.kafka.framework.client_options import (
    BOOTSTRAP_SERVER,
    open_admin,
    read_properties,
)
from penstock.cli.kafka.framework.options import GivenOptions, Option, OptionRejected
from penstock.cli.kafka.framework.partition_json import listed_twice, read_partitions
from penstock.cli.kafka.framework.runner import (
    FAILED,
    OK,
    CommandRejected,
    command,
    message_of,
    say,
)
from penstock.client.admin.cluster_values import Election
from penstock.errors import ElectionNotNeeded, KafkaError
from penstock.model import TopicPartition

SCOPES = ("topic", "all-topic-partitions", "path-to-json-file")
OPTIONS = (
    BOOTSTRAP_SERVER,
    Option("admin.config", "As --command-config, older.", "String: config file"),
    Option("command-config", "A properties file for the client.", "String: Config file"),
    Option(
        "path-to-json-file",
        'Partitions: {"partitions": [{"topic": "orders", "partition": 1}]}.',
        "String: Path to JSON file",
    ),
    Option("topic", "The topic of one partition.", "String: topic name"),
    Option("partition", "Its number; goes with --topic.", "Integer: partition id"),
    Option("all-topic-partitions", "Every partition that needs an election."),
    Option(
        "election-type", "REQUIRED: preferred or unclean.", "[PREFERRED|UNCLEAN]: election type"
    ),
)


def _failed(problem: Exception) -> None:
    text = message_of(problem)
    say(f"{problem.kafka_name()}: {text}" if isinstance(problem, KafkaError) else text)


@command(
    "kafka-leader-election",
    "Lets the preferred replica lead again, or, if need be, any.",
    OPTIONS,
    failed=_failed,
    usage_on_error=False,
)
def main(given: GivenOptions) -> int:
    election = _checked(given)
    partitions = _partitions(given)
    if given.has("admin.config"):
        say("note: --admin.config is the older name of --command-config")
    properties = read_properties(given.text("admin.config") or given.text("command-config"))
    with open_admin(given.required("bootstrap-server"), properties) as admin:
        results = admin.elect_leaders(partitions, election)
    done = [each for each, error in results.items() if error is None]
    needless = [each for each, error in results.items() if isinstance(error, ElectionNotNeeded)]
    failed = {
        each: error
        for each, error in results.items()
        if error is not None and not isinstance(error, ElectionNotNeeded)
    }
    if done:
        print(
            f"Successfully completed leader election ({election.name}) for partitions "
            + ", ".join(map(str, done))
        )
    if needless:
        print("Valid replica already elected for partitions " + ", ".join(map(str, needless)))
    for each, error in failed.items():
        print(
            f"Error completing leader election ({election.name}) for partition: {each}: "
            f"{error.kafka_name()}: {error.message}"
        )
    if failed:
        say(f"{len(failed)} replica(s) could not be elected")
        return FAILED
    return OK


def _checked(given: GivenOptions) -> Election:
    missing = [name for name in ("bootstrap-server", "election-type") if not given.has(name)]
    if missing:
        raise CommandRejected(f"Missing required option(s): {', '.join(missing)}")
    if sum(map(given.has, SCOPES)) != 1:
        raise CommandRejected(
            f"One and only one of the following options is required: {', '.join(SCOPES)}"
        )
    if given.has("topic") and not given.has("partition"):
        raise CommandRejected("Missing required option(s): partition")
    if given.has("partition") and not given.has("topic"):
        raise CommandRejected("Option partition is only allowed if topic is used")
    said = given.required("election-type")
    try:
        return Election[said.upper()]
    except KeyError:
        raise OptionRejected(f"Cannot parse argument '{said}' of option election-type") from None


def _partitions(given: GivenOptions) -> list[TopicPartition] | None:
    """Return the chosen partitions; None for all."""
    path = given.text("path-to-json-file")
    if path is not None:
        listed = [partition for partition, _ in read_partitions(path)]
        twice = listed_twice(listed)
        if twice:
            raise CommandRejected(
                "Replica election data contains duplicate partitions: " + ",".join(map(str, twice))
            )
        return listed
    topic, number = given.text("topic"), given.number("partition")
    return None if topic is None or number is None else [TopicPartition(topic, number)]
