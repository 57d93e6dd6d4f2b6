"""Numbers of one tensor. Knows torch, and nothing of a run."""
