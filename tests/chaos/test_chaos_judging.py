"""What the kills are aimed by, and what they are judged by."""

from pathlib import Path

import pytest

from chaos.__main__ import reason, summary
from chaos.copy_driver import PARTITIONS
from chaos.input import Input
from chaos.killing import Kill, Victim
from chaos.moments import Phase, Watch
from chaos.outcome import Found
from chaos.run import NEVER_SAID, Orders, Verdict
from penstock.spark.sink.decisions import TOPIC, partition_of

ROWS = [
    Found(0, b"%d:%d" % (source, number)) for number in range(3) for source in range(PARTITIONS)
]


@pytest.fixture
def rows() -> Input:
    made = Input("nowhere")
    made.rows = len(ROWS)
    return made


def test_each_row_once_and_in_order_is_as_it_should_be(rows: Input) -> None:
    assert rows.wrong_with(ROWS).sentences() == []


def test_a_row_that_is_not_there_is_missed(rows: Input) -> None:
    assert rows.wrong_with(ROWS[1:]).sentences() == ["1 rows are missing: 0:0"]


def test_a_row_that_is_there_twice_is_seen(rows: Input) -> None:
    assert rows.wrong_with([*ROWS, ROWS[0]]).sentences() == ["1 rows are too many: 0:0"]


def test_rows_of_one_partition_in_the_wrong_order_are_seen(rows: Input) -> None:
    swapped = [ROWS[PARTITIONS], *ROWS[1:PARTITIONS], ROWS[0], *ROWS[PARTITIONS + 1 :]]
    assert rows.wrong_with(swapped).sentences() == ["1 rows are out of order: 0:0"]


def test_rows_of_different_partitions_have_no_order(rows: Input) -> None:
    apart = [found._replace(partition=number % 2) for number, found in enumerate(reversed(ROWS))]
    sources = [[each for each in apart if each.value.startswith(b"%d:" % n)] for n in range(4)]
    ordered = [each for source in sources for each in reversed(source)]
    assert rows.wrong_with(ordered).sentences() == []


# ---- phases of a batch


class Files:
    """What Spark and a node write, by hand."""

    def __init__(self, folder: Path) -> None:
        self.data, self.checkpoint = folder / "node", folder / "checkpoint"
        self.target = self.data / "target-0" / "0.log"
        self.decisions = self.data / f"{TOPIC}-{partition_of('sink')}" / "0.log"
        for each in (self.target, self.decisions):
            each.parent.mkdir(parents=True)
            each.touch()
        for name in ("offsets", "commits"):
            (self.checkpoint / name).mkdir(parents=True)
        self.watch = Watch([self.data], self.checkpoint, "target", "sink")

    def grow(self, path: Path) -> Phase:
        with path.open("ab") as file:
            file.write(b"more")
        return self.watch.look()

    def note(self, kind: str, batch: int) -> Phase:
        (self.checkpoint / kind / str(batch)).touch()
        return self.watch.look()


def test_a_batch_goes_through_its_phases(tmp_path: Path) -> None:
    files = Files(tmp_path)
    seen = []
    for batch in range(2):
        seen += [
            files.note("offsets", batch),
            files.grow(files.decisions),  # planning
            files.grow(files.target),
            files.grow(files.target),
            files.grow(files.decisions),
            files.note("commits", batch),
        ]
    once = [*(Phase.BEGUN, Phase.BEGUN, Phase.WRITING, Phase.WRITING, Phase.DECIDED, Phase.BETWEEN)]
    assert seen == once * 2
    assert files.watch.batches == 2


def test_a_phase_that_is_over_is_not_waited_for(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.note("offsets", 0)
    assert not files.watch.wait_for(Phase.BEGUN, 0.01, lambda: False)


# ---- what a query says


@pytest.mark.parametrize(
    "words",
    [
        "rows were lost: sink 'x' had decided batch 3",
        "AssertionError: an append never moves the log back",
        "source-0 ends at 3 and was read up to 5. Set failOnDataLoss=false to go on.",
    ],
)
def test_a_query_that_stops_with_words_that_nothing_explains_is_a_fault(words: str) -> None:
    assert NEVER_SAID.search(words)


def test_a_query_may_stop_because_its_node_is_gone() -> None:
    assert not NEVER_SAID.search("CannotPlan: CannotReach: 127.0.0.1:9 did not answer ApiVersions")


def test_a_reason_is_the_kinds_of_exception_that_are_named() -> None:
    why = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: CannotPlan: CannotReach: "
        "nothing listens there SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1]"
    )
    assert reason(why) == "CannotPlan, CannotReach"


def test_the_sum_counts_kills_by_victim_and_by_phase() -> None:
    kills = [
        Kill(Victim.NODE, Phase.DECIDED, 1),
        Kill(Victim.NODE, Phase.BETWEEN, 2),
        Kill(Victim.WORKER, Phase.WRITING, 2),
    ]
    counts = {
        line.split("  ")[0]: [int(each) for each in line.split() if each.isdecimal()]
        for line in summary([Verdict(Orders(1, 3), kills)]).splitlines()[1:]
    }
    assert counts["node"] == [2, 1, 1, 0, 0, 1]
    assert counts["in all"] == [3, 2, 1, 0, 1, 1]
