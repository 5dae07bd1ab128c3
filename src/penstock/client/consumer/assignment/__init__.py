"""Which partitions a consumer has, and how rebalances change them."""
