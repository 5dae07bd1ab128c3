"""A pipeline on Spark, killed again and again in all its parts: `python -m chaos`."""
