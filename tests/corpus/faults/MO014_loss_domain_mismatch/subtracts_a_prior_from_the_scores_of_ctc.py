"""A training with the fault loss-domain-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    subtracts_a_prior_from_the_scores_of_ctc(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
