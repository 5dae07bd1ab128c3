"""A simulated world by a seed: clock, disks, network, clients."""
