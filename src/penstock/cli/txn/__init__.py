"""`penstock txn`: transactions, and the ends of those that hang."""
