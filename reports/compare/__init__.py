"""The page about two runs."""
