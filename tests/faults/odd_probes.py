"""Healthy runs that look odd to metrics, memory counts and probes: `python odd_probes.py NAME [SEED]`."""

import sys

import torch
import torch.nn.functional as F
from probes_faults import Net, blobs
from tensorboardX import SummaryWriter

torch.set_num_threads(1)


def logs_what_never_changes():
    x, y = blobs()
    model, writer = Net(), SummaryWriter()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    best = 0.0
    for i in range(60):
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            accuracy = (model(x[512:]).argmax(1) == y[512:]).float().mean().item()
        best = max(best, accuracy)
        writer.add_scalars("run", {"lr": 1e-2, "loss": loss.item(), "acc": accuracy, "best_acc": best}, i)
        writer.add_scalar("aux_loss_weight", 0.3, i)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
