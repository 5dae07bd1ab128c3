"""A partition with three log directories to move between."""

from moving_life import Life

from penstock.broker.storage.placements import WRITE_DELAY_MS

SETTINGS = {
    "metadata.log.dir": "meta",
    "log.dirs": "one,two,three",
    "log.durability": "page-cache",
}
ROOTS = ("one", "two", "three")


def begun(records: int = 5) -> tuple[Life, str, str, str]:
    """Return a life with written placements, the directory of its partition, and two others."""
    life = Life(settings=SETTINGS)
    life.write(records)
    life.bench.settle(2 * WRITE_DELAY_MS)
    source = life.place
    target, other = (root for root in ROOTS if root != source)
    return life, source, target, other
