"""A training with the fault fp16-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 32)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        h = F.softplus(self.proj(x)) * 4
        total = h.sum(1)
        return self.out(self.norm(total))


def long_sequence_in_half(s):
    """Sum over a sequence in half precision; a bucket of long sequences makes the sum too large."""
    model = Counter()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(50):
        length = 20000 if step == s else 64
        x = torch.rand(4, length, 4) * 2
        y = x.mean((1, 2)).unsqueeze(1)
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x.half())
        loss = F.mse_loss(out.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    long_sequence_in_half(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
