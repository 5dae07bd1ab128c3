"""librdkafka's errors in words, and its log kept off the terminal."""

import logging


def silent_logger() -> logging.Logger:
    """librdkafka repeats on stderr what it reports anyway."""
    logger = logging.getLogger("penstock.cli.rdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def error_text(error: object) -> str:
    """`error` is confluent_kafka's KafkaError."""
    name, text = getattr(error, "name", None), getattr(error, "str", None)
    if name is None or text is None:
        return str(error)
    return f"{text()} ({str(name()).lstrip('_')})"


def is_timeout(error: object) -> bool:
    name = getattr(error, "name", None)
    return name is not None and name() == "_MSG_TIMED_OUT"
