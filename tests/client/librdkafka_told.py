"""What librdkafka itself understood of a configuration: it prints what was set when asked to."""

import re
from typing import Any

import confluent_kafka
import pytest

# Nobody answers there: a client is made and never connected.
NOWHERE = "127.0.0.1:1"
_LINE = re.compile(r"\|CONF\|[^|]*\|[^|]*?: {3}(\S+) = (.*)$", re.MULTILINE)


def told(
    capfd: pytest.CaptureFixture[str], kind: type[Any], rdkafka: dict[str, Any]
) -> dict[str, str]:
    """The settings as librdkafka took them, by its own names; KafkaException if it did not."""
    capfd.readouterr()
    client = kind({**rdkafka, "debug": "conf"})
    if kind is confluent_kafka.Consumer:
        client.close()
    del client
    return dict(_LINE.findall(capfd.readouterr().err))
