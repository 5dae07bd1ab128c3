"""Penstock beside Apache Kafka on one machine, row by row, and the servers both need."""
