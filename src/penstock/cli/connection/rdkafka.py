"""Texts of librdkafka's errors, and a logger that keeps its log off the terminal."""

import logging


def silent_logger() -> logging.Logger:
    """Return a logger without output: librdkafka logs the errors that it also reports."""
    logger = logging.getLogger("penstock.cli.rdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def error_text(error: object) -> str:
    """Return the text and the name of confluent_kafka's KafkaError."""
    name, text = getattr(error, "name", None), getattr(error, "str", None)
    if name is None or text is None:
        return str(error)
    return f"{text()} ({str(name()).lstrip('_')})"


def is_timeout(error: object) -> bool:
    name = getattr(error, "name", None)
    return name is not None and name() == "_MSG_TIMED_OUT"
