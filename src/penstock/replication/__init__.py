"""Leader side of one partition, as plain objects without I/O."""
