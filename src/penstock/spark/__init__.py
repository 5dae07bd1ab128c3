"""Pipelines on Spark: `session()`, and `format("penstock")` to read and to write."""

from typing import TYPE_CHECKING

from penstock.spark_extra import require_spark

require_spark("penstock.spark")

from penstock.spark.foreach import write_batch
from penstock.spark.query_start import start
from penstock.spark.session import register

if TYPE_CHECKING:
    # At run time `session` is the module, which is callable: a package has one attribute per name,
    # and `import penstock.spark.session` must give the module.
    from penstock.spark.session import session  # noqa: TC004

__all__ = ["register", "session", "start", "write_batch"]
