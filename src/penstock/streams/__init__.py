"""Streams: topologies in Kafka Streams' words, run by Spark.

from penstock.streams import Streams, count, json_schema, sum_, tumbling
"""

from penstock.spark_extra import require_spark

require_spark("penstock.streams")

from penstock.streams.aggregates import (
    approx_count_distinct,
    avg,
    collect_list,
    collect_set,
    count,
    max_,
    min_,
    stddev,
    sum_,
)
from penstock.streams.app import Streams
from penstock.streams.errors import (
    NotOffered,
    QueryFailed,
    StreamsError,
    TopologyError,
    TracingError,
)
from penstock.streams.expressions import event_time, f, lit, when
from penstock.streams.grouped import GroupedStream, WindowedStream
from penstock.streams.processors import (
    Context,
    ListState,
    MapState,
    Processor,
    ValueState,
    list_state,
    map_state,
    value_state,
)
from penstock.streams.serdes import (
    avro_schema,
    bytes_,
    double,
    float_,
    integer,
    json_schema,
    long,
    short,
    string,
)
from penstock.streams.stream import Stream
from penstock.streams.tables import GlobalTable, Table
from penstock.streams.windows import hopping, session, sliding, tumbling

__all__ = [
    "Context",
    "GlobalTable",
    "GroupedStream",
    "ListState",
    "MapState",
    "NotOffered",
    "Processor",
    "QueryFailed",
    "Stream",
    "Streams",
    "StreamsError",
    "Table",
    "TopologyError",
    "TracingError",
    "ValueState",
    "WindowedStream",
    "approx_count_distinct",
    "avg",
    "avro_schema",
    "bytes_",
    "collect_list",
    "collect_set",
    "count",
    "double",
    "event_time",
    "f",
    "float_",
    "hopping",
    "integer",
    "json_schema",
    "list_state",
    "lit",
    "long",
    "map_state",
    "max_",
    "min_",
    "session",
    "short",
    "sliding",
    "stddev",
    "string",
    "sum_",
    "tumbling",
    "value_state",
    "when",
]
