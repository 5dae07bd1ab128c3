"""The settings of an application besides its topology; the names are Kafka Streams',
underscored."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.streams.compilation.sources import BadRecords
from penstock.streams.errors import TopologyError

BOOTSTRAP = "localhost:9092"
OF = ":"  # between an application and one of its queries
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """application.id, state.dir, replication.factor, client.id, and the handling of bad records."""

    application_id: str
    bootstrap: str
    state_dir: Path
    replication_factor: int  # of topics that the application creates; -1 leaves it to the broker
    client_id: str
    bad_records: BadRecords
    dead_letters: str
    start: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return self.state_dir / self.application_id

    def checkpoint(self, query: str) -> Path:
        return self.directory / "queries" / query

    def name_of(self, query: str) -> str:
        """Return the name of a query's sink and group: no application id has a colon, so all are
        unique."""
        return f"{self.application_id}{OF}{query}"

    def client_options(self) -> dict[str, str]:
        """Return the options that reading and writing share."""
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.client.id": self.client_id,
            **{f"kafka.{name}": value for name, value in self.properties.items()},
        }


def state_directory(given: str | os.PathLike[str] | None) -> Path:
    """Return `state.dir`: the configured one, PENSTOCK_STREAMS_STATE, or a directory of the
    user."""
    chosen = given or os.environ.get("PENSTOCK_STREAMS_STATE")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "penstock" / "streams"


def check_application_id(name: str) -> str:
    """Check an id that becomes part of topics, groups and directories."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(
            f"{name!r} cannot be an application.id: letters, digits, dots, dashes and underscores"
        )
    return name


def bad_records_policy(word: str) -> BadRecords:
    try:
        return BadRecords(word)
    except ValueError:
        raise TopologyError(
            f"bad_records is {word!r}; it takes {', '.join(each.value for each in BadRecords)}"
        ) from None
