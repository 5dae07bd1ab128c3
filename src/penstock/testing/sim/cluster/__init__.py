"""Whole clusters of the real node in one process, by a seed.

sim_cluster.py  SimCluster, SimNode: nodes with their disks, one life after the other
draws.py        the settings of a seed
routing.py      clients that route by Metadata; ledger.py has the answers that they got
actors.py       an admin and readers; producers.py has those that write
deliveries.py   transactions and groups: transactors.py and group_position.py have their clients,
                delivery_client.py the routing of their requests
faults.py       drawn faults, each healed after a while; promises.py limits the deaths
observation.py  observers of the nodes' own code
checker.py      invariants of the quorum and of brokers; partition_checker.py has those of replicas
simulation.py   one seed from its start to its end
"""

from penstock.testing.sim.cluster.sim_cluster import COMBINED, SimCluster, SimNode

__all__ = ["COMBINED", "SimCluster", "SimNode"]
