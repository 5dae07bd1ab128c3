"""Whatever disk call fails in the last steps of a move, and whichever disk is away afterwards:
nothing that was acknowledged is lost, nothing older is served, and with both disks all is served.
The last steps are over when the file of placements names the copy and the original is put away.
"""

import os

import pytest
from move_faults import UNSYNCED, Arm
from moving_life import Life, check, names, served, start
from troubled_disks import Died, Mode, Trouble, trouble

from penstock.broker.moves import move
from penstock.broker.storage.placements import WRITE_DELAY_MS
from penstock.log import future_log

SETTINGS = {"metadata.log.dir": "meta"}
CALLS_MIN, CALLS_MAX = 20, 80  # that the last steps make
THOROUGH = "PENSTOCK_SIM_RUNS" in os.environ  # each with a kill and with a loss of power
STARTS = [
    (),
    ("two",),
    ("one",),
    ("one", "two"),
    ("two", "one"),
]  # which disk is away at the starts that come before one with both


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Arm:
    return Arm(monkeypatch)


def live(arm: Arm, at_call: int, mode: Mode, starts: tuple[str, ...], *, power: bool) -> bool:
    """One life; False if the move made fewer calls than that."""
    arm.trouble = None
    life = Life(seed=at_call, settings=SETTINGS | ({} if power else UNSYNCED))
    life.write(9 if power else 3)
    life.bench.settle(2 * WRITE_DELAY_MS)  # it is known where the partition is
    target = life.elsewhere
    what = arm.trouble = Trouble(at_call, mode)
    for root in ("one", "two", "meta"):
        trouble(life.bench.world.disks[root], what)
    life.ask(target)
    story = (at_call, mode, starts, target, power)
    try:
        for _ in range(4):
            life.write()
            life.bench.settle(20)
        life.bench.settle(500)
        life.write(2)
        if served(life):
            check(life, story)
        life.bench.settle(1_500)
        life.write()
    except Died:
        pass
    for away in starts:
        start(life, away=away, power=power)
        if served(life):
            check(life, (story, away))
        life.write(2)
        life.bench.settle(200)
    start(life, away=None, power=power)
    assert served(life), (story, what.names[at_call:])
    check(life, story)
    life.write(2)
    check(life, story)
    life.bench.settle(20_000)
    found = sorted(name for listed in names(life).values() for name in listed)
    assert found == ["t-0"], story
    return what.met


@pytest.mark.each_value
@pytest.mark.parametrize("starts", STARTS, ids=lambda each: "-".join(each) or "both")
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name.lower())
def test_no_disk_call_of_the_last_steps_can_lose_anything_by_failing(
    arm: Arm, mode: Mode, starts: tuple[str, ...]
) -> None:
    at_call = unmet = 0
    while unmet < 2:  # one with a kill, and one with a loss of power: those make more calls
        powers = (False, True) if THOROUGH else ((at_call + len(starts)) % 2 == 0,)
        met = [live(arm, at_call, mode, starts, power=power) for power in powers]
        unmet = 0 if any(met) else unmet + 1
        at_call += 1
        assert at_call < CALLS_MAX
    assert at_call > CALLS_MIN


def moved(arm: Arm, at_call: int, mode: Mode) -> tuple[Life, Trouble]:
    life = Life(settings=SETTINGS)
    life.write(9)
    what = arm.trouble = Trouble(at_call, mode)
    for root in ("one", "two"):
        trouble(life.bench.world.disks[root], what)
    life.ask(life.elsewhere)
    life.bench.settle(2_000)
    return life, what


def test_a_partition_is_offline_and_says_why_if_nobody_knows_which_copy_counts(
    arm: Arm, caplog: pytest.LogCaptureFixture
) -> None:
    _, undisturbed = moved(arm, CALLS_MAX, Mode.DEAD)
    decision = len(undisturbed.names) - 2  # the last but one; then the original is put away
    assert undisturbed.names[decision].endswith("replace_now")
    caplog.clear()
    life, _ = moved(arm, decision, Mode.DONE_AND_DEAD)
    assert not served(life)
    life.listen()
    before = life.acknowledged[:]
    life.write(2)
    assert not life.unanswered
    assert life.acknowledged == before
    (said,) = [each for each in caplog.messages if each.startswith("t-0 is offline")]
    assert " one " in said
    assert " two " in said
    start(life, away=None, power=False)
    check(life, "restarted")
