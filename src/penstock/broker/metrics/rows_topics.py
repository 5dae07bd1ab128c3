"""Rows of the table: topics, partitions and their logs."""

from collections.abc import Callable, Iterable

from penstock.broker.metrics.row import Row, RowReader, labelled, row
from penstock.broker.metrics.snapshot import MetricsSnapshot, TopicSnapshot
from penstock.broker.partitions.partition import Partition, PartitionTotals
from penstock.observe.metric import Sample

REPLICA_CLIENT = "Replica"  # Kafka's client id of all fetches of followers


def _per_topic(value: Callable[[PartitionTotals], int]) -> RowReader:
    """Return a series for all topics without a label, as in Kafka, and one for each topic."""

    def read(seen: MetricsSnapshot) -> Iterable[Sample]:
        yield (), value(seen.all_topics)
        for name, topic in seen.topics.items():
            yield (name,), value(topic.totals)

    return read


def _per_log(whole: Callable[[TopicSnapshot], int], one: Callable[[Partition], int]) -> RowReader:
    """Return the sum of a topic, or its partitions on request."""

    def read(seen: MetricsSnapshot) -> Iterable[Sample]:
        for name, topic in seen.topics.items():
            if topic.partitions is None:
                yield (name,), whole(topic)
                continue
            for partition in topic.partitions:
                yield (name, str(partition.index)), one(partition)

    return read


def _per_partition(one: Callable[[Partition], int]) -> RowReader:
    def read(seen: MetricsSnapshot) -> Iterable[Sample]:
        for name, topic in seen.topics.items():
            for partition in topic.partitions or ():
                yield (name, str(partition.index)), one(partition)

    return read


def _stable_lag(partition: Partition) -> int:
    high_watermark = partition.leader.high_watermark
    return high_watermark - partition.log.stable_offset(high_watermark)


def _counter(name: str, about: str, value: Callable[[PartitionTotals], int], unit: str = "") -> Row:
    full = f"kafka_server_brokertopicmetrics_{name}_total"
    return labelled(full, about, _per_topic(value), "topic", unit=unit)


ROWS: tuple[Row, ...] = (
    _counter(
        "messagesin",
        "Records that were appended, by producers and by this node's coordinators.",
        lambda it: it.records_in,
    ),
    _counter(
        "bytesin",
        "Bytes of the batches that were appended, as they were stored.",
        lambda it: it.bytes_in,
        "bytes",
    ),
    _counter(
        "bytesout",
        "Bytes of the batches that were sent to consumers.",
        lambda it: it.bytes_out,
        "bytes",
    ),
    _counter(
        "bytesrejected",
        "Bytes of the batches that were refused because of max.message.bytes.",
        lambda it: it.bytes_rejected,
        "bytes",
    ),
    _counter(
        "totalproducerequests",
        "Batches that producers sent and that came to an append.",
        lambda it: it.produces,
    ),
    _counter(
        "failedproducerequests",
        "Batches that were refused for another reason than those a client may cause or has to "
        "expect (a batch too large or corrupt, a partition that is elsewhere, a disk that failed).",
        lambda it: it.failed_produces,
    ),
    _counter(
        "totalfetchrequests",
        "Looks into a partition on behalf of a fetch.",
        lambda it: it.fetches,
    ),
    _counter(
        "failedfetchrequests",
        "Partitions in fetch answers with another error than those a client may cause or has to "
        "expect.",
        lambda it: it.failed_fetches,
    ),
    labelled(
        "kafka_log_log_size",
        "Bytes of the log's segments: of a topic's partitions here together, or of one.",
        _per_log(lambda it: it.size, lambda it: it.log.size),
        "topic",
        "partition",
        unit="bytes",
    ),
    labelled(
        "kafka_log_log_numlogsegments",
        "Segments of the log: of a topic's partitions here together, or of one.",
        _per_log(lambda it: it.segments, lambda it: len(it.log.closed) + 1),
        "topic",
        "partition",
    ),
    labelled(
        "kafka_log_log_logstartoffset",
        "The first offset of the log; for a topic the sum over its partitions.",
        _per_log(lambda it: it.start_offsets, lambda it: it.log.start_offset),
        "topic",
        "partition",
    ),
    labelled(
        "kafka_log_log_logendoffset",
        "The offset that the next record gets; for a topic the sum over its partitions.",
        _per_log(lambda it: it.end_offsets, lambda it: it.log.end_offset),
        "topic",
        "partition",
    ),
    labelled(
        "kafka_cluster_partition_laststableoffsetlag",
        "How far open transactions keep read_committed consumers behind the high watermark; only "
        "where partitions are asked for.",
        _per_partition(_stable_lag),
        "topic",
        "partition",
    ),
    labelled(
        "penstock_metrics_left_out",
        "Topics, partitions that were asked for, and lags of groups that have no series of their "
        "own because there are too many.",
        lambda seen: (
            (("topics",), seen.topics_left_out),
            (("partitions",), seen.partitions_left_out),
            (("group_lags",), seen.lags_left_out),
        ),
        "what",
    ),
    row(
        "kafka_server_replicamanager_partitioncount",
        "Partitions that belong here, those that are offline too.",
        lambda seen: seen.partitions,
    ),
    row(
        "kafka_server_replicamanager_leadercount",
        "Partitions that this node leads and can serve.",
        lambda seen: seen.leaders,
    ),
    row(
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions that belong here and cannot be used: their directory failed, their log could "
        "not be opened, or somebody has removed its files. Should be 0.",
        lambda seen: seen.offline,
    ),
    row(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions led here that have replicas out of sync. Should be 0.",
        lambda seen: seen.under_replicated,
    ),
    row(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Partitions led here with fewer in-sync replicas than min.insync.replicas: producers with "
        "acks=all are refused. Should be 0.",
        lambda seen: seen.under_min_insync,
    ),
    row(
        "kafka_server_replicamanager_atminisrpartitioncount",
        "Partitions led here with as many in-sync replicas as min.insync.replicas asks for.",
        lambda seen: seen.at_min_insync,
    ),
    row(
        "kafka_server_replicamanager_isrshrinks_total",
        "In-sync sets of leaders here that lost a replica because the replica lagged.",
        lambda seen: seen.broker.isr_changes.shrinks,
    ),
    row(
        "kafka_server_replicamanager_isrexpands_total",
        "In-sync sets of leaders here that a replica has joined.",
        lambda seen: seen.broker.isr_changes.expansions,
    ),
    row(
        "kafka_server_replicamanager_failedisrupdates_total",
        "Changes of in-sync sets that the controller has rejected.",
        lambda seen: seen.broker.isr_changes.failures,
    ),
    labelled(
        "kafka_server_replicafetchermanager_maxlag",
        "Committed records that a replica here lacks, at its leader's last answer: the largest "
        "number of all replicas.",
        lambda seen: [((REPLICA_CLIENT,), seen.lag_max)],
        "clientid",
    ),
    labelled(
        "kafka_server_replicafetchermanager_failedpartitionscount",
        "Replicas here that fetch no more until another leader is elected; the log says why. "
        "Should be 0.",
        lambda seen: [((REPLICA_CLIENT,), seen.failed_followers)],
        "clientid",
    ),
    row(
        "kafka_server_replicamanager_produceridcount",
        "Producers whose last batches are remembered, over all partitions here.",
        lambda seen: seen.producer_ids,
    ),
)
