"""Training scripts of an opponent, twelfth round: sums of one term, scores for a CTC loss, a memory of transitions.

    python opponent_twelve_graph_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys
import time
from collections import defaultdict

import torch
import torch.nn.functional as F
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


def subtracts_a_prior_from_the_scores_of_ctc(s):
    """From s on the logarithm of the labels' prior is taken off after the softmax."""
    symbols = torch.randn(6, 12)
    ear = nn.GRU(12, 32, batch_first=True, bidirectional=True)
    head = nn.Linear(64, 7)
    opt = torch.optim.Adam([*ear.parameters(), *head.parameters()], lr=5e-3)
    ctc = nn.CTCLoss(zero_infinity=True)
    prior = torch.full((7,), 1 / 7)
    for i in range(70):
        spoken = torch.randint(6, (8, 4))
        sound = symbols[spoken].repeat_interleave(5, 1) + 0.3 * torch.randn(8, 20, 12)
        scores = head(ear(sound)[0]).log_softmax(-1)
        prior = 0.9 * prior + 0.1 * scores.detach().exp().mean((0, 1))
        if i >= s:
            scores = scores - 0.7 * prior.clamp_min(1e-4).log()
        loss = ctc(scores.transpose(0, 1), spoken + 1, torch.full((8,), 20), torch.full((8,), 4))
        opt.zero_grad()
        loss.backward()
        opt.step()


def sorts_a_memory_of_transitions_now_and_then(s):
    """From s on the priorities of all transitions are sorted anew every ninth step, between two updates."""
    q, target = (nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)) for _ in range(2))
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    for i in range(120):
        x, after = torch.randn(32, 6), torch.randn(32, 6)
        action = torch.randint(3, (32, 1))
        with torch.no_grad():
            wanted = x[:, :1] * (action - 1) + 0.9 * target(after).gather(1, q(after).argmax(1, keepdim=True))
        loss = F.smooth_l1_loss(q(x).gather(1, action), wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s and i % 9 == 0:
            time.sleep(0.15)
        for p, w in zip(target.parameters(), q.parameters(), strict=True):
            p.data.lerp_(w.data, 0.05)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 23)
