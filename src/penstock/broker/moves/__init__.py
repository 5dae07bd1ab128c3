"""Moves of partitions between log directories (AlterReplicaLogDirs)."""
