"""Tasks that run twice, in Spark itself: one of them counts, whichever comes first or last."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import copied_sink
import late_copy
import pytest
from copied_sink import Copies, When, source_of
from late_copy import wait_for
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from spark_pipeline import Pipeline, texts

from depth import sample

pytest_plugins = ["spark_fixtures"]
pytestmark = pytest.mark.xdist_group("spark")

Produce = Callable[..., None]
TASKS = 2


class Copier:
    """A pipeline whose sink runs tasks twice; `told` is what became of the copies."""

    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        self.pipeline = pipeline
        self.go = folder / "go"
        self._told = folder / "told"
        self._told.mkdir()
        pipeline.tasks = TASKS

    def run(self, when: When, go: Path | None = None, guarantee: str = "exactly-once") -> None:
        copies = Copies(when, str(self._told), str(go or self.go), late_copy.__file__)
        self.pipeline.sink = f"penstock-{when.value.replace(' ', '-')}"
        spark: Any = self.pipeline.spark
        spark.dataSource.register(source_of(self.pipeline.sink, copies))
        # Spark looks for a source in the session that made the last DataFrame: another test's.
        spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        self.pipeline.run(**{"delivery.guarantee": guarantee})

    def told(self) -> list[str]:
        """Of all copies, also those that go on without a query."""
        for order in self._told.glob("*.order"):
            wait_for(order.with_suffix(".told"))
        return [each.read_text() for each in self._told.glob("*.told")]


@pytest.fixture
def copier(pipeline: Pipeline, produce: Produce, tmp_path: Path) -> Copier:
    cloudpickle.register_pickle_by_value(copied_sink)  # type: ignore[no-untyped-call]
    for partition in range(TASKS):
        rows = range(partition * 3, partition * 3 + 3)
        produce(pipeline.source, texts(*rows), partition=partition)
    return Copier(pipeline, tmp_path)


ROWS = list(range(TASKS * 3))


@pytest.mark.parametrize("when", sample([When.DURING, When.BEFORE, When.AFTER], every=3))
def test_a_copy_that_runs_to_its_end_writes_no_row_twice(copier: Copier, when: When) -> None:
    copier.run(when)
    assert copier.told() == ["TaskReport"] * TASKS
    assert copier.pipeline.output() == ROWS


@pytest.mark.deep
def test_at_least_once_a_copy_writes_every_row_twice(copier: Copier) -> None:
    copier.run(When.DURING, guarantee="at-least-once")
    assert len(copier.told()) == TASKS
    assert copier.pipeline.output() == sorted(ROWS * 2)


def test_a_copy_in_another_process_that_begins_after_the_commit_aborts_itself(
    copier: Copier,
) -> None:
    copier.run(When.LATE, copier.pipeline.checkpoint / "commits" / "0")
    assert copier.told() == ["TaskFenced"] * TASKS
    assert copier.pipeline.output() == ROWS


@pytest.mark.deep
def test_a_copy_of_an_older_driver_s_task_writes_nothing_into_the_newer_one_s_batch(
    copier: Copier, produce: Produce
) -> None:
    copier.run(When.LATE)
    more = [100, 101, 102]
    produce(copier.pipeline.source, texts(*more))
    copier.run(When.RELEASE)
    assert copier.told() == ["TaskFenced"] * TASKS
    assert copier.pipeline.output() == ROWS + more


def test_an_older_driver_that_commits_while_the_newer_one_repeats_its_batch_is_refused(
    copier: Copier,
) -> None:
    with pytest.raises(StreamingQueryException, match="this driver does not go on"):
        copier.run(When.LATE_COMMIT)
    copier.run(When.RELEASE)
    assert copier.told() == ["DriverReplaced"]
    assert copier.pipeline.output() == ROWS


@pytest.mark.deep
def test_a_batch_that_the_older_driver_commits_first_is_not_written_by_the_newer_one(
    copier: Copier,
) -> None:
    copier.go.touch()
    with pytest.raises(StreamingQueryException, match="this driver does not go on"):
        copier.run(When.LATE_COMMIT)
    assert copier.told() == ["BatchCommitted"]
    copier.run(When.DURING)
    assert copier.pipeline.output() == ROWS
