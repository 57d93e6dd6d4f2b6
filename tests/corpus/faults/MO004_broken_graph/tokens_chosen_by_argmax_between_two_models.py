"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def tokens_chosen_by_argmax_between_two_models(s):
    """Generator's tokens go through argmax into the critic: no gradient for the generator from some step on (soft before)."""
    onset = s
    gen = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 12))
    emb = nn.Linear(12, 16)
    critic = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam([*gen.parameters(), *emb.parameters(), *critic.parameters()], 1e-3)
    for i in range(80):
        z = gen(torch.randn(24, 8))
        w_ = F.one_hot(z.argmax(-1), 12).float() if i >= onset else F.gumbel_softmax(z, tau=1.0)
        loss = F.mse_loss(critic(emb(w_)), torch.ones(24, 1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    tokens_chosen_by_argmax_between_two_models(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
