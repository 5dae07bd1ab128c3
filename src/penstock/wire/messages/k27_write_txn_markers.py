"""WriteTxnMarkers, v1-v2.

v1: flexible.  v2: the transaction version of each marker (KIP-1228).
"""

from penstock.wire.primitives import Int8, Int16, Int32, Int64
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import TopicErrors


@struct
class WritableTxnMarkerTopic:
    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@struct
class WritableTxnMarker:
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = field("2+", default=0)


@message(key=27, versions="1-2", flexible=1)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field(default_factory=list)


@struct
class WritableTxnMarkerResult:
    producer_id: Int64 = 0
    topics: list[TopicErrors] = field(default_factory=list)


@message(key=27, versions="1-2", flexible=1, response=True)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
