"""The sink's shell against a real node, without Spark: plan, tasks, commit, abort, recovery."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest
from sink_output import PARTITIONS, committed, end_of, places_of, still_open

from penstock.client.raw.outcomes import TopicMissing
from penstock.client.raw.transactions import abilities_of, end_transaction, init_producer_id
from penstock.client.transport.connection import Connection
from penstock.client.values import NewTopic, Resource, ResourceType
from penstock.model import TopicPartition
from penstock.spark.options.sink import DeliveryGuarantee, SinkOptions
from penstock.spark.sink import worker
from penstock.spark.sink.batch_commit import BatchCommit, BatchCommitted, CommitRules
from penstock.spark.sink.client_cluster import ClientCluster
from penstock.spark.sink.cluster import End, Ended, Gone
from penstock.spark.sink.decisions import (
    JOB,
    TOPIC,
    BatchName,
    Content,
    DecisionStage,
    Driver,
    SinkProducer,
    nothing_decided,
    partition_of,
)
from penstock.spark.sink.driver import commit_batch, known_sinks, plan_batch, settle
from penstock.spark.sink.refusals import CheckpointWentBack, DriverReplaced, NewCheckpoint
from penstock.spark.sink.task import TaskPlan, TaskReport
from penstock.spark.sink.worker import _worker, write_at_least_once, write_part
from penstock.testing import Cluster
from penstock.wire.messages import k57_update_features as wire

OUTPUT = "output"


@pytest.fixture(scope="module", params=["v2", "v1"])
def node(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One with Kafka's newest transactions, and one whose clients write as before."""
    with Cluster() as cluster:
        if request.param == "v1":
            _lower_transaction_version(cluster)
        yield cluster


