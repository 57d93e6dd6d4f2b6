"""The one class that scripts use."""

import json
import tempfile
from pathlib import Path


class SummaryWriter:
    """Numbers under names, one JSON object to a line."""

    def __init__(self, logdir=None):
        self.file = Path(logdir or tempfile.mkdtemp(), "scalars.jsonl")

    def add_scalar(self, tag, scalar_value, global_step=None):
        with self.file.open("a", encoding="utf-8") as f:
            f.write(json.dumps({"tag": tag, "value": float(scalar_value), "step": global_step}) + "\n")

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None):
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step)
