"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4, noise=0.8):
    y = torch.randint(classes, (n,))
    centres = torch.randn(classes, width)
    return centres[y] + noise * torch.randn(n, width), y


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def averaged_weights():
    x, y = blobs(480)
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    average = torch.optim.swa_utils.AveragedModel(model)
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    usual = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6)
    flat = torch.optim.swa_utils.SWALR(opt, 0.05, anneal_epochs=2)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for epoch in range(10):
        for a, b in loader:
            step(opt, F.cross_entropy(model(a), b))
        if epoch >= 5:
            average.update_parameters(model)
            flat.step()
        else:
            usual.step()
    torch.optim.swa_utils.update_bn(loader, average)
    with torch.no_grad():
        average.eval()
        average(x)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    averaged_weights()
