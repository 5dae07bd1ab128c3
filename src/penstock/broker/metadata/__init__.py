"""Cluster metadata as clients and coordinators see it."""
