"""Generators of committed source files."""
