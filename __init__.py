"""firstfault: an offline trace recorder and analyzer for PyTorch training.

This module imports nothing, so that a training process pays only for the recorder and an analysis needs no torch.
Use ``from firstfault.recorder import Recorder`` to record, ``from firstfault.analyzer import Trace, diagnose`` to read.
"""

__version__ = "0.1.0"
