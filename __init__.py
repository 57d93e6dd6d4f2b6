"""firstfault: an offline trace recorder and analyzer for PyTorch training.

This module imports nothing, so that a training process pays only for the recorder and an analysis needs no torch.
Use ``from firstfault.recorder import Recorder`` to record, ``from firstfault.analyzer import Trace, diagnose`` to read,
``%load_ext firstfault`` in a notebook.
"""

__version__ = "0.1.0"


def load_ipython_extension(shell):  # type: ignore[no-untyped-def]  # of a class that only IPython has
    """Add %%record and %report to an IPython shell; IPython calls this for ``%load_ext firstfault``."""
    from importlib import import_module  # noqa: PLC0415 — see above: this module imports nothing

    shell.register_magics(import_module(".notebook", __name__).FirstfaultMagics)
