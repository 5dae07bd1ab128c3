"""The two servers of a comparison: their jars, their settings, their lives.

A server is a process group of its own in a temporary directory of its own; leaving the `with`
block ends the group and removes the directory, also after Ctrl-C.  `compat` uses this too.
"""

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "bench" / ".cache"
KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"  # what Kafka's own distribution logs through
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
MAVEN_SECONDS_MAX = 900
OPEN_FILES_WANTED = 200_000
LOG_TAIL_LINES = 30
PORTS = range(20_000, 32_000)

# The settings of config/server.properties as Apache Kafka 4.3 ships it, ports and directory aside.
SAMPLE_SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}

# What kafka-server-start and kafka-run-class give the server's JVM by default.
JVM_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)

# The effect of Kafka's own log4j2.yaml for its server: INFO and above, to standard output.
SERVER_LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = OUT
"""
TOOL_LOGGING = SERVER_LOGGING.replace("level = info", "level = warn").replace(
    "appender.out.name = OUT", "appender.out.name = OUT\nappender.out.target = SYSTEM_ERR"
)

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>{KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>{LOG4J_VERSION}</version></dependency>
  </dependencies>
</project>
"""


class ServerFailed(Exception):
    """A server did not start, or did not stop."""


def kafka_jars() -> Path:
    """The directory with Apache Kafka's jars; Maven fetches them on first use."""
    libs = CACHE / f"kafka-{KAFKA_VERSION}"
    if (libs / f"kafka-tools-{KAFKA_VERSION}.jar").exists():
        return libs
    if shutil.which("mvn") is None or shutil.which("java") is None:
        raise ServerFailed("Apache Kafka needs `java` (17 or later) and `mvn` on the PATH")
    CACHE.mkdir(parents=True, exist_ok=True)
    print(f"fetching Apache Kafka {KAFKA_VERSION} with Maven (once)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        (Path(scratch) / "pom.xml").write_text(POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
        done = subprocess.run(
            command,
            cwd=scratch,
            timeout=MAVEN_SECONDS_MAX,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ServerFailed(f"Maven could not fetch Apache Kafka:\n{done.stdout}{done.stderr}")
        shutil.rmtree(libs, ignore_errors=True)
        (Path(scratch) / "libs").rename(libs)
    return libs


def java_class(
    *arguments: str, logging: str = TOOL_LOGGING, flags: tuple[str, ...] = ()
) -> list[str]:
    """The command line of one of Kafka's main classes."""
    libs = kafka_jars()
    settings = CACHE / ("server-log4j2.properties" if flags else "tools-log4j2.properties")
    if not settings.exists():
        settings.write_text(logging)
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    heap = flags or ("-Xmx256M",)
    log4j = f"-Dlog4j2.configurationFile={settings}"
    return [java, *heap, log4j, "-cp", f"{libs}/*", *arguments]


def _environment() -> dict[str, str]:
    """As users have it: Python keeps its compiled files, and no KAFKA_ variable leaks in."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("KAFKA_")
    }


def allow_many_files() -> None:
    """10,000 partitions are 30,000 open files on Kafka's side."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def answers(port: int) -> bool:
    """Whether a server on this port answers ApiVersions."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
            link.sendall(struct.pack(">i", len(request)) + request)
            head = link.recv(8, socket.MSG_WAITALL)
            return len(head) == 8 and head[4:] == struct.pack(">i", 1)
    except OSError:
        return False


@dataclass
class Server:
    """A running server."""

    kind: str
    port: int
    data: Path
    log: Path
    process: "subprocess.Popen[bytes]"
    launched_at: float
    started_s: float = 0.0
    command: list[str] = field(repr=False, default_factory=list)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def pids(self) -> list[int]:
        """The process and its helpers: everything in its group."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    if os.getpgid(int(entry)) == self.process.pid:
                        found.append(int(entry))
                except ProcessLookupError:
                    continue
        return sorted(found)

    def stop(self) -> None:
        """A clean stop: SIGTERM to the server itself, as a user would."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as slow:
            raise ServerFailed(f"{self.kind} ignored SIGTERM for {STOP_SECONDS_MAX} s") from slow
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(STOP_SECONDS_MAX)

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


def properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


@dataclass(frozen=True, slots=True)
class Ports:
    """A node's client port and controller port.

    A directory keeps its ports: the quorum's own log holds the controller's address.
    """

    client: int
    controller: int

    @classmethod
    def free(cls) -> "Ports":
        return cls(*free_ports(2))


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on. Linux gives higher ones to outgoing connections, which could
    take the port of a server while it is down."""
    found: set[int] = set()
    while len(found) < count:
        port = random.choice(PORTS)
        with suppress(OSError), socket.socket() as trial:
            trial.bind(("127.0.0.1", port))
            found.add(port)
    return sorted(found)


def node_settings(data: Path, ports: Ports, changes: Mapping[str, str]) -> dict[str, str]:
    """The sample settings with this run's directory and ports."""
    client, controller = ports.client, ports.controller
    return {
        **SAMPLE_SETTINGS,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": (
            f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"
        ),
        "log.dirs": str(data),
        **changes,
    }


def _kafka_command(data: Path, ports: Ports, changes: Mapping[str, str]) -> list[str]:
    """Formats the directory if it is new, and tells how to start."""
    work = data.parent
    settings = work / f"{data.name}-server.properties"
    settings.write_text(properties(node_settings(data, ports, changes)))
    if not (data / "meta.properties").exists():
        storage = java_class("kafka.tools.StorageTool")
        made = subprocess.run(
            [*storage, "random-uuid"], capture_output=True, text=True, timeout=120, check=True
        )
        formatted = subprocess.run(
            [
                *storage,
                "format",
                "--standalone",
                "-t",
                made.stdout.split()[-1],
                "-c",
                str(settings),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if formatted.returncode:
            raise ServerFailed(f"StorageTool failed:\n{formatted.stdout}{formatted.stderr}")
    return kafka_server(settings)


def kafka_server(settings: Path, *flags: str) -> list[str]:
    """Tells how to start Kafka as its scripts do; further flags of the JVM go over theirs."""
    gc_log = (
        f"-Xlog:gc*:file={settings.with_suffix('')}-gc.log:time,tags:filecount=10,filesize=100M"
    )
    all_flags = (*JVM_FLAGS, gc_log, *flags)
    return java_class("kafka.Kafka", str(settings), logging=SERVER_LOGGING, flags=all_flags)


def penstock_command(data: Path, settings: Mapping[str, str], config: Path | None) -> list[str]:
    installed = ROOT / ".venv" / "bin" / "penstock"
    start = [str(installed)] if installed.exists() else [sys.executable, "-m", "penstock"]
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    file = ["--config", str(config)] if config else []
    return [*start, "start", *file, *sets, "--data", str(data)]


def start(
    kind: str,
    data: Path,
    *,
    changes: Mapping[str, str] | None = None,
    ports: Ports | None = None,
    config: Path | None = None,
) -> Server:
    """Starts `kafka` or `penstock` over a directory and waits until it answers.

    Kafka runs on its sample settings, Penstock on its own defaults or on the properties file
    `config`; `changes` go over them.
    """
    ports = ports or Ports.free()
    data.mkdir(parents=True, exist_ok=True)
    if kind == "kafka":
        command = _kafka_command(data, ports, changes or {})
    elif kind == "penstock":
        listener = {} if config else {"listeners": f"PLAINTEXT://127.0.0.1:{ports.client}"}
        command = penstock_command(data, {**listener, **(changes or {})}, config)
    else:
        raise ServerFailed(f"no such server: {kind}")
    server = launch(kind, data, ports.client, command)
    try:
        while not answers(ports.client):
            if server.process.poll() is not None:
                raise ServerFailed(f"{kind} ended at start:\n{server.log_tail()}")
            if time.monotonic() - server.launched_at > START_SECONDS_MAX:
                raise ServerFailed(f"{kind} answers nothing:\n{server.log_tail()}")
            time.sleep(0.001)
    except BaseException:
        server.kill()
        raise
    server.started_s = time.monotonic() - server.launched_at
    return server


def launch(kind: str, data: Path, port: int, command: list[str]) -> Server:
    """Starts the process of a server, and waits for nothing."""
    log = data.parent / f"{data.name}-{kind}.log"
    allow_many_files()
    with log.open("ab") as out:
        launched_at = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=data.parent,
            env=_environment(),
        )
    return Server(kind, port, data, log, process, launched_at, command=command)


def stand_in(kind: str, variable: str) -> str:
    """What runs in Penstock's place: the environment may name Apache Kafka, to try the harness."""
    return os.environ.get(variable, kind) if kind == "penstock" else kind


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary directory on the repository's own disk: /tmp may be memory."""
    CACHE.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def running(
    kind: str,
    data: Path,
    *,
    changes: Mapping[str, str] | None = None,
    ports: Ports | None = None,
    config: Path | None = None,
    clean: bool = True,
) -> Iterator[Server]:
    """A server for the length of a block.

    At its end a clean stop, unless the directory is thrown away anyway; SIGKILL if that fails.
    """
    server = start(kind, data, changes=changes, ports=ports, config=config)
    try:
        yield server
        if server.process.poll() is not None:
            raise ServerFailed(f"{kind} ended while it was needed:\n{server.log_tail()}")
        if clean:
            server.stop()
    finally:
        server.kill()
