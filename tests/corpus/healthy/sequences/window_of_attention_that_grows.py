"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Attentive(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.qkv, self.out, self.heads, self.scale = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, None
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.head((x + self.out(y.transpose(1, 2).reshape(b, t, w))).mean(1))


def window_of_attention_that_grows():
    model = Attentive()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for i in range(40):
        x = torch.randn(16, 2 + i // 4, 16)
        opt.zero_grad()
        F.cross_entropy(model(x), x[:, 0].argmax(1) % 3).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    window_of_attention_that_grows()
