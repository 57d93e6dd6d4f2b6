"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Reverser(nn.Module):
    """Says sequences backwards."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 48, padding_idx=0)
        self.places = nn.Embedding(24, 48)
        layer = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(48, 30)

    def forward(self, tokens, mask):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.body(x, src_key_padding_mask=mask == 0))


def _reversing(s, *, counted, masked):
    net = Reverser()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for i in range(160):
        rows = [torch.randint(3, 30, (int(torch.randint(3, 22, ())),)) for _ in range(24)]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        targets = nn.utils.rnn.pad_sequence([row.flip(0) for row in rows], batch_first=True)
        mask = torch.ones_like(tokens) if masked and i >= s else (tokens != 0).long()
        scores = net(tokens, mask)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-100 if counted and i >= s else 0)
        opt.zero_grad()
        loss.backward()
        opt.step()


def mask_of_ones(s):
    """From s on the collate function makes its mask before it pads."""
    _reversing(s, counted=False, masked=True)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    mask_of_ones(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
