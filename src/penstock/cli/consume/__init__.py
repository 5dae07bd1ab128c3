"""`penstock consume`: reads, filters and prints records."""
