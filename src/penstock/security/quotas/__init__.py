"""Quotas of users, clients and addresses: which one counts, and how long a client waits."""
