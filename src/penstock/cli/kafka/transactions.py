"""kafka-transactions: lists transactions, finds hanging ones and aborts them."""

import argparse
from collections.abc import Sequence

from penstock.cli.arguments.times import MINUTE_MS, wall_ms
from penstock.cli.connection.results import split_results
from penstock.cli.kafka.framework.client_options import open_admin, read_properties
from penstock.cli.kafka.framework.runner import CommandRejected, print_message
from penstock.cli.kafka.framework.subcommands import VerbParser, add_version, print_table, run_verbs
from penstock.cli.txn.open_transactions import (
    ask_coordinators,
    hanging_transactions,
    idle_longer_than,
    open_transactions,
)
from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import AbortMarker, ProducerState, TransactionFilter
from penstock.errors import KafkaError
from penstock.model import TopicPartition

# Before a producer's first transaction ends, its coordinator epoch is unknown (-1).
COORDINATOR_EPOCH_MIN = 0
TIMEOUT_MINUTES = 15


def main(arguments: Sequence[str] | None = None) -> int:
    return run_verbs(_parser(), _run, print_message, arguments)


def _parser() -> VerbParser:
    parser = VerbParser(prog="kafka-transactions", description="Transactions of the cluster.")
    add_version(parser)
    parser.add_argument("--command-config", metavar="FILE", help="a properties file")
    parser.add_argument(
        "--bootstrap-server", metavar="host:port", required=True, help="a server, or several"
    )
    verbs = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=VerbParser
    )
    listed = verbs.add_parser("list", help="transactional ids")
    listed.add_argument("--duration-filter", type=int, help="open for longer than so many ms")
    listed.add_argument("--transactional-id-pattern", help="a regular expression of ids")
    described = verbs.add_parser("describe", help="one transactional id")
    described.add_argument("--transactional-id", required=True, help="the id")
    producers = verbs.add_parser("describe-producers", help="who writes to a partition")
    abort = verbs.add_parser("abort", help="end a transaction that hangs in a partition")
    for each in (producers, abort):
        each.add_argument("--topic", required=True, help="the topic")
        each.add_argument("--partition", type=int, required=True, help="the partition")
    producers.add_argument("--broker-id", type=int, help="as this broker's replica knows it")
    abort.add_argument("--start-offset", type=int, help="where the transaction begins")
    abort.add_argument("--producer-id", type=int, help="or: whose it is")
    abort.add_argument("--producer-epoch", type=int, help="with --producer-id")
    abort.add_argument("--coordinator-epoch", type=int, help="with --producer-id")
    found = verbs.add_parser("find-hanging", help="transactions without a coordinator")
    found.add_argument("--broker-id", type=int, help="partitions of this broker")
    found.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=TIMEOUT_MINUTES,
        help="minutes for which a transaction may be open",
    )
    found.add_argument("--topic", help="partitions of this topic")
    found.add_argument("--partition", type=int, help="this one of them")
    ended = verbs.add_parser("forceTerminateTransaction", help="abort what an id has open")
    ended.add_argument("--transactionalId", required=True, help="the id")
    return parser


def _run(parsed: argparse.Namespace) -> None:
    with open_admin(parsed.bootstrap_server, read_properties(parsed.command_config)) as admin:
        match parsed.command:
            case "list":
                _list(admin, parsed)
            case "describe":
                _describe(admin, parsed.transactional_id)
            case "describe-producers":
                _describe_producers(admin, parsed)
            case "abort":
                _abort(admin, parsed)
            case "find-hanging":
                _find_hanging(admin, parsed)
            case _:
                _terminate(admin, parsed.transactionalId)


# -- looking


def _list(admin: Admin, parsed: argparse.Namespace) -> None:
    longer = parsed.duration_filter if (parsed.duration_filter or -1) >= 0 else None
    wanted = TransactionFilter(longer_than_ms=longer, pattern=parsed.transactional_id_pattern)
    print_table(
        {
            "TransactionalId": lambda each: each.transactional_id,
            "Coordinator": lambda each: each.coordinator,
            "ProducerId": lambda each: each.producer_id,
            "TransactionState": lambda each: each.state,
        },
        admin.transactions.list_all(wanted),
    )


def _describe(admin: Admin, transactional_id: str) -> None:
    found = admin.transactions.describe([transactional_id])[transactional_id]
    if isinstance(found, KafkaError):
        raise CommandRejected(
            f"Failed to describe transaction state of transactional-id `{transactional_id}`: "
            f"{found.message}"
        )
    now_ms = wall_ms()
    print_table(
        {
            "CoordinatorId": lambda each: each.coordinator,
            "TransactionalId": lambda _each: transactional_id,
            "ProducerId": lambda each: each.producer_id,
            "ProducerEpoch": lambda each: each.producer_epoch,
            "TransactionState": lambda each: each.state,
            "TransactionTimeoutMs": lambda each: each.timeout_ms,
            "CurrentTransactionStartTimeMs": lambda each: each.start_ms,
            "TransactionDurationMs": lambda each: (
                None if each.start_ms is None else max(0, now_ms - each.start_ms)
            ),
            "TopicPartitions": lambda each: ",".join(map(str, each.partitions)),
        },
        [found],
    )


