"""Healthy: a part that is frozen in the middle of the run and leaves the optimizer; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def main(onset):
    centres = torch.randn(4, 12) * 2
    y = torch.randint(4, (640,))
    loader = DataLoader(TensorDataset(centres[y] + torch.randn(640, 12), y), batch_size=16, shuffle=True)
    encoder, head = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 16), nn.GELU()), nn.Linear(16, 4)
    model = nn.Sequential(encoder, head)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-2)
    for step, (a, b) in enumerate(loader):
        if step == onset:
            for parameter in encoder.parameters():
                parameter.requires_grad = False
            optimizer.param_groups[0]["params"] = list(head.parameters())
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    main(14)
