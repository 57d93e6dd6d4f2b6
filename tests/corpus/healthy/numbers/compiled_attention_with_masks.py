"""A healthy training that looks odd."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class MaskedAttention(nn.Module):
    """Attention over the features that a causal mask of -inf leaves, with dropout."""

    def __init__(self):
        super().__init__()
        self.lift, self.q, self.k = nn.Linear(1, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm, self.drop, self.head = nn.LayerNorm(8), nn.Dropout(0.1), nn.Linear(8, 4)
        self.register_buffer("mask", torch.full((16, 16), -torch.inf).triu(1))

    def forward(self, x):
        h = torch.relu(self.lift(x[..., None]))
        scores = self.q(h) @ self.k(h).transpose(-1, -2) + self.mask
        scores = scores.masked_fill(x[:, None, :] > 3, -torch.inf).masked_fill(torch.eye(16, dtype=torch.bool), 0.0)
        return self.head(self.drop(self.norm(scores.softmax(-1) @ h)).mean(1))


def compiled_attention_with_masks():
    x, y = blobs()
    model = MaskedAttention()
    compiled = torch.compile(model, backend="aot_eager")
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(compiled(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    compiled_attention_with_masks()
