"""What clients and nodes share about identity: who a peer is, and what proves it. No I/O."""
