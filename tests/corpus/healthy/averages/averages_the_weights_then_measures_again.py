"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def averages_the_weights_then_measures_again():
    """Averages the weights then measures again."""
    x = torch.randn(480, 12)
    loader = DataLoader(TensorDataset(x, (x[:, :4]).argmax(1)), 32, shuffle=True, drop_last=True)
    net = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    avg = AveragedModel(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    cos = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6)
    swa = SWALR(opt, swa_lr=0.05, anneal_epochs=2)
    for epoch in range(9):
        for a, b in loader:
            loss = nn.functional.cross_entropy(net(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch >= 5:
            avg.update_parameters(net)
            swa.step()
        else:
            cos.step()
    update_bn(((a,)[0] for a, _ in loader), avg)
    avg.eval()
    with torch.no_grad():
        avg(x[:100])


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    averages_the_weights_then_measures_again()
