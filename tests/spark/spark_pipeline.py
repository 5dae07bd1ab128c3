"""A query from one topic to another, as tests of the sink run it."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.client.values import At, FoundOffset, NewTopic
from penstock.model import TopicPartition
from penstock.testing import Cluster

SECONDS_MAX = 120
PARTITIONS = 2


class Pipeline:
    """From one topic to another, again and again from its checkpoint."""

    def __init__(
        self, spark: SparkSession, cluster: Cluster, admin: Admin, source: str, folder: Path
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.admin = admin
        self.source = source
        self.target = f"{source}-out"
        self.sink = "penstock"
        self.tasks = 1
        self.checkpoint = folder / "checkpoint"
        admin.create_topics([NewTopic(self.target, PARTITIONS)])

    @property
    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.cluster.bootstrap, "topic": self.target}

    def stream(self) -> DataFrame:
        return (
            self.spark.readStream.format("penstock")
            .option("kafka.bootstrap.servers", self.cluster.bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("minPartitions", self.tasks)
            .load()
        )

    def writer(self, **options: str) -> DataStreamWriter:
        return (
            self.stream()
            .select("key", "value")
            .writeStream.format(self.sink)
            .option("checkpointLocation", str(self.checkpoint))
            .options(**{**self.options, **options})
            .trigger(availableNow=True)
        )

    def start(self, **options: str) -> StreamingQuery:
        return self.writer(**options).start()

    def run(self, **options: str) -> None:
        """To the end of what is there; raises what the query fails with."""
        assert self.start(**options).awaitTermination(SECONDS_MAX)

    def forget_last_commit(self) -> None:
        """As if Spark had died between the sink's commit and its own."""
        entries = self.checkpoint / "commits"
        last = max(int(path.name) for path in entries.iterdir() if path.name.isdecimal())
        (entries / str(last)).unlink()
        (entries / f".{last}.crc").unlink(missing_ok=True)

    def output(self) -> list[int]:
        """What a reader of committed rows sees."""
        self.check_rest()
        rows = (
            self.spark.read.format("penstock")
            .option("kafka.bootstrap.servers", self.cluster.bootstrap)
            .option("subscribe", self.target)
            .option("isolation.level", "read_committed")
            .load()
        )
        values = rows.selectExpr("CAST(CAST(value AS STRING) AS INT) AS value").collect()
        return sorted(row.value for row in values)

    def check_rest(self) -> None:
        """Nothing is open, and nobody is held back."""
        listed = self.admin.transactions.list_all(TransactionFilter(states=("Ongoing",)))
        assert [each for each in listed if self.source in each.transactional_id] == []
        for index in range(PARTITIONS):
            place = TopicPartition(self.target, index)
            stable, end = (
                self.admin.offsets({place: At.END}, committed_only=only)[place]
                for only in (True, False)
            )
            assert isinstance(stable, FoundOffset) and stable == end


def texts(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]
