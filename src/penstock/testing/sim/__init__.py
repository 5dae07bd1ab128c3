"""The world by a seed: a disk that can lose power, for now."""
