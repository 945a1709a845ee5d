"""Text for people: durations, YAML, passwords in addresses, and output on a terminal."""
