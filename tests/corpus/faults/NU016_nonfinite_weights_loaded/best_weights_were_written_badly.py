"""A training with the fault nonfinite-weights-loaded; arguments: [ONSET] [SEED]."""

import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def best_weights_were_written_badly(s):
    """In the middle of the run the best weights are read back, and one of them is NaN."""
    model = nn.Sequential(
        nn.Linear(10, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 4)
    )
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    file = Path(tempfile.mkdtemp()) / "best.pt"
    for i in range(60):
        if i == (s if s < 1000 else 30):
            best = {key: value.clone() for key, value in model.state_dict().items()}
            if s < 1000:
                best["3.weight"][3, 5] = float("nan")
            torch.save(best, file)
            model.load_state_dict(torch.load(file))
        x = torch.randn(64, 10)
        y = torch.bucketize(x[:, 0] + x[:, 1] * x[:, 2], torch.tensor([-0.8, 0.0, 0.8]))
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    best_weights_were_written_badly(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
