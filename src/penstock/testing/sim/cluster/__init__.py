"""Whole clusters of the real node in one process, by a seed.

sim_cluster.py  SimCluster, SimNode: nodes with their disks, one life after the other
draws.py        the settings of a seed
routing.py      clients that route by Metadata; ledger.py has the answers that they got
actors.py       an admin, producers, readers
faults.py       drawn faults, each healed after a while
observation.py  observers of the nodes' own code; checker.py has the invariants
simulation.py   one seed from its start to its end
"""

from penstock.testing.sim.cluster.sim_cluster import COMBINED, SimCluster, SimNode

__all__ = ["COMBINED", "SimCluster", "SimNode"]
