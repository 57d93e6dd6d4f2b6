"""Errors, options and import hooks: what needs neither torch nor a run."""
