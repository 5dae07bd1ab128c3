"""Parts of kafka-topics: the lines of --describe."""
