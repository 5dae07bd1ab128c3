"""The operating system behind world.py: the only room that reads clocks, files and sockets."""
