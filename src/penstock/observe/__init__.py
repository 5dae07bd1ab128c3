"""The observability of a node: metrics as a table, Prometheus' text, and a small HTTP server."""
