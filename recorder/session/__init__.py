"""The recording of one process: its position, rows, budget and patches."""
