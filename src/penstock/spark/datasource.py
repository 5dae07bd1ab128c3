"""The data source that Spark knows as "penstock"."""

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.spark.options.option_bag import BadOption, OptionBag
from penstock.spark.options.source import read_columns, read_source_options
from penstock.spark.output_modes import NAME, WRITE_BATCH

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(HEADER),
}
WRITTEN: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}


class PenstockSource(DataSource):
    """Reads and writes topics of any Kafka-compatible cluster."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        columns = read_columns(OptionBag(self.options))
        return StructType([StructField(name, TYPES[name]) for name in columns])

    # -- reading

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.source.batch import PenstockReader

        self._require_own(schema)
        return PenstockReader(read_source_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark.source.stream import PenstockStreamReader

        self._require_own(schema)
        options = read_source_options(self.options, streaming=True)
        if options.low_latency:
            # Spark's way to learn that there is only the simple reader.
            raise PySparkNotImplementedError(
                errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "streamReader"}
            )
        return PenstockStreamReader(options)

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        from penstock.spark.source.low_latency import PenstockSimpleReader

        self._require_own(schema)
        return PenstockSimpleReader(read_source_options(self.options, streaming=True))

    def _require_own(self, schema: StructType) -> None:
        """Reject another schema: `.schema(...)` reaches a Python source here first, and tasks would
        reject each row."""
        mine = self.schema()
        if schema.simpleString() != mine.simpleString():
            raise BadOption(
                f"a topic has columns of its own, {', '.join(mine.names)}: leave .schema(...) "
                "out, and read the value with from_json or another function of Spark's"
            )

    # -- writing

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.options.sink import read_sink_options
        from penstock.spark.sink.writer import PenstockBatchWriter

        if overwrite:
            raise BadOption('a topic is only appended to: use .mode("append")')
        options = read_sink_options(self.options)
        _check(schema, options.topic)
        return PenstockBatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.options.sink import read_sink_options
        from penstock.spark.sink.writer import PenstockStreamWriter

        if overwrite:
            raise BadOption(WRITE_BATCH)
        options = read_sink_options(self.options)
        _check(schema, options.topic)
        return PenstockStreamWriter(options)


def _check(schema: StructType, topic: str | None) -> None:
    """Reject rows that cannot be written, before the first one is written."""
    from penstock.spark.sink.rows import check_columns

    check_columns(schema.names, topic)
    for field in schema.fields:
        wanted, found = WRITTEN.get(field.name.lower()), field.dataType.simpleString()
        if wanted is not None and found not in wanted:
            raise BadOption(f"column {field.name} is {found}; the sink takes {' or '.join(wanted)}")
