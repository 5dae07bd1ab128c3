"""Leader and follower of one partition, and the fetches between two nodes, without I/O."""
