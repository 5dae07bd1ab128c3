"""Sources and sinks of a running application: `format("penstock")` with its options."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from penstock.streams.settings import Settings
from penstock.streams.topology import Internal, Role, Source

FORMAT = "penstock"


class ClusterInputs:
    """Reads what is committed, and commits its progress to a group so that lag shows."""

    def __init__(self, spark: SparkSession, settings: Settings, groups: Mapping[str, str]) -> None:
        self._spark, self._settings, self._groups = spark, settings, groups

    @property
    def has_ticks(self) -> bool:
        return False

    def stream(self, node: Source | Internal, columns: tuple[str, ...]) -> DataFrame:
        # A table without its past is none; an internal topic is read from its beginning too.
        start = node.start if isinstance(node, Source) and node.role is Role.STREAM else "earliest"
        options = {
            **self._settings.client_options(),
            "subscribe": node.topic,
            "startingOffsets": start,
            "isolation.level": "read_committed",
            "columns": ",".join(columns),
        }
        if node.topic in self._groups:
            options["group.id"] = self._groups[node.topic]
        return self._spark.readStream.format(FORMAT).options(**options).load().select(*columns)

    def table_now(self, node: Source, columns: tuple[str, ...]) -> DataFrame:
        options = {
            **self._settings.client_options(),
            "subscribe": node.topic,
            "startingOffsets": "earliest",
            "isolation.level": "read_committed",
            "columns": ",".join(columns),
        }
        return self._spark.read.format(FORMAT).options(**options).load().select(*columns)
