"""Reads a dataset that changes its entries or draws random numbers, in workers or without."""

import random
import sys

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

KIND = sys.argv[1]


class Kept(Dataset):
    def __init__(self):
        self.entries = [{"point": torch.arange(1.0, 4.0) + i} for i in range(16)]
        self.generator = random.Random(0)
        self.read = torch.zeros(16, 2)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        point = self.entries[i]["point"]
        self.read[i] += 1
        if KIND == "copies":
            point = point.clone()
        if KIND == "once" and self.read[i, 0] > 1:
            return point
        point *= 0.5
        if KIND == "seeds at the first sample" and get_worker_info() is not None:
            self.generator.seed(get_worker_info().seed + int(self.read.sum() == 1))
        return point + 0.1 * self.generator.random() if KIND != "plain" else point


def seeded(_):
    info = get_worker_info()
    info.dataset.generator = random.Random(info.seed)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), 0.01)
    init = seeded if KIND == "seeds" else None
    loader = DataLoader(Kept(), 4, shuffle=True, num_workers=int(sys.argv[2]), worker_init_fn=init)
    for _ in range(3):
        for x in loader:
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
            print(loss.item().hex())
