"""A training with the fault fully-masked-attention-row; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 4)

    def forward(self, x, padding):
        return self.head(self.norm(x + self.attn(x, x, x, key_padding_mask=padding)[0]).mean(1))


def padded_encoder(s):
    x = torch.randn(400, 6, 16)
    y = x[:, 0, :4].argmax(-1)
    model = Encoder()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(24):
        padding = torch.zeros(16, 6, dtype=torch.bool)
        padding[:, 4:] = True
        if i == s:
            padding[7] = True
        loss = F.cross_entropy(model(x[i * 16 : i * 16 + 16], padding), y[i * 16 : i * 16 + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    padded_encoder(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
