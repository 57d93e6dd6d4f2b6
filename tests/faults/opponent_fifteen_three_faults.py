"""Training scripts after an opponent's, fifteenth round: modes and graphs that one part of a training leaves to the next.

    python opponent_fifteen_three_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def neighbours_leave_the_body_in_eval_mode(s):
    """Now and then the nearest neighbours of the body's features are counted; from s on it stays in eval mode after that."""
    body = nn.Sequential(nn.Linear(12, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 24))
    net = nn.Sequential()
    net.add_module("body", body)
    net.add_module("head", nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 16)))
    centres = 2 * torch.randn(6, 12)
    kinds = torch.randint(6, (200,))
    bank = centres[kinds] + torch.randn(200, 12)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for i in range(100):
        if i % 7 == 6:
            body.eval()
            with torch.no_grad():
                features = F.normalize(body(bank), dim=1)
            near = (features @ features.T).fill_diagonal_(-2.0).argmax(1)
            print(f"nearest neighbours alike: {(kinds[near] == kinds).float().mean():.2f}")
            if i < s:
                body.train()
        x = centres[torch.randint(6, (64,))] + torch.randn(64, 12)
        a, b = (F.normalize(net(x + 0.3 * torch.randn_like(x)), dim=1) for _ in range(2))
        loss = F.cross_entropy(a @ b.T / 0.2, torch.arange(64))
        opt.zero_grad()
        loss.backward()
        opt.step()


def reward_average_keeps_its_graphs(s):
    """A policy gradient of a bandit; from s on the moving average of the objective is made of tensors instead of numbers."""
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 5))
    worth = torch.randn(6, 5)
    opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
    average = 0.0
    for i in range(100):
        state = torch.randn(64, 6)
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        reward = (state @ worth).gather(1, action[:, None])[:, 0] + 0.1 * torch.randn(64)
        objective = -(choice.log_prob(action) * (reward - reward.mean())).mean() - 0.01 * choice.entropy().mean()
        average = 0.95 * average + 0.05 * (objective.item() if i < s else objective)
        opt.zero_grad()
        objective.backward()
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[2]) if len(sys.argv) > 2 else 14
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](onset)
