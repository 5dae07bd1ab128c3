"""Sources and sinks of a running application: `format("penstock")` with its options."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from penstock.streams.settings import StreamsSettings
from penstock.streams.topology import Internal, Role, SourceNode

FORMAT = "penstock"


class ClusterInputs:
    """Reads committed records, and commits the progress to a group so that tools show the lag."""

    def __init__(
        self, spark: SparkSession, settings: StreamsSettings, groups: Mapping[str, str]
    ) -> None:
        self._spark, self._settings, self._groups = spark, settings, groups

    @property
    def has_ticks(self) -> bool:
        return False

    def stream(self, node: SourceNode | Internal, columns: tuple[str, ...]) -> DataFrame:
        # A table needs its past, and so does an internal topic: both are read from the start.
        start = "earliest"
        if isinstance(node, SourceNode) and node.role is Role.STREAM:
            start = node.start
        options = self._options(node, columns, start)
        if node.topic in self._groups:
            options["group.id"] = self._groups[node.topic]
        return self._spark.readStream.format(FORMAT).options(**options).load().select(*columns)

    def table_now(self, node: SourceNode, columns: tuple[str, ...]) -> DataFrame:
        options = self._options(node, columns, "earliest")
        return self._spark.read.format(FORMAT).options(**options).load().select(*columns)

    def _options(
        self, node: SourceNode | Internal, columns: tuple[str, ...], start: str
    ) -> dict[str, str]:
        return {
            **self._settings.client_options(),
            "subscribe": node.topic,
            "startingOffsets": start,
            "isolation.level": "read_committed",
            "columns": ",".join(columns),
        }
