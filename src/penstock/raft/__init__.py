"""The metadata quorum: one log that all controllers agree on. For now a quorum of one."""
