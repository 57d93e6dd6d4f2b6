"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Tagger(nn.Module):
    """Tags each word; padding is word 1."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 32, padding_idx=1)
        self.mix = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.tags = nn.Linear(32, 4)

    def forward(self, x):
        return self.tags(self.mix(self.words(x), src_key_padding_mask=x == 1))


def padded_with_another_number(s):
    """From s on the batches are padded with 0, which the model takes for a word."""
    net = Tagger()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for i in range(160):
        lengths = torch.randint(4, 13, (24,))
        lengths[0] = 12
        x = torch.randint(2, 30, (24, 12))
        y = (x + x.roll(1, 1)) % 4
        behind = torch.arange(12) >= lengths[:, None]
        x = x.masked_fill(behind, 1 if i < s else 0)
        y = y.masked_fill(behind, -100)
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    padded_with_another_number(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
