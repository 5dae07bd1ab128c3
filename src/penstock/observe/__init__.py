"""What a node shows of itself: metrics as a table, Prometheus' text, and a small HTTP server."""
