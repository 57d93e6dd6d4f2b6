"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def sparse_rows_of_a_large_vocabulary():
    """Sparse rows of a large vocabulary."""

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = nn.EmbeddingBag(5000, 16, sparse=True, mode="mean")
            self.fc = nn.Linear(16, 2)

        def forward(self, x):
            return self.fc(self.bag(x))

    net = Words()
    emb, dense = torch.optim.SparseAdam(net.bag.parameters(), lr=0.02), torch.optim.Adam(net.fc.parameters(), lr=5e-3)
    for _ in range(80):
        y = torch.randint(2, (64,))
        zipf = (torch.rand(64, 12) ** 4 * 2400).long()
        x = zipf * 2 + y.unsqueeze(1)
        loss = nn.functional.cross_entropy(net(x), y)
        emb.zero_grad()
        dense.zero_grad()
        loss.backward()
        emb.step()
        dense.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    sparse_rows_of_a_large_vocabulary()
