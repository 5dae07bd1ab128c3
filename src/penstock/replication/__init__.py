"""Leader and follower of one partition, as plain objects without I/O."""
