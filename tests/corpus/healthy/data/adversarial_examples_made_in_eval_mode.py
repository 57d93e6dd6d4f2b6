"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def adversarial_examples_made_in_eval_mode():
    """Examples are made against the model in eval mode, with gradients for the inputs; then a step on both kinds."""
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.SGD(net.parameters(), 0.05)
    truth_w = torch.randn(8, 3)
    kl = nn.KLDivLoss(reduction="batchmean")
    for _ in range(40):
        x = torch.randn(32, 8)
        net.eval()
        adv = x + 0.001 * torch.randn_like(x)
        for _ in range(3):
            adv.requires_grad_()
            apart = kl(net(adv).log_softmax(1), net(x).softmax(1))
            (g,) = torch.autograd.grad(apart, [adv])
            adv = (adv.detach() + 0.02 * g.sign()).clamp(x - 0.1, x + 0.1)
        net.train()
        out = net(x)
        loss = nn.functional.cross_entropy(out, (x @ truth_w).argmax(1))
        loss = loss + 2 * kl(net(adv.detach()).log_softmax(1), out.softmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    adversarial_examples_made_in_eval_mode()
