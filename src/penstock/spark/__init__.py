"""The data pipeline on Spark: `session()`, and `format("penstock")` to read and to write."""

from penstock.spark.foreach import write_batch
from penstock.spark.session import register, session

__all__ = ["register", "session", "write_batch"]