def _lower_transaction_version(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.rpartition(":")
    with Connection(host, int(port)) as connection:
        update = wire.FeatureUpdateKey(
            feature="transaction.version", max_version_level=1, upgrade_type=2
        )
        answer = connection.request(
            wire.UpdateFeaturesRequest(feature_updates=[update]), wire.UpdateFeaturesResponse
        )
        assert answer.error_code == 0, answer
    with SinkOptions({"bootstrap.servers": cluster.bootstrap}).connect() as admin:
        assert abilities_of(admin.nodes.any()).must_add_partitions


@pytest.fixture
def options(node: Cluster, request: pytest.FixtureRequest) -> Iterator[SinkOptions]:
    """A sink and an output topic of its own for each test."""
    name = f"{OUTPUT}-{crc32(request.node.name.encode()):x}"
    made = SinkOptions({"bootstrap.servers": node.bootstrap}, topic=name, sink_id=f"sink-{name}")
    with made.connect() as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    yield made
    assert still_open(made) == [], "every test leaves the sink at rest"


def rows(*numbers: int) -> list[pa.RecordBatch]:
    texts = [str(each).encode() for each in numbers]
    return [pa.record_batch({"key": texts, "value": texts})]


def sink(options: SinkOptions) -> str:
    assert options.sink_id is not None
    return options.sink_id


def plan(options: SinkOptions) -> TaskPlan:
    return plan_batch(options, sink(options), may_repeat=True)


def write(
    options: SinkOptions, planned: TaskPlan, batch_id: int, *shares: list[pa.RecordBatch]
) -> list[TaskReport]:
    batch = BatchName("query", batch_id)
    return [write_part(options, planned, batch, share) for share in shares]


def commit(options: SinkOptions, batch_id: int, reports: list[TaskReport]) -> BatchCommitted:
    return commit_batch(options, sink(options), BatchName("query", batch_id), reports)


# ---- a batch


def test_rows_are_there_once_commit_has_returned(options: SinkOptions) -> None:
    reports = write(options, plan(options), 0, rows(1, 2, 3), rows(4, 5), rows())
    assert reports[2].transaction is None, "no rows, no transaction"
    done = commit(options, 0, reports)
    assert (done.rows, done.transactions, done.aborted) == (5, 2, 0)
    assert committed(options) == [1, 2, 3, 4, 5]


def test_a_batch_that_was_committed_is_not_written_again(options: SinkOptions) -> None:
    commit(options, 0, write(options, plan(options), 0, rows(1, 2), rows(3)))
    again = write(options, plan(options), 0, rows(3, 1), rows(2))
    assert all(each.transaction is None for each in again)
    assert commit(options, 0, again).repeated
    assert committed(options) == [1, 2, 3]


def test_the_same_batch_with_other_rows_stops(options: SinkOptions) -> None:
    commit(options, 0, write(options, plan(options), 0, rows(1, 2)))
    with pytest.raises(CheckpointWentBack, match="other content"):
        commit(options, 0, write(options, plan(options), 0, rows(1, 3)))
    assert committed(options) == [1, 2]


def test_a_new_query_under_a_known_name_stops_unless_allowed(options: SinkOptions) -> None:
    commit(options, 7, write(options, plan(options), 7, rows(1)))
    other = BatchName("another", 0)
    report = write_part(options, plan(options), other, rows(1))
    with pytest.raises(NewCheckpoint):
        commit_batch(options, sink(options), other, [report])
    allowed = replace(options, new_checkpoint_allowed=True)
    report = write_part(allowed, plan(allowed), other, rows(2))
    commit_batch(allowed, sink(options), other, [report])
    assert committed(options) == [1, 2]


def with_checkpoint(options: SinkOptions, folder: Path, query_id: str) -> SinkOptions:
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    return replace(options, checkpoint_location=str(folder))


def test_a_new_query_under_a_known_name_stops_before_its_batch_is_computed(
    options: SinkOptions, tmp_path: Path
) -> None:
    commit(options, 7, write(options, plan(options), 7, rows(1)))
    with pytest.raises(NewCheckpoint, match="knows nothing of it"):
        plan(with_checkpoint(options, tmp_path, "another"))
    plan(with_checkpoint(options, tmp_path, "query"))


def test_a_new_query_may_write_to_a_topic_that_is_new_also_after_a_batch_that_failed(
    options: SinkOptions, tmp_path: Path
) -> None:
    assert options.topic is not None
    commit(options, 7, write(options, plan(options), 7, rows(1)))
    with options.connect() as admin:
        admin.delete_topics([options.topic])
        admin.create_topics([NewTopic(options.topic, PARTITIONS, 1)])
    fresh, batch = with_checkpoint(options, tmp_path, "another"), BatchName("another", 0)
    write_part(fresh, plan(fresh), batch, rows(2))
    settle(fresh, sink(fresh))
    planned = plan(fresh)
    assert planned.carried.last is None
    report = write_part(fresh, planned, batch, rows(3))
    commit_batch(options, sink(options), batch, [report])
    assert committed(options) == [3]


def test_a_topic_that_is_missing_is_created_by_the_broker(options: SinkOptions) -> None:
    created = replace(
        options, topic=f"{options.topic}-created", delivery=DeliveryGuarantee.AT_LEAST_ONCE
    )
    assert created.topic is not None
    write_at_least_once(created, rows(1, 2))
    with created.connect() as admin:
        assert end_of(admin, TopicPartition(created.topic, 0)) == 2


def test_a_topic_that_the_broker_does_not_create_is_told_as_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "CREATE_TIMEOUT_MS", 50)
    with Cluster({"auto.create.topics.enable": "false"}) as cluster:
        options = SinkOptions({"bootstrap.servers": cluster.bootstrap}, topic="nowhere")
        with pytest.raises(TopicMissing, match="topic nowhere does not exist"):
            write_at_least_once(options, rows(1))


def test_an_aborted_batch_leaves_nothing(options: SinkOptions) -> None:
    write(options, plan(options), 0, rows(1, 2), rows(3))
    settled = settle(options, sink(options))
    assert len(settled.aborted) == 2
    assert committed(options) == []


def test_what_a_dead_driver_left_is_aborted_by_the_next_plan(options: SinkOptions) -> None:
    write(options, plan(options), 0, rows(1, 2))
    commit(options, 0, write(options, plan(options), 0, rows(1, 2)))
    assert committed(options) == [1, 2]


def test_an_older_driver_cannot_commit(options: SinkOptions) -> None:
    older = write(options, plan(options), 0, rows(1, 2))
    newer = write(options, plan(options), 0, rows(1, 2))
    with pytest.raises(DriverReplaced, match="another driver has taken over"):
        commit(options, 0, older)
    commit(options, 0, newer)
    assert committed(options) == [1, 2]


