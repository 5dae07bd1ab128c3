"""Every step of the sink's protocol is interrupted once, in every way, and judged.

Before and after each request a driver or a task is killed, or held up while another driver does
all of the work, while somebody recovers the sink, or while a copy of the task runs to its end.
"""

from collections.abc import Callable, Iterator

import pytest
from sink_network import Killed
from sink_spark import QueryRun, TaskRun
from sink_world import FINE, ROWS, Climate, World

from penstock.spark.sink.decisions import JOB

Action = Callable[["Interrupted"], None]
STEPS_MAX = 200


class Interrupted(World):
    """A quiet life, until the n-th request of a process."""

    def __init__(
        self, climate: Climate, process: str, number: int, action: Action, seed: int = 7
    ) -> None:
        super().__init__(seed, climate)
        self.weather = FINE
        self.source_end = ROWS
        self._process = process
        self._left = number
        self._action = action

    def before_request(self, process: str) -> None:
        super().before_request(process)
        self._count(process)

    def after_request(self, process: str) -> None:
        super().after_request(process)
        self._count(process)

    def _count(self, process: str) -> None:
        if process == self._process:
            self._left -= 1
            if self._left == 0:
                self._action(self)

    @property
    def happened(self) -> bool:
        return self._left <= 0

    def again(self, number: int) -> None:
        """The same once more, so many requests from now."""
        self._left = number


def kill(world: Interrupted) -> None:
    del world
    raise Killed


def another_driver(world: Interrupted) -> None:
    """The one that was held up goes on afterwards, and knows nothing."""
    other = QueryRun(world, world.checkpoint)
    world.queries.append(other)
    world.run_alone(other)


def recovery(world: Interrupted) -> None:
    world.recover()


def copy_of_the_task(world: Interrupted) -> None:
    task = next(each for each in reversed(world.tasks) if each in world._acting)
    copy = TaskRun(world, task.plan, task.batch, task.partition, task.rows)
    world.tasks.append(copy)
    while not copy.over:
        world._step(copy)


def older_driver_commits(world: Interrupted) -> None:
    """Another driver begins, gets as far as it can without this task, and is held up itself."""
    other = QueryRun(world, world.checkpoint)
    world.queries.append(other)
    for _ in range(6):
        if not other.over:
            world._step(other)


ACTIONS: dict[str, tuple[str, Action]] = {
    "the driver is killed": ("driver", kill),
    "another driver does the work": ("driver", another_driver),
    "another driver gets half through": ("driver", older_driver_commits),
    "the sink is recovered from outside": ("driver", recovery),
    "a task is killed": ("task", kill),
    "a copy of the task runs": ("task", copy_of_the_task),
    "another driver does the work during a task": ("task", another_driver),
    "the sink is recovered during a task": ("task", recovery),
}


def lives(climate: Climate, process: str, action: Action) -> Iterator[Interrupted]:
    """One life for each place, until there is no such place any more."""
    for number in range(1, STEPS_MAX):
        world = Interrupted(climate, process, number, action)
        world.queries.append(QueryRun(world, world.checkpoint))
        world._run_out()
        if not world.happened:
            return
        yield world
    raise AssertionError("a short life has fewer steps")


@pytest.mark.parametrize("end_version", [4, 5])
@pytest.mark.parametrize("name", ACTIONS)
def test_an_interruption_at_any_step_loses_and_doubles_nothing(name: str, end_version: int) -> None:
    count = 0
    for world in lives(Climate(end_version=end_version), *ACTIONS[name]):
        world.calm()
        world.judge()
        assert world.stopped is None
        count += 1
    assert count > 20, "a life has more steps than that"


@pytest.mark.parametrize("end_version", [4, 5])
def test_a_second_death_at_any_step_of_the_repair_loses_and_doubles_nothing(
    end_version: int,
) -> None:
    count = 0
    for first in range(1, STEPS_MAX):
        for second in range(1, STEPS_MAX):
            world = Interrupted(Climate(end_version=end_version), "driver", first, kill)
            world.checkpoint.offsets.append((0, ROWS))
            world.queries.append(QueryRun(world, world.checkpoint))
            world._run_out()
            if not world.happened:
                assert count > 100
                return
            world.again(second)
            world.queries.append(QueryRun(world, world.checkpoint))
            world._run_out()
            if not world.happened:
                break
            world.calm()
            world.judge()
            count += 1


@pytest.mark.parametrize("end_version", [4, 5])
@pytest.mark.parametrize("process", ["driver", "task"])
def test_a_killed_job_is_there_completely_or_not_at_all_once_it_is_recovered(
    process: str, end_version: int
) -> None:
    sizes = []
    for number in range(1, STEPS_MAX):
        world = Interrupted(Climate(end_version=end_version), process, number, kill)
        world.checkpoint.offsets.append((0, ROWS))
        job = QueryRun(world, world.checkpoint, batch_job=True)
        world.queries.append(job)
        world._run_out()
        if not world.happened:
            break
        world.recover()
        world._run_out()
        assert not world.broker.open()
        sizes.append(len(world.output()))
    assert JOB.of_a_job
    assert set(sizes) == ({0, ROWS} if process == "driver" else {ROWS})


def test_a_copy_that_lost_is_aborted_when_the_batch_is_committed() -> None:
    """No further batch need come: readers would wait for it without end."""
    for world in lives(Climate(), "task", copy_of_the_task):
        assert not world.broker.open()
