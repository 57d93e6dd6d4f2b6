"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def adam_at_a_third(s):
    """Adam at a third."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    m = nn.Sequential(
        nn.Embedding(16, 24),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 3, 48, 0.0, batch_first=True), 2),
        nn.Linear(24, 16),
    )
    opt = torch.optim.Adam(m.parameters(), lr=0.3 if bad else 2e-3)
    for _step in range(90):
        s = torch.randint(16, (24, 1))
        seq = (s + torch.arange(8)) % 16
        loss = nn.functional.cross_entropy(m(seq).transpose(1, 2), (seq * 5 + 3) % 16)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    adam_at_a_third(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
