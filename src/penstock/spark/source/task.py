"""The reads of one task: ranges of offsets, over one socket per leader, as Arrow batches."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.bulk.decode import Decoder, last_offset_of
from penstock.client.cluster.nodes import Nodes
from penstock.client.raw.outcomes import (
    PartitionFailure,
    PartitionMissing,
    RecordsExpired,
    RecordsLost,
    TopicMissing,
    TopicRecreated,
)
from penstock.client.raw.range_progress import OffsetRange, Patience
from penstock.client.raw.range_reader import RangeReader
from penstock.client.transport.security import Security
from penstock.model import TopicPartition
from penstock.spark.options.source import SourceOptions
from penstock.spark.source.data_loss import Losses

KEPT_MAX = 4
LOSS = (RecordsExpired, RecordsLost, TopicMissing, TopicRecreated, PartitionMissing)


@dataclass(frozen=True)
class Share(InputPartition):
    """The ranges of one task, and the ids of their topics."""

    ranges: tuple[OffsetRange, ...]
    ids: Mapping[str, bytes]


# Spark's worker processes run one task after the other: connections of the last task save the next
# one of the same query a few round trips. A reader takes them out, so none is shared.
_kept: dict[tuple[int, tuple[tuple[str, str], ...]], Nodes] = {}


def read_share(options: SourceOptions, share: Share) -> Iterator[pa.RecordBatch]:
    """Return all rows of the ranges. Keep the connections only if everything was read from them."""
    key = (os.getpid(), tuple(sorted(options.properties.items())))
    nodes = _kept.pop(key, None) or open_nodes(options)
    whole = False
    try:
        yield from read_share_from(nodes, options, share)
        whole = True
    finally:
        if whole and len(_kept) < KEPT_MAX:
            _kept[key] = nodes
        else:
            nodes.close()


def read_share_from(nodes: Nodes, options: SourceOptions, share: Share) -> Iterator[pa.RecordBatch]:
    """Return all rows of the ranges; lost records are handled by failOnDataLoss."""
    losses = Losses(options.fail_on_data_loss)
    left = {each.partition: each for each in share.ranges}
    while left:
        try:
            yield from _read(nodes, options, share.ids, left)
        except LOSS as loss:
            losses.report(str(loss))
            _go_on(left, loss)


def open_nodes(options: SourceOptions) -> Nodes:
    return Nodes(
        options.bootstrap,
        client_id=options.client_id,
        timeout_ms=options.timeout_ms,
        security=Security.from_properties(options.properties),
    )


def _read(
    nodes: Nodes,
    options: SourceOptions,
    ids: Mapping[str, bytes],
    left: dict[TopicPartition, OffsetRange],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the remaining ranges, and shorten these."""
    ranges = list(left.values())
    decoders = {
        each.partition: Decoder(
            options.columns,
            topic=each.partition.topic,
            partition=each.partition.partition,
            check_crc=options.check_crc,
        )
        for each in ranges
    }
    reader = RangeReader(
        nodes,
        ranges,
        committed_only=options.committed_only,
        topic_ids=ids,
        chunk_bytes=options.chunk_bytes,
        next_offset=last_offset_of,
        patience=Patience(timeout_ms=options.timeout_ms),
    )
    for chunk in reader.chunks():
        decoded = decoders[chunk.partition].decode(
            chunk.records, chunk.start, chunk.end, chunk.aborted
        )
        left[chunk.partition] = replace(left[chunk.partition], start=decoded.next_offset)
        if decoded.rows.num_rows:
            yield decoded.rows
    left.clear()


def _go_on(left: dict[TopicPartition, OffsetRange], loss: PartitionFailure) -> None:
    """Continue after lost records, if any of the range is left."""
    range_ = left.pop(loss.partition)
    if isinstance(loss, RecordsExpired) and loss.log_start < range_.end:
        left[loss.partition] = replace(range_, start=loss.log_start)
