"""Background tasks of a broker: retention, checkpoints, logger levels, throttled log lines."""
