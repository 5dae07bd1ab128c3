"""Message-level simulation of the metadata quorum: machines, their disks, and a network of faults.

`simulate(seed)` runs one seed: some voters and an observer live through crashes, partitions and
slow disks while the leader appends records. Invariants are checked at the events that can break
them. Then all faults heal, and the quorum has to agree within bounded virtual time.
"""
