"""`penstock top`: brokers, topics and groups on one screen."""
