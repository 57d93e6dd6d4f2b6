"""Stands in for the library of this name, which the suite does not install: what the scripts here log goes to a file."""  # noqa: N999 — its name

from .writer import SummaryWriter

__all__ = ["SummaryWriter"]