def test_a_copy_of_a_task_is_aborted_by_commit(options: SinkOptions) -> None:
    planned = plan(options)
    copies = write(options, planned, 0, rows(1, 2), rows(1, 2))
    ids = [each.transaction.transactional_id for each in copies if each.transaction]
    assert len(set(ids)) == 2, "the copy has an id of its own"
    assert commit(options, 0, copies[1:]).aborted == 1
    assert committed(options) == [1, 2]


def test_a_decision_is_finished_by_whoever_comes_next(options: SinkOptions) -> None:
    planned = plan(options)
    reports = write(options, planned, 0, rows(1, 2), rows(3))
    with options.connect() as admin:
        cluster = ClientCluster(admin, options)
        _decide_only(cluster, options, planned, reports)
        assert len(cluster.open_transactions(sink(options))) == 2
    settled = settle(options, sink(options))
    assert settled.finished and settled.aborted == ()
    assert committed(options) == [1, 2, 3]


def _decide_only(
    cluster: ClientCluster, options: SinkOptions, planned: TaskPlan, reports: list[TaskReport]
) -> None:
    """As a driver does that dies right after its decision."""

    content = Content(3, digest=f"{sum(each.digest or 0 for each in reports) % 2**128:032x}")
    machine = BatchCommit(CommitRules(sink(options)), BatchName("query", 0), content, reports, 0)
    steps = machine.run()
    request = next(steps)
    for _ in range(3):  # what is open, the decision, its end
        request = steps.send(request(cluster))
    assert planned.carried.last is None


def test_a_worker_uses_its_ids_again_for_the_next_batch(options: SinkOptions) -> None:
    ids = []
    for batch_id in range(3):
        reports = write(options, plan(options), batch_id, rows(batch_id))
        assert reports[0].transaction is not None
        ids.append(reports[0].transaction.transactional_id)
        commit(options, batch_id, reports)
    assert len(set(ids)) == 1
    assert committed(options) == [0, 1, 2]


def test_a_task_that_fails_aborts_what_it_has_written(options: SinkOptions) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(*range(100))
        raise RuntimeError("the task fails")

    with pytest.raises(RuntimeError, match="the task fails"):
        write_part(options, plan(options), BatchName("query", 0), failing())
    assert committed(options) == []


def test_a_job_is_there_completely_or_not_at_all(options: SinkOptions) -> None:
    planned = plan_batch(options, sink(options), may_repeat=False)
    reports = [write_part(options, planned, JOB, rows(1, 2)) for _ in range(2)]
    assert options.topic is not None
    with options.connect() as admin:
        ends = [end_of(admin, each, committed_only=True) for each in places_of(options.topic)]
    assert ends == [0, 0, 0], "nothing can be read before"
    commit_batch(options, sink(options), JOB, reports)
    assert committed(options) == [1, 1, 2, 2]


def test_an_at_least_once_write_needs_no_commit(options: SinkOptions) -> None:
    plain = replace(options, delivery=DeliveryGuarantee.AT_LEAST_ONCE)
    assert write_at_least_once(plain, rows(1, 2, 3)) == 3
    assert committed(options) == [1, 2, 3]


def test_rows_go_to_the_topics_that_they_name(options: SinkOptions) -> None:
    named = replace(options, topic=None)
    values = [b"1", b"2", b"3"]
    topics = pa.record_batch({"topic": [options.topic] * 3, "value": values})
    report = write_part(named, plan(named), BatchName("query", 0), [topics])
    commit(named, 0, [report])
    assert committed(options) == [1, 2, 3]


# ---- what the decision log finds


def test_a_decision_is_found_however_far_back_it_is(options: SinkOptions) -> None:
    commit(options, 0, write(options, plan(options), 0, rows(1)))
    with options.connect() as admin:
        cluster = ClientCluster(admin, options)
        neighbour = _neighbour(sink(options))
        driver = Driver(cluster.take_over(f"{neighbour}.driver"))
        for _ in range(120):
            driver = _store(cluster, neighbour, driver)
        found = cluster.last_decision(sink(options))
    assert found is not None and found.batch == BatchName("query", 0)
    assert found.stage is DecisionStage.DONE


