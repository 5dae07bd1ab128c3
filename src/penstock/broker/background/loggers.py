"""The broker's loggers as clients see them: names, levels, and changes of levels.

`root` means the logger `penstock`. Python's own root logger belongs to the program that embeds a
node. Levels last until the process ends, as in Kafka.
"""

import logging
from collections.abc import Sequence

from penstock.errors import InvalidConfig, InvalidRequest
from penstock.log_levels import LogLevel, level_of
from penstock.wire.messages.k44_incremental_alter_configs import AlterableConfig

ROOT = "root"
PACKAGE = "penstock"
SET, DELETE = 0, 1
_NOT_FOR_LEVELS = {2: "APPEND", 3: "SUBTRACT"}

log = logging.getLogger("penstock.loggers")


def names() -> list[str]:
    """Return the names of all loggers, the root first."""
    known = logging.root.manager.loggerDict
    ours = (name for name, each in known.items() if isinstance(each, logging.Logger))
    return [ROOT, *sorted(name for name in ours if name.startswith(f"{PACKAGE}."))]


def level(name: str) -> LogLevel:
    return level_of(_logger(name).getEffectiveLevel())


def check(changes: Sequence[AlterableConfig]) -> None:
    """Raise if one of the changes is not possible, so that a request is applied whole or not at
    all."""
    known = names()
    for change in changes:
        operation = change.config_operation
        if operation not in (SET, DELETE):
            what = _NOT_FOR_LEVELS.get(operation, f"Operation {operation}")
            raise InvalidRequest(f"{what} is not for log levels; {change.name} can be set or unset")
        if change.name not in known:
            raise InvalidConfig(
                f"there is no logger {change.name}; DescribeConfigs lists them, and {ROOT} stands "
                "for all of them"
            )
        if operation == DELETE:
            if change.name == ROOT:
                raise InvalidRequest(f"{ROOT} must have a level: set another one")
        elif change.value is None:
            raise InvalidRequest(f"no level is given for {change.name}")
        elif change.value not in LogLevel.__members__:
            raise InvalidConfig(
                f"{change.value!r}, for {change.name}, is no log level; there are "
                f"{', '.join(sorted(LogLevel))}"
            )


def apply(changes: Sequence[AlterableConfig]) -> None:
    """Apply changes that `check` has accepted."""
    for change in changes:
        logger = _logger(change.name)
        if change.config_operation == DELETE:
            logger.setLevel(logging.NOTSET)
            log.warning("the log level of %s is that of the loggers above it", change.name)
        else:
            assert change.value is not None, "checked before"
            logger.setLevel(LogLevel(change.value).number)
            log.warning("the log level of %s is %s", change.name, change.value)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(PACKAGE if name == ROOT else name)