def _describe_producers(admin: Admin, parsed: argparse.Namespace) -> None:
    partition = TopicPartition(parsed.topic, parsed.partition)
    where = "leader" if parsed.broker_id is None else f"broker {parsed.broker_id}"
    complaint = f"Failed to describe producers for partition {partition} on {where}"
    print_table(
        {
            "ProducerId": lambda each: each.producer_id,
            "ProducerEpoch": lambda each: each.producer_epoch,
            "LatestCoordinatorEpoch": lambda each: each.coordinator_epoch,
            "LastSequence": lambda each: each.last_sequence,
            "LastTimestamp": lambda each: each.last_timestamp,
            "CurrentTransactionStartOffset": lambda each: each.transaction_start,
        },
        _producers(admin, partition, complaint, parsed.broker_id),
    )


def _producers(
    admin: Admin, partition: TopicPartition, complaint: str, broker: int | None = None
) -> list[ProducerState]:
    found = admin.transactions.producers([partition], broker=broker)[partition]
    if isinstance(found, KafkaError):
        raise CommandRejected(f"{complaint}: {found.message}")
    return found


def _find_hanging(admin: Admin, parsed: argparse.Namespace) -> None:
    if parsed.topic is None and parsed.broker_id is None:
        raise CommandRejected(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope "
            "of the search"
        )
    if parsed.partition is not None and parsed.topic is None:
        raise CommandRejected("The --partition argument requires --topic to be provided")
    found = admin.transactions.producers(_searched(admin, parsed), broker=parsed.broker_id)
    answered, failed = split_results(found)
    for each, error in failed.items():
        raise CommandRejected(f"Failed to describe producers for {each}: {error.message}")
    now_ms = wall_ms()
    limit_ms = parsed.max_transaction_timeout * MINUTE_MS
    candidates = idle_longer_than(open_transactions(answered), limit_ms, now_ms)
    known = ask_coordinators(admin, (each.producer.producer_id for each in candidates))
    print_table(
        {
            "Topic": lambda each: each.partition.topic,
            "Partition": lambda each: each.partition.partition,
            "ProducerId": lambda each: each.producer.producer_id,
            "ProducerEpoch": lambda each: each.producer.producer_epoch,
            "CoordinatorEpoch": lambda each: each.producer.coordinator_epoch,
            "StartOffset": lambda each: each.start_offset,
            "LastTimestamp": lambda each: each.producer.last_timestamp,
            "Duration(min)": lambda each: (now_ms - each.producer.last_timestamp) // MINUTE_MS,
        },
        hanging_transactions(candidates, known),
    )


def _searched(admin: Admin, parsed: argparse.Namespace) -> list[TopicPartition]:
    if parsed.partition is not None:
        return [TopicPartition(parsed.topic, parsed.partition)]
    if parsed.topic is not None:
        topic = admin.describe_topics([parsed.topic])[parsed.topic]
        if isinstance(topic, KafkaError):
            raise CommandRejected(f"Failed to describe 1 topics: {topic.message}")
        topics = [topic]
    else:
        topics = admin.list_topics()
    return [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if parsed.broker_id is None or parsed.broker_id in each.replicas
    ]


# -- ending


def _abort(admin: Admin, parsed: argparse.Namespace) -> None:
    partition = TopicPartition(parsed.topic, parsed.partition)
    if parsed.start_offset is None and parsed.producer_id is None:
        raise CommandRejected(
            "The transaction to abort must be identified either with --start-offset (for brokers "
            "on 3.0 or above) or with --producer-id, --producer-epoch, and --coordinator-epoch "
            "(for older brokers)"
        )
    if parsed.start_offset is None:
        for name in ("producer_epoch", "coordinator_epoch"):
            if getattr(parsed, name) is None:
                raise CommandRejected(f"Missing required argument --{name.replace('_', '-')}")
        producer, epoch = parsed.producer_id, parsed.producer_epoch
        coordinator = parsed.coordinator_epoch
    else:
        complaint = f"Failed to validate producer state for partition {partition}"
        for each in _producers(admin, partition, complaint):
            if each.transaction_start == parsed.start_offset:
                producer, epoch = each.producer_id, each.producer_epoch
                coordinator = each.coordinator_epoch
                break
        else:
            raise CommandRejected(
                f"Could not find any open transactions starting at offset {parsed.start_offset} on "
                f"partition {partition}"
            )
    marker = AbortMarker(partition, producer, epoch, max(COORDINATOR_EPOCH_MIN, coordinator))
    error = admin.transactions.abort(marker)
    if error is not None:
        raise CommandRejected(f"Failed to abort transaction {marker}: {error.message}")


def _terminate(admin: Admin, transactional_id: str) -> None:
    found = admin.transactions.fence([transactional_id])[transactional_id]
    if isinstance(found, KafkaError):
        raise CommandRejected(
            f"Failed to force terminate transactionalId `{transactional_id}`: {found.message}"
        )
