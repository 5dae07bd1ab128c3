"""A server.properties file, for the commands that start a node or prepare its directories."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.kafka.connecting import read_file
from penstock.cli.kafka.running import CommandRefused, say

if TYPE_CHECKING:
    from penstock.config import Loaded


def load_server(path: str, overrides: Sequence[str] = ()) -> "Loaded":
    """The configuration that a node would start with; `overrides` are `key=value`."""
    from penstock.config.load import ConfigRefused, ConfigText, load

    try:
        loaded = load([ConfigText(path, read_file(path))], os.environ, overrides)
    except ConfigRefused as refused:
        for warning in refused.warnings:
            say(f"warning: {warning}")
        listed = "\n".join(f"  {problem}" for problem in refused.problems)
        raise CommandRefused(f"{path} is no configuration to start with:\n{listed}") from None
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    return loaded
