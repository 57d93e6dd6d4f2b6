"""The parts of a page, each reduced from a trace or a verdict to plain data."""
