"""What readers of committed rows see of a sink's output, and that nothing is left open."""

from penstock.bulk.decode import Decoder
from penstock.client.admin.blocking import Admin
from penstock.client.raw.range_progress import OffsetRange
from penstock.client.raw.range_reader import RangeReader
from penstock.client.values import At, FoundOffset
from penstock.model import TopicPartition
from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink.client_cluster import ClientCluster

PARTITIONS = 3


def places_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, each) for each in range(PARTITIONS)]


def end_of(admin: Admin, place: TopicPartition, *, committed_only: bool = False) -> int:
    found = admin.offsets({place: At.END}, committed_only=committed_only)[place]
    assert isinstance(found, FoundOffset)
    return found.offset


def committed(options: SinkOptions) -> list[int]:
    """The rows up to the end of the log; all of it is readable."""
    assert options.topic is not None
    places = places_of(options.topic)
    with options.connect() as admin:
        ends = {place: end_of(admin, place, committed_only=True) for place in places}
        assert ends == {place: end_of(admin, place) for place in places}, "somebody is held back"
        ranges = [OffsetRange(place, 0, end) for place, end in ends.items() if end]
        found: list[int] = []
        for chunk in RangeReader(admin.nodes, ranges, committed_only=True).chunks():
            decoder = Decoder(
                ("value",), topic=chunk.partition.topic, partition=chunk.partition.partition
            )
            got = decoder.decode(chunk.records, chunk.start, chunk.end, chunk.aborted)
            found.extend(int(each) for each in got.rows.column("value").to_pylist())
    return sorted(found)


def still_open(options: SinkOptions) -> list[str]:
    assert options.sink_id is not None
    with options.connect() as admin:
        found = ClientCluster(admin, options).open_transactions(options.sink_id)
    return [each.transactional_id for each in found]
