"""Message-level simulation of replication: leaders, followers and their controller, without I/O.

The machines of replication/ and the fetch sessions of a broker exchange messages over connections
that delay, stall and break. The decisions of the controller are its own functions on an image; one
controller lives through all faults. Nodes are killed, lose power, stop cleanly, pause and are cut
off. Then all faults heal, and every in-sync set has to be whole within bounded virtual time.
"""
