"""A training with the fault batch-axis-as-sequence; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Fields(nn.Module):
    """Attention between the fields of a row, and a head over all of them."""

    def __init__(self, batch_first):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(5 * 16, 2)

    def forward(self, rows):
        return self.head(self.encoder(self.embedding(rows)).flatten(1))


def samples_first_for_an_encoder(s):
    """An encoder that wants the sequence first is given the samples first: rows of a batch attend to each other."""
    rows = torch.randint(0, 6, (192, 5))
    labels = (rows[:, 0] == rows[:, 1]).long()
    net = Fields(batch_first=s != 0)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(rows + torch.arange(5) * 6, labels), 16, shuffle=True)
    for _epoch in range(4):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    samples_first_for_an_encoder(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
