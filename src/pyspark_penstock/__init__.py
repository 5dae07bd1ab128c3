"""Where PySpark looks for `format("penstock")` in a session that nobody has registered it with.

Spark tries packages named `pyspark_<format>` by itself. Filters are not pushed down here: a session
allows that only if it is told to, which `penstock.spark.session` and `register` do.
"""

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from penstock.spark.datasource import PenstockSource
from penstock.spark.options.source import read_source_options


class DefaultSource(PenstockSource):
    """`format("penstock")`, found by its name."""

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        from penstock.spark.source.batch import WholeReader

        return WholeReader(read_source_options(self.options, streaming=False))
