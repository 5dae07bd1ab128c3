"""Results, notes, progress and signals of a command on its terminal."""
