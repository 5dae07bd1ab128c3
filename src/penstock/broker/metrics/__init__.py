"""Metrics of a broker: the table, health, status, and the port that serves them."""