def test_an_open_transaction_of_another_sink_hides_nothing(options: SinkOptions) -> None:
    with options.connect() as admin:
        cluster = ClientCluster(admin, options)
        neighbour = _neighbour(sink(options))
        driver = Driver(cluster.take_over(f"{neighbour}.driver"))
        decision = nothing_decided(neighbour, driver.producer)
        assert cluster.append_decision(f"{neighbour}.driver", driver, decision) is None
        commit(options, 0, write(options, plan(options), 0, rows(1)))
        assert plan(options).carried.last is not None
        assert cluster.last_decision(neighbour) is None, "it is not committed"
        cluster.end([End(f"{neighbour}.driver", driver.producer, False)])
    settle(options, sink(options))


def _neighbour(name: str) -> str:
    """Another sink in the same partition."""
    names = (f"neighbour-{each}" for each in range(1_000))
    return next(each for each in names if partition_of(each) == partition_of(name))


def _store(cluster: ClientCluster, name: str, driver: Driver) -> Driver:
    decision = nothing_decided(name, driver.producer)
    assert cluster.append_decision(f"{name}.driver", driver, decision) is None
    (ended,) = cluster.end([End(f"{name}.driver", driver.producer, True)])
    assert isinstance(ended, Ended)
    return driver.after(ended.producer)


def test_the_topic_of_decisions_is_compacted_and_in_small_segments(options: SinkOptions) -> None:
    plan(options)
    with options.connect() as admin:
        resource = Resource(ResourceType.TOPIC, TOPIC)
        found = admin.describe_configs([resource])[resource]
    assert isinstance(found, list)
    values = {each.name: each.value for each in found}
    assert values["cleanup.policy"] == "compact"
    assert values["segment.bytes"] == "1048576"


def test_sinks_are_found_by_their_names(options: SinkOptions) -> None:
    plan(options)
    assert sink(options) in known_sinks(options)


# ---- the facts that the simulation stands on


def test_ends_answer_as_the_simulation_says(options: SinkOptions) -> None:
    planned = plan(options)
    (report,) = write(options, planned, 0, rows(1))
    assert report.transaction is not None
    name, producer = report.transaction.transactional_id, report.transaction.producer
    with options.connect() as admin:
        cluster = ClientCluster(admin, options)
        for _ in range(2):
            (ended,) = cluster.end([End(name, producer, True)])
            assert isinstance(ended, Ended), "the same end again"
        (contrary,) = cluster.end([End(name, producer, False)])
        assert contrary == Gone("INVALID_TXN_STATE")
        other = producer._replace(end_version=4 if producer.end_version == 5 else 5)
        (in_another_version,) = cluster.end([End(name, other, True)])
        assert isinstance(in_another_version, Gone)
        init_producer_id(admin.routes, name)
        (fenced,) = cluster.end([End(name, producer, True)])
        assert fenced == Gone("PRODUCER_FENCED")
        (unknown,) = cluster.end([End("nobody", producer, True)])
        assert unknown == Gone("INVALID_PRODUCER_ID_MAPPING")
        fresh = cluster.take_over(name)
        (empty,) = cluster.end([End(name, fresh, True)])
        assert empty == Gone("INVALID_TXN_STATE")


def test_a_fenced_driver_stores_nothing(options: SinkOptions) -> None:
    with options.connect() as admin:
        cluster = ClientCluster(admin, options)
        name = f"{sink(options)}.driver"
        older = Driver(cluster.take_over(name))
        cluster.last_decision(sink(options))  # as planning does: the first look creates the topic
        cluster.take_over(name)
        decision = nothing_decided(sink(options), older.producer)
        assert isinstance(cluster.append_decision(name, older, decision), Gone)
        assert cluster.last_decision(sink(options)) is None


def test_a_forked_worker_has_another_name() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, _worker(os.getpid()).token.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100).decode() != _worker(os.getpid()).token
    os.close(reading)
    os.close(writing)


def test_an_end_for_another_producer_ends_nothing(options: SinkOptions) -> None:
    (report,) = write(options, plan(options), 0, rows(1))
    assert report.transaction is not None
    producer = report.transaction.producer
    stale = SinkProducer(producer.producer_id, producer.epoch - 1, producer.end_version)
    with options.connect() as admin:
        cluster = ClientCluster(admin, options)
        (answer,) = cluster.end([End(report.transaction.transactional_id, stale, False)])
        assert isinstance(answer, Gone)
        assert len(cluster.open_transactions(sink(options))) == 1
        end_transaction(
            admin.routes,
            report.transaction.transactional_id,
            producer.producer_id,
            producer.epoch,
            False,
            producer.end_version,
        )
