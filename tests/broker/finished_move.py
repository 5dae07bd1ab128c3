"""A move between two log directories that ends right before the node dies."""

from moving_life import Life, arrived

from penstock.broker.storage.placements import WRITE_DELAY_MS
from penstock.testing.sim.world import WorldDisk

SETTINGS = {"metadata.log.dir": "meta"}


def finished_at_start() -> tuple[Life, str, str, dict[str, WorldDisk]]:
    """Return a life killed after its move, its source and target, and the next start's disks."""
    life = Life(settings=SETTINGS | {"log.durability": "page-cache"})
    life.write(5)
    life.bench.settle(2 * WRITE_DELAY_MS)
    source, target = life.place, life.elsewhere
    life.ask(target)
    arrived(life, target)
    life.write(2)
    life.bench.world.kill()
    return life, source, target, life.bench.world.disks_after_kill()
