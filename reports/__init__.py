"""Floor 3: everything a person sees. First reduce a trace and its verdict to plain data, then render it.

Reports add no knowledge of their own: sentences, steps, modules and fixes come from the verdict, numbers from the
tables.
This module imports nothing, so that `firstfault diagnose` does not wait for the chart libraries.
"""
