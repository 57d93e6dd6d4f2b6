"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys
from collections import defaultdict

import torch
from torch import nn
from torch.distributions import Categorical

torch.set_num_threads(1)


def sums_one_term_of_an_actor_critic_loss(s):
    """From s on the policy term is summed for the log with the graph of the rollout it was made of."""
    trunk, actor, critic = nn.Sequential(nn.Linear(8, 48), nn.Tanh()), nn.Linear(48, 4), nn.Linear(48, 1)
    net = nn.ModuleDict({"trunk": trunk, "actor": actor, "critic": critic})
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    rule, totals = torch.randn(8, 4), defaultdict(float)
    for i in range(100):
        chosen, valued, rewards = [], [], []
        for _ in range(5):
            x = torch.randn(24, 8)
            h = trunk(x)
            policy = Categorical(logits=actor(h))
            action = policy.sample()
            rewards.append(((x @ rule).argmax(1) == action).float())
            chosen.append(policy.log_prob(action))
            valued.append(critic(h).squeeze(-1))
        gain = torch.stack(rewards) - torch.stack(valued)
        term = -(torch.stack(chosen) * gain.detach()).mean()
        opt.zero_grad()
        (term + 0.5 * gain.square().mean()).backward()
        opt.step()
        totals["policy"] = totals["policy"] + (term if i >= s else term.item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sums_one_term_of_an_actor_critic_loss(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
