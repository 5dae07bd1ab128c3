"""Rows of the table: the controller, the metadata quorum, and the coordinators."""

from collections.abc import Callable, Iterable

from penstock.broker.metadata.leader_elections import LeaderElections
from penstock.broker.metrics.row import Row, labelled, row
from penstock.broker.metrics.snapshot import MetricsSnapshot
from penstock.observe.metric import Number, Sample

# The values of Kafka's current-state.
QUORUM_STATES = (
    "leader",
    "candidate",
    "prospective",
    "follower",
    "unattached",
    "observer",
    "resigned",
)
CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")


def _controller(name: str, about: str, value: Callable[[MetricsSnapshot], Number]) -> Row:
    return row(f"kafka_controller_kafkacontroller_{name}", about, value)


def _elections(name: str, about: str, value: Callable[[LeaderElections], int]) -> Row:
    full = f"kafka_controller_controllerstats_{name}_total"
    return row(full, about, lambda seen: value(seen.broker.elections))


def _raft(name: str, about: str, value: Callable[[MetricsSnapshot], Number]) -> Row:
    return row(f"kafka_server_raft_metrics_{name}", about, value)


def _classic(name: str, state: str, about: str) -> Row:
    full = f"kafka_coordinator_group_groupmetadatamanager_{name}"
    return row(full, about, lambda seen: seen.groups.get(("classic", state), 0))


def _kinds(seen: MetricsSnapshot) -> Iterable[Sample]:
    for wanted in ("classic", "consumer"):
        yield (wanted,), sum(count for (kind, _), count in seen.groups.items() if kind == wanted)


def _is_active(seen: MetricsSnapshot) -> int:
    return int(seen.broker.metadata.is_active)


def _quorum_state(seen: MetricsSnapshot) -> Iterable[Sample]:
    state = seen.broker.metadata.describe().state
    return [((each,), int(each == state)) for each in QUORUM_STATES]


ROWS: tuple[Row, ...] = (
    _controller(
        "activecontrollercount",
        "1 on the node whose controller is active. The sum over all nodes should be 1.",
        _is_active,
    ),
    _controller(
        "activebrokercount",
        "Brokers that are registered and not fenced.",
        lambda seen: sum(not each.fenced for each in seen.broker.image.brokers.values()),
    ),
    _controller(
        "fencedbrokercount",
        "Brokers that are registered and fenced: they serve nobody.",
        lambda seen: sum(each.fenced for each in seen.broker.image.brokers.values()),
    ),
    _controller("globaltopiccount", "Topics.", lambda seen: len(seen.broker.image.topics)),
    _controller(
        "globalpartitioncount",
        "Partitions of all topics.",
        lambda seen: seen.cluster_partitions,
    ),
    _controller(
        "offlinepartitionscount",
        "Partitions without a leader that can serve: it is away, its log directory has failed, or "
        "its log could not be opened. Should be 0.",
        lambda seen: seen.without_leader,
    ),
    _controller(
        "preferredreplicaimbalancecount",
        "Partitions whose leader is not the first of their replicas.",
        lambda seen: seen.not_preferred,
    ),
    _elections(
        "leaderelectionrateandtimems",
        "Elections of partition leaders since the start of this node; every node counts the same.",
        lambda elections: elections.all,
    ),
    _elections(
        "electionfromeligibleleaderreplicas",
        "Of them, elections of a replica that was not in sync and is known to have all committed "
        "records.",
        lambda elections: elections.from_eligible,
    ),
    _elections(
        "uncleanleaderelections",
        "Of them, elections of a replica that may lack acknowledged records. Should be 0.",
        lambda elections: elections.unclean,
    ),
    _controller(
        "lastcommittedrecordoffset",
        "The last metadata record that is committed.",
        lambda seen: seen.broker.metadata.describe().high_watermark - 1,
    ),
    row(
        "kafka_server_broker_metadata_metrics_last_applied_record_offset",
        "The last metadata record that this broker goes by.",
        lambda seen: seen.broker.image.offset,
    ),
    row(
        "kafka_server_broker_metadata_metrics_last_applied_record_timestamp",
        "When that record was written, in milliseconds since 1970.",
        lambda seen: seen.broker.image.timestamp_ms,
        "ms",
    ),
    _raft(
        "current_leader",
        "The node that leads the metadata quorum; -1 if this node knows of none.",
        lambda seen: seen.broker.metadata.describe().leader_id,
    ),
    labelled(
        "kafka_server_raft_metrics_current_state",
        "1 for the state of this node in the metadata quorum, 0 for the others.",
        _quorum_state,
        "state",
    ),
    _raft(
        "current_epoch",
        "The epoch of the metadata quorum.",
        lambda seen: seen.broker.metadata.describe().epoch,
    ),
    _raft(
        "high_watermark",
        "Where the committed part of the metadata log ends.",
        lambda seen: seen.broker.metadata.describe().high_watermark,
    ),
    _raft(
        "log_end_offset",
        "Where the metadata log ends.",
        lambda seen: seen.broker.metadata.describe().end_offset,
    ),
    row(
        "kafka_coordinator_group_groupmetadatamanager_numgroups",
        "Classic groups that this node coordinates.",
        lambda seen: sum(n for (kind, _), n in seen.groups.items() if kind == "classic"),
    ),
    row(
        "kafka_coordinator_group_groupmetadatamanager_numoffsets",
        "Committed offsets that this node keeps, of groups of all kinds.",
        lambda seen: seen.offsets,
    ),
    _classic("numgroupsempty", "Empty", "Classic groups without members."),
    _classic(
        "numgroupspreparingrebalance",
        "PreparingRebalance",
        "Classic groups whose members are being called together.",
    ),
    _classic(
        "numgroupscompletingrebalance",
        "CompletingRebalance",
        "Classic groups that wait for their leader's assignment.",
    ),
    _classic("numgroupsstable", "Stable", "Classic groups at work."),
    _classic("numgroupsdead", "Dead", "Classic groups that are about to be forgotten."),
    labelled(
        "kafka_server_group_coordinator_metrics_group_count",
        "Groups that this node coordinates, by protocol.",
        _kinds,
        "protocol",
    ),
    labelled(
        "kafka_server_group_coordinator_metrics_consumer_group_count",
        "Groups of the consumer protocol that this node coordinates, by state.",
        lambda seen: [
            ((state.lower(),), seen.groups.get(("consumer", state), 0)) for state in CONSUMER_STATES
        ],
        "state",
    ),
    labelled(
        "penstock_consumer_group_lag",
        "Records that a group has not committed yet, over the partitions of a topic: the high "
        "watermark less the committed offset, as kafka-consumer-groups counts it. Told by the "
        "node that coordinates the group, of partitions that the node leads.",
        lambda seen: list(seen.lags.items()),
        "group",
        "topic",
    ),
    labelled(
        "penstock_transactional_ids",
        "Transactional ids that this node coordinates, by the state of their last transaction.",
        lambda seen: [((state,), count) for state, count in sorted(seen.transactions.items())],
        "state",
    ),
)
