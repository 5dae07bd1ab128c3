"""Transactions: who may write under a transactional id, and how what it wrote ends."""
