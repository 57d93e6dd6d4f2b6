"""Training scripts of an opponent, eleventh round: what a second stage and a second loss do to the gradients.

    python opponent_eleven_loop_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clears_through_the_optimizer_of_the_first_stage(s):
    """From s on the whole model is trained by a new optimizer; zero_grad is still that of the head's."""
    rule = torch.randn(10, 4)
    body = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU()).requires_grad_(False)
    head = nn.Linear(40, 4)
    opt = clears = torch.optim.SGD(head.parameters(), lr=0.2)
    second = min(s, 40)
    for i in range(130):
        if i == second:
            body.requires_grad_(True)
            opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
            clears = clears if i == s else opt
        x = torch.randn(64, 10)
        y = (x @ rule + 0.3 * torch.randn(64, 4)).argmax(1)
        clears.zero_grad()
        F.cross_entropy(head(body(x)), y, label_smoothing=0.05).backward()
        opt.step()


def two_losses_in_more_and_more_parts(s):
    """From s on six parts make an update, and neither of the two losses is divided."""
    named, valued = torch.randn(14, 3), torch.randn(14)
    trunk = nn.Sequential(nn.Linear(14, 48), nn.Tanh(), nn.Linear(48, 32), nn.Tanh())
    classify, regress = nn.Linear(32, 3), nn.Linear(32, 1)
    net = nn.ModuleList([trunk, classify, regress])
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5)
    for i in range(90):
        parts = 1 if i < min(s, 27) else 6
        opt.zero_grad()
        for _ in range(parts):
            x = torch.randn(24, 14)
            h = trunk(x)
            loss = F.cross_entropy(classify(h), (x @ named).argmax(1))
            loss = loss + 2.0 * F.mse_loss(regress(h).squeeze(-1), torch.tanh(x @ valued / 3))
            (loss if i >= s else loss / parts).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 23)
