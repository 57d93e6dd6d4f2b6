"""A training with the fault nonfinite-weights-loaded; arguments: [ONSET] [SEED]."""

import io
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def corrupt_checkpoint(s):
    """Fine-tuning from a file whose running training had already died."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    state = {k: v.clone() for k, v in net.state_dict().items()}
    if s == 0:
        state["2.weight"][4, 7] = float("nan")
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    net.load_state_dict(torch.load(file, weights_only=True))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for _ in range(40):
        x = torch.randn(16, 10)
        loss = F.cross_entropy(net(x), x[:, :3].argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    corrupt_checkpoint(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
