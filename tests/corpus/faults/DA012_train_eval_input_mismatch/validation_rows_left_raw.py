"""A training with the fault train-eval-input-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def validation_rows_left_raw(s):
    """The validation rows are not standardised as the training rows are."""
    wrong = s == 0
    raw = 80 + 25 * torch.randn(2400, 12)
    target = (raw[:, 0] > raw[:, 1]).long()
    mean, std = raw[:2000].mean(0), raw[:2000].std(0)
    train_x = (raw[:2000] - mean) / std
    val_x = raw[2000:] if wrong else (raw[2000:] - mean) / std
    net = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 2))
    opt = torch.optim.Adam(net.parameters(), 2e-3)

    def evaluate():
        net.eval()
        with torch.inference_mode():
            out = [net(val_x[i : i + 50]).argmax(1) for i in range(0, 400, 50)]
        net.train()
        return (torch.cat(out) == target[2000:]).float().mean().item()

    for _epoch in range(3):
        for idx in torch.randperm(2000).split(50):
            loss = nn.functional.cross_entropy(net(train_x[idx]), target[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        evaluate()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    validation_rows_left_raw(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
