"""The identity of peers and its proofs, for clients and nodes. No I/O."""
