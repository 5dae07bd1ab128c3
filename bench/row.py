"""A row: how it is called, what it promises, and how it measures itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from bench import usage
from bench.secured import SecuredPort
from bench.servers import Server
from bench.stats import Target

if TYPE_CHECKING:
    from bench.cluster import ThreeNodes

ROW_WARMUP_SECONDS = 2.0


class Suite(Enum):
    """What kind of server a row wants."""

    LOADING = "loading"  # started again over a million committed offsets

    WARM = "warm"  # ten seconds of load first
    SECURED = "secured"  # the same over TLS
    FRESH = "fresh"  # started a second time over its own directory, idle
    SESSIONS = "sessions"  # will hold 10,000 partitions
    CLEANING = "cleaning"  # only which side it is counts: the cleaners have their own processes
    TESTKIT = "testkit"  # just started, over an empty directory
    TESTKIT_ALONE = "testkit-alone"  # the same, without Apache Kafka beside it
    CLIENTS = "clients"  # over Penstock on both sides: our clients beside others
    DURABILITY = "durability"  # Penstock against itself
    CLUSTER = "cluster"  # three nodes, each broker and controller
    REPLICATED = "replicated"  # the same, for topics with three replicas
    REPLICATED_SYNCED = "replicated-synced"  # Penstock syncs before it answers, Kafka does not
    REPLICATED_FLUSHED = "replicated-flushed"  # both sync before they answer
    KILLS = "kills"  # three nodes of Penstock, on Kafka's timeouts
    KILLS_SHORT = "kills-short"  # three nodes of Penstock, on short timeouts


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement."""

    value: float
    cpu_s_per_million: float | None = None
    details: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    """Where and how long a row measures."""

    server: Server
    seconds: float
    quick: bool = False
    half_rate: float = 0.0
    side: str = ""
    half_rates: Mapping[int, float] = field(default_factory=dict)  # of replicated topics, by size
    idle_memory: usage.Memory | None = None
    cluster: "ThreeNodes | None" = None  # of three nodes; `server` is the first of them
    secured: SecuredPort | None = None  # the clients of the row use TLS
    topics_made: int = 0

    def topic_name(self) -> str:
        """A new one each time: deleting is not over when the answer arrives."""
        self.topics_made += 1
        return f"bench-{self.topics_made}"

    @property
    def raw_access(self) -> dict[str, Any]:
        """Where `load.c` connects."""
        if self.secured is not None:
            return {"port": self.secured.port, "tls": 1}
        return {"port": self.server.port}

    @property
    def rd_access(self) -> dict[str, Any]:
        """Where librdkafka connects."""
        if self.secured is not None:
            secured = self.secured
            return {"bootstrap": secured.bootstrap, "authority": secured.authority}
        return {"bootstrap": self.server.bootstrap}

    @property
    def warmup(self) -> float:
        return min(ROW_WARMUP_SECONDS, self.seconds)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    name: str
    title: str
    unit: str
    target: Target | None
    measure: Callable[[Context], Sample]
    suite: Suite = Suite.WARM
