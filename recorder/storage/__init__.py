"""The run folder on disk: journal, parts, retention, resume. Needs no torch."""
