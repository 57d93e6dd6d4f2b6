"""A healthy training that looks odd."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Arrays(Dataset):
    """As many numbers as a large corpus has words, in one tensor: workers read it and copy nothing."""

    def __init__(self, numbers, documents):
        self.numbers = torch.arange(numbers, dtype=torch.float64)
        self.each = numbers // documents
        self.documents = documents

    def __len__(self):
        return self.documents

    def __getitem__(self, i):
        block = self.numbers[i * self.each : (i + 1) * self.each]
        return (block[:32] % 80).float() / 80


def workers_read_a_tensor():
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters())
    for x in DataLoader(Arrays(20_000_000, 480), batch_size=16, shuffle=True, num_workers=2):
        opt.zero_grad()
        (model(x) - x.mean(1, keepdim=True)).square().mean().backward()
        opt.step()
        time.sleep(0.15)  # as long as a larger model takes


if __name__ == "__main__":
    torch.manual_seed(0)
    workers_read_a_tensor()
