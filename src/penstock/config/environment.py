"""KAFKA_* variables in the spelling of Apache's container image.

KAFKA_LOG_RETENTION_HOURS is log.retention.hours: `_` stands for a dot, `__` for an underscore,
`___` for a dash.
"""

import re
from collections.abc import Iterator, Mapping

PREFIX = "KAFKA_"

# Settings of Java, of its logging and of the image itself, which are no configuration keys.
NOT_CONFIGURATION = frozenset(
    {
        "KAFKA_CLUSTER_ID",
        "KAFKA_DEBUG",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)
# Variables that Kubernetes and container links set beside a service called "kafka".
_SERVICE_LINK = re.compile(r"KAFKA_(?:SERVICE_(?:HOST|PORT)|PORT)(?:_.*)?")


def key_of_variable(variable: str) -> str:
    """Return the key that a KAFKA_* variable sets."""
    dotted = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def variable_of_key(key: str) -> str:
    """Return the variable that sets a key."""
    return PREFIX + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def settings_in(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (variable, key, value) of each setting, ordered by name."""
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in NOT_CONFIGURATION:
            continue
        if _SERVICE_LINK.fullmatch(variable):
            continue
        yield variable, key_of_variable(variable), environment[variable]
