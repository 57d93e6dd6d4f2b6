"""A training with the fault axes-mixed; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


class Attention(nn.Module):
    """Self-attention of four heads, put together by hand."""

    def __init__(self, width, wrong):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.wrong = wrong

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, 4, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        made = nn.functional.scaled_dot_product_attention(q, k, v)
        if not self.wrong:
            made = made.transpose(1, 2)
        return x + self.out(made.reshape(batch, length, width))


def heads_joined_where_they_are(s):
    """The heads are joined while they stand before the sequence: each token gets pieces of others."""
    embedding, head = nn.Embedding(11, 32), nn.Linear(32, 11)
    block = Attention(32, s == 0)
    net = nn.Sequential(embedding, block, nn.LayerNorm(32), head)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(40):
        tokens = torch.randint(0, 11, (16, 9))
        loss = nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flip(1).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    heads_joined_where_they_are(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
