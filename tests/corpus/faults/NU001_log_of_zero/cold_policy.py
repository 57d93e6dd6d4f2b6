"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def cold_policy(s):
    """Policy gradient with a temperature; when it is turned low a probability becomes exactly zero."""
    policy = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
    for step in range(60):
        temperature = 1.0 if step < s else 1e-3
        obs = torch.randn(32, 6)
        probs = torch.softmax(policy(obs) / temperature, dim=-1)
        action = torch.randint(4, (32,))
        reward = (action == obs[:, :4].argmax(1)).float() - 0.25
        logp = torch.log(probs.gather(1, action[:, None]).squeeze(1))
        loss = -(logp * reward).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    cold_policy(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
