"""`penstock config`: settings of topics, groups and brokers."""
