"""The parent process of `firstfault run`. Needs no torch."""
