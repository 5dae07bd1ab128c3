"""Kafka's command names with Kafka's options: one file per command, on the client.

Option names, tables, lines and exit codes are Kafka's, because scripts read these. Help texts and
notes are Penstock's.
"""
