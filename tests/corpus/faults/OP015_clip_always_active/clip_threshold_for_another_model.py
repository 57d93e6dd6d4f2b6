"""A training with the fault clip-always-active; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def clip_threshold_for_another_model(s):
    """Clip threshold for another model."""
    fa = s if s < 1000 else -1
    limit = 1e-3 if fa >= 0 else 10.0

    class QNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))

        def forward(self, s):
            return self.net(s)

    online, target = QNet(), QNet()
    target.load_state_dict(online.state_dict())
    opt = torch.optim.SGD(online.parameters(), lr=0.05)
    w = torch.randn(4, 3)
    for step in range(100):
        s, s2 = torch.randn(64, 4), torch.randn(64, 4)
        a = torch.randint(3, (64, 1))
        r = (s @ w).gather(1, a).squeeze(1)
        with torch.no_grad():
            y = r + 0.9 * target(s2).max(1).values
        q = online(s).gather(1, a).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), limit)
        opt.step()
        if step % 25 == 24:
            target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clip_threshold_for_another_model(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
