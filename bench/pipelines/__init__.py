"""Pipelines on Spark beside the same jobs with nothing behind them: no broker, ready batches."""
