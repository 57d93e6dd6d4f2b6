"""Training scripts after an opponent's, eighteenth round: views that run together, eval mode that is left over, weights halved.

    python opponent_eighteen_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def no_stop_gradient_between_views(s):
    """Two views of a sample, an encoder and a predictor; from s on the gradient flows into the target's branch too."""
    prototypes = torch.randn(10, 48)
    encoder = nn.Sequential(nn.Linear(48, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 64))
    predictor = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 64))
    opt = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.1, momentum=0.9, weight_decay=1e-4)
    for i in range(180):
        x = prototypes[torch.randint(10, (128,))] + 0.5 * torch.randn(128, 48)
        a, b = (x * (torch.rand_like(x) > 0.2) + 0.3 * torch.randn_like(x) for _ in range(2))
        za, zb = encoder(a), encoder(b)
        pa, pb = predictor(za), predictor(zb)
        if i < s:
            za, zb = za.detach(), zb.detach()
        loss = -0.5 * (F.cosine_similarity(pa, zb).mean() + F.cosine_similarity(pb, za).mean())
        opt.zero_grad()
        loss.backward()
        opt.step()


def an_evaluation_that_returns_early(s):
    """A student learns from a teacher; the evaluation every 20 steps returns before train() where it saw a better result, which
    it does not before s and sometimes does from s on."""
    teacher = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 6)).eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(20, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 6))
    opt = torch.optim.AdamW(student.parameters(), lr=2e-3)
    held_out = torch.randn(256, 20)

    def evaluate(better):
        student.eval()
        with torch.no_grad():
            right = student(held_out).argmax(1) == teacher(held_out).argmax(1)
        if better:
            return right
        student.train()
        return right

    for i in range(160):
        if i % 20 == 0 and i > 0:
            evaluate(i >= s and i // 20 % 3 != 1)
        x = torch.randn(64, 20)
        with torch.no_grad():
            t = teacher(x)
        loss = F.kl_div(student(x).log_softmax(-1), t.log_softmax(-1), log_target=True, reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        opt.step()


def halved_to_save_memory_at_a_low_rate(s):
    """Under autocast with float32 weights; from s on weights and inputs are bfloat16 and the rate is low."""
    net = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 6))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    basis = torch.randn(6, 32)
    dtype = torch.float32
    for i in range(140):
        if i == s:
            dtype = torch.bfloat16
            net.to(dtype)
            opt.param_groups[0]["lr"] = 2e-3
        y = torch.randint(6, (64,))
        x = (0.5 * basis[y] + torch.randn(64, 32)).to(dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=i < s):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 0)
