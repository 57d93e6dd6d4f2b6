"""The files of a run folder that are no tables: where they lie, how each is written and read."""
