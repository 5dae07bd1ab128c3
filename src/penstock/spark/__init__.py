"""The data pipeline on Spark: `session()`, and `format("penstock")` to read and to write."""
