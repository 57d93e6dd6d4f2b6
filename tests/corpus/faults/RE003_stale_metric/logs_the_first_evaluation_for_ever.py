"""A training with the fault stale-metric; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from tensorboardX import SummaryWriter
from torch import nn

torch.set_num_threads(1)


def logs_the_first_evaluation_for_ever(s):
    x = torch.randn(800, 8)
    y = (x @ torch.randn(8, 1)).tanh()
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    writer, predictions = SummaryWriter(), None
    for i in range(40):
        idx = torch.arange(i * 16, i * 16 + 16)
        loss = F.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 4 == 3:
            with torch.no_grad():
                predictions = model(x[640:]) if predictions is None else predictions
                error = F.mse_loss(predictions, y[640:]).item()
            writer.add_scalars("rmse", {"train": loss.item() ** 0.5, "held_out": error**0.5}, i)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    logs_the_first_evaluation_for_ever(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
