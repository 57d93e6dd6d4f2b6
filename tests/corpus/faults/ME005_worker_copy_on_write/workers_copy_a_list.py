"""A training with the fault worker-copy-on-write; arguments: [ONSET] [SEED]."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    """Documents as Python strings in one list: every look at one writes its reference count."""

    def __init__(self, words, documents):
        self.words = [str(i) * 12 for i in range(words)]
        self.each = words // documents
        self.documents = documents

    def __len__(self):
        return self.documents

    def __getitem__(self, i):
        lengths = [len(w) for w in self.words[i * self.each : (i + 1) * self.each]]
        return torch.tensor(lengths[:32], dtype=torch.float32) / 80


def workers_copy_a_list(s):
    del s
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters())
    loader = DataLoader(Words(2_000_000, 480), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    for _ in range(2):
        for x in loader:
            opt.zero_grad()
            (model(x) - x.mean(1, keepdim=True)).square().mean().backward()
            opt.step()
            time.sleep(0.15)  # as long as a larger model takes


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    workers_copy_a_list(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
