"""Comparing runs: names paired, bodies laid against each other, durations tested."""
