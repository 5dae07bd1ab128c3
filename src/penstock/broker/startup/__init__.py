"""Start of a node: log directories against the image, recovery, missing partitions."""
