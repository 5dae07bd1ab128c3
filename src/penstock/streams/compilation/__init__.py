"""From the description of a topology to Spark's DataFrames."""
