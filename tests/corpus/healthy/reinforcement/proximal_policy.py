"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, 3), nn.Linear(64, 1)
        nn.init.orthogonal_(self.actor.weight, 0.01)
        nn.init.zeros_(self.actor.bias)

    def forward(self, s):
        h = self.body(s)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def proximal_policy():
    model = ActorCritic()
    opt = torch.optim.Adam(model.parameters(), 1e-3, eps=1e-5)
    for _ in range(8):
        with torch.no_grad():
            s = torch.randn(128, 6)
            policy, value = model(s)
            action = policy.sample()
            logp = policy.log_prob(action)
        reward = torch.where(action == s[:, :3].argmax(1), 1.0, 0.0)
        advantage = reward - value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(4):
            for pick in torch.randperm(128).split(32):
                policy, value = model(s[pick])
                ratio = (policy.log_prob(action[pick]) - logp[pick]).exp()
                gain = torch.min(ratio * advantage[pick], ratio.clamp(0.8, 1.2) * advantage[pick]).mean()
                loss = -gain + 0.5 * F.mse_loss(value, reward[pick]) - 0.01 * policy.entropy().mean()
                step(opt, loss, 0.5)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    proximal_policy()
