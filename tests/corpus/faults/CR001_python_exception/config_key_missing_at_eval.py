"""A training with the fault python-exception; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def config_key_missing_at_eval(s):
    """Config key missing at eval."""
    fa = s if s < 1000 else -1

    def report(cfg, value):
        return f"{cfg['prefix']}: {value:.3f}"

    def main():
        cfg = {"lr": 1e-2} if fa >= 0 else {"lr": 1e-2, "prefix": "eval"}
        every = fa + 1 if fa > 0 else 40
        net = nn.Sequential(nn.Linear(5, 20), nn.Softplus(), nn.Linear(20, 1))
        opt = torch.optim.Adagrad(net.parameters(), lr=cfg["lr"])
        for step in range(90):
            x = torch.randn(32, 5)
            loss = (net(x) - x.norm(dim=1, keepdim=True)).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if (step + 1) % every == 0:
                print(report(cfg, loss.item()))

    main()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    config_key_missing_at_eval(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
