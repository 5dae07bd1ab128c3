"""Record batches to Arrow columns and back, many rows at a time.

Compiled with numba if installed, else plain Python on pyarrow; both give the same rows and the same
batches. Made for pipelines and tools: no node needs this room to start.
"""
