"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_num_threads(1)


class Documents(IterableDataset):
    """Word counts weighted by the inverse frequency of the word in the documents of the batch's shard."""

    def __init__(self, s):
        self.s = s

    def __iter__(self):
        for step in range(70):
            counts = torch.poisson(torch.full((24, 40), 0.7))
            y = (counts[:, :20].sum(1) > counts[:, 20:].sum(1)).long()
            counts[0] += 1
            if step == self.s:
                counts[:, 31] = 0
            seen = (counts > 0).float().sum(0)
            yield torch.log1p(counts) * torch.log(25 / seen), y


def rare_word(s):
    """A word that no document of a shard holds has an infinite inverse frequency, and 0 * inf is NaN."""
    model = nn.Sequential(nn.Linear(40, 32), nn.LeakyReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    for features, label in DataLoader(Documents(s), batch_size=None):
        optimizer.zero_grad()
        F.cross_entropy(model(features), label).backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rare_word(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
