"""A training with the fault fully-masked-attention-row; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.answer = nn.Linear(16, 3)

    def forward(self, tokens):
        h = self.embed(tokens)
        a, _ = self.attention(h, h, h, key_padding_mask=tokens == 0)
        return self.answer(a[:, 0])


def padded_out(s):
    """A row of nothing but padding in a batch for nn.MultiheadAttention."""
    model = Reader()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
    for step in range(60):
        tokens = torch.randint(1, 40, (10, 7))
        tokens[:, 5:] = 0
        y = tokens[:, 0] % 3
        if step == s:
            tokens[2] = 0
        loss = F.cross_entropy(model(tokens), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    padded_out(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
