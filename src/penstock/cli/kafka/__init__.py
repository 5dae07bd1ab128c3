"""Kafka's command names with Kafka's options: one file per command, on the client like the others.

What scripts read is Kafka's: names of options, tables, lines, exit codes. What people read is ours.
"""
