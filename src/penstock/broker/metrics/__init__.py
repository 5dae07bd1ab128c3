"""What this broker shows of itself: the table of metrics, health, and the port that serves them."""
