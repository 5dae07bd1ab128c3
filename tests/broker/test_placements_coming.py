"""What is about to be made is named on disk before it is, and until the file of placements does."""

from penstock.broker.storage.placements import (
    COMING,
    PLACEMENTS,
    WRITE_DELAY_MS,
    Placements,
    TopicIdPartition,
    format_placements,
    parse_placements,
)
from penstock.testing.sim.disk import SimDisk
from penstock.testing.sim.world import Simulation, SimWorld

PATHS = {bytes([9]) * 16: "data"}
FIRST, SECOND = (bytes([1]) * 16, 0), (bytes([2]) * 16, 3)


class Noted:
    """Placements on a disk whose work is done when the test says so."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk()
        self.simulation = Simulation(1)
        world = SimWorld(self.simulation)
        self.content = format_placements([], {}, {}, {}, 0)
        self.placements = Placements(self.disk, world.clock, world.timers, lambda: self.content)
        self.placements.begin()
        self.placements.load()
        self.announced: list[bool] = []

    def announce(self, place: TopicIdPartition, name: str, metadata_offset: int) -> None:
        def done() -> None:
            self.announced.append(True)

        self.placements.announce({place: name}, PATHS, metadata_offset, done)

    def write(self) -> None:
        self.simulation.run_for(WRITE_DELAY_MS + 1)
        self.disk.run_callbacks()

    def coming(self) -> list[TopicIdPartition]:
        data = self.disk.files().get(COMING)
        return [] if data is None else list(parse_placements(data).placed)


def test_whoever_announces_hears_of_it_when_it_is_on_the_disk() -> None:
    noted = Noted()
    noted.announce(FIRST, "t", 5)
    assert (noted.announced, noted.coming()) == ([], [])
    noted.disk.run_callbacks()
    assert (noted.announced, noted.coming()) == ([True], [FIRST])


def test_what_was_announced_was_here_unless_the_metadata_is_from_before_it() -> None:
    noted = Noted()
    noted.announce(FIRST, "t", 5)
    noted.disk.run_callbacks()
    again = Noted(noted.disk).placements
    assert again.ids_of("t", 0, *PATHS) == [FIRST[0]]
    assert again.outlived(FIRST, 5)
    assert not again.outlived(FIRST, 4)
    assert not again.outlived(SECOND, 5)
    assert not again.before, "it may never have been made"


def test_it_is_named_until_the_file_of_placements_was_written_after_it_arrived() -> None:
    noted = Noted()
    noted.announce(FIRST, "t", 5)
    noted.announce(SECOND, "u", 6)
    noted.disk.run_callbacks()
    noted.placements.arrived(FIRST)
    noted.content = format_placements([], {}, {}, {}, 1)
    noted.write()
    assert PLACEMENTS in noted.disk.files()
    assert noted.coming() == [FIRST, SECOND]  # it is not written again for what goes
    noted.announce(SECOND, "u", 6)
    noted.disk.run_callbacks()
    assert noted.coming() == [SECOND]
    noted.placements.arrived(SECOND)
    noted.write()
    assert noted.coming() == []


def test_what_arrives_while_the_file_is_written_waits_for_the_next_time() -> None:
    noted = Noted()
    noted.announce(FIRST, "t", 5)
    noted.disk.run_callbacks()
    noted.placements.changed()
    noted.simulation.run_for(WRITE_DELAY_MS + 1)  # it is being written
    noted.placements.arrived(FIRST)
    noted.disk.run_callbacks()
    assert noted.coming() == [FIRST]
    noted.write()
    assert noted.coming() == []


def test_an_announcement_outlives_a_start_that_could_not_look_everywhere() -> None:
    noted = Noted()
    noted.announce(FIRST, "t", 5)
    noted.disk.run_callbacks()
    second = Noted(noted.disk)
    second.announce(SECOND, "u", 9)
    second.disk.run_callbacks()
    third = Noted(noted.disk)
    assert third.placements.outlived(FIRST, 9)
    third.placements.all_seen()
    third.write()
    assert third.coming() == []


def test_on_a_full_disk_partitions_are_made_all_the_same() -> None:
    noted = Noted()
    noted.disk.fail_write(0, full=True)
    noted.announce(FIRST, "t", 5)
    noted.disk.run_callbacks()
    assert noted.announced == [True]
