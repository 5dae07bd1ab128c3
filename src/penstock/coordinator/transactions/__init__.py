"""Transactions: the producers of transactional ids, and the ends of their transactions."""
