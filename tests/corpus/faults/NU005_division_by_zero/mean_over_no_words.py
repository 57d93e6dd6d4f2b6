"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

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


def words(n=700, classes=4):
    ids = torch.randint(4, 40, (n, 12))
    y = torch.randint(classes, (n,))
    ids[torch.arange(n), torch.randint(12, (n,))] = y
    return ids, y


def mean_over_no_words(s):
    """A masked mean divides by the number of words, and one review has none."""

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(40, 24)
            self.norm = nn.LayerNorm(24)
            self.out = nn.Linear(24, 4)

        def forward(self, ids, mask):
            h = (self.embed(ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            return self.out(self.norm(h))

    ids, y = words()
    model = Bag()
    opt = optim.AdamW(model.parameters(), lr=5e-3)
    for step, (a, b) in zip(range(100), loader(ids, y), strict=False):
        mask = (torch.rand(a.shape) > 0.2).float()
        mask[:, 0] = 1
        if step == s:
            mask[3] = 0
        learn(model, opt, F.cross_entropy(model(a, mask), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    mean_over_no_words(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
