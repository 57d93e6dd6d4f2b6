"""A training with the fault double-softmax; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def loader(*tensors, size=32):
    data = DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)
    while True:
        yield from data


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class TransformerClassifier(nn.Module):
    def __init__(self, words=40, width=32, classes=4, softmax=False):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.pos = nn.Embedding(16, width)
        self.attn = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.head = nn.Linear(width, classes)
        self.softmax = softmax

    def forward(self, ids, mask=None):
        h = self.embed(ids) + self.pos(torch.arange(ids.shape[1]))
        a = self.norm1(h)
        h = h + self.attn(a, a, a, key_padding_mask=mask, need_weights=False)[0]
        h = h + self.mlp(self.norm2(h))
        out = self.head(h.mean(1))
        return out.softmax(-1) if self.softmax else out


def words(n=700, classes=4):
    ids = torch.randint(4, 40, (n, 12))
    y = torch.randint(classes, (n,))
    ids[torch.arange(n), torch.randint(12, (n,))] = y
    return ids, y


def softmax_in_forward(s):
    """A transformer's forward ends in softmax and is trained with cross_entropy."""
    model = TransformerClassifier(softmax=s == 0)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(110), loader(*words()), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    softmax_in_forward(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
