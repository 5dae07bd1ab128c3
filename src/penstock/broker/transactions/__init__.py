"""Transactions in partitions of this node: verification, markers, producer ids."""
