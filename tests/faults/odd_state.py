"""Healthy runs whose optimizer state, checkpoints or copies look odd: `python odd_state.py NAME [SEED]`."""

import copy
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from state_faults import blobs, forever, mlp
from torch import nn

torch.set_num_threads(1)


def train(model, opt, batches, steps=30, after=None):
    for i, (a, b) in zip(range(steps), batches, strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def one_optimizer_of_each_kind():
    batches = forever(*blobs())
    for kind, settings in (
        (torch.optim.Adam, {"lr": 1e-3, "amsgrad": True, "weight_decay": 0.5}),
        (torch.optim.AdamW, {"lr": 1e-3, "betas": (0.5, 0.6), "weight_decay": 1.0}),
        (torch.optim.NAdam, {"lr": 1e-3}),
        (torch.optim.RAdam, {"lr": 1e-3, "weight_decay": 0.1}),
        (torch.optim.Adamax, {"lr": 1e-3}),
        (torch.optim.RMSprop, {"lr": 1e-3, "momentum": 0.9, "centered": True}),
        (torch.optim.Adagrad, {"lr": 1e-2}),
        (torch.optim.Adadelta, {"lr": 0.1}),
        (torch.optim.SGD, {"lr": 0.01, "momentum": 0.99, "dampening": 0.5, "weight_decay": 0.1}),
        (torch.optim.Rprop, {"lr": 1e-3}),
    ):
        model = mlp()
        train(model, kind(model.parameters(), **settings), batches, steps=12)


class Lion(torch.optim.Optimizer):
    """Sign of an average: its beta2 is the decay of the momentum."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                average = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p -= group["lr"] * (first * average + (1 - first) * p.grad).sign()
                average.mul_(second).add_(p.grad, alpha=1 - second)


def an_optimizer_of_its_own():
    model = mlp()
    train(model, Lion(model.parameters(), 1e-3), forever(*blobs()), steps=40)


def gradients_that_vanish_and_return():
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95))
    for i, (a, b) in zip(range(90), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        for p in model.parameters():
            p.grad *= 1e-3 if 20 <= i < 60 else 1.0
        opt.step()


def resumed_from_a_file():
    batches = forever(*blobs())
    first = mlp()
    opt = torch.optim.AdamW(first.parameters(), 2e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1, (i + 1) / 8) * 0.97**i)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        for step in range(20):
            train(first, opt, batches, steps=1)
            sched.step()
            if step % 5 == 4:
                state = {
                    "model": first.state_dict(),
                    "opt": opt.state_dict(),
                    "sched": sched.state_dict(),
                    "step": step,
                }
                torch.save(state, path)
        model = mlp()
        opt = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.01)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1, (i + 1) / 8) * 0.97**i)
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        opt.load_state_dict(checkpoint["opt"])
        sched.load_state_dict(checkpoint["sched"])
        for step in range(checkpoint["step"] + 1, 45):
            train(model, opt, batches, steps=1)
            sched.step()
            if step % 5 == 4:
                state = {
                    "model": model.state_dict(),
                    "opt": opt.state_dict(),
                    "sched": sched.state_dict(),
                    "step": step,
                }
                torch.save(state, path)


def goes_back_to_a_checkpoint():
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(30):
            if i == 10:
                torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), "step": i}, f"{folder}/at10.pt")
            if i == 18:
                state = torch.load(f"{folder}/at10.pt")
                model.load_state_dict(state["model"])
                opt.load_state_dict(state["optimizer"])
            place = 16 * (i if i < 18 else i - 8)
            train(model, opt, [(x[place : place + 16], y[place : place + 16])], steps=1)


def begins_from_a_checkpoint():
    batches = forever(*blobs())
    earlier = mlp()
    other = torch.optim.SGD(earlier.parameters(), 0.02, momentum=0.9)
    state = {"model": earlier.state_dict(), "optimizer": other.state_dict(), "epoch": 3}
    state["optimizer"]["state"] = {
        i: {"momentum_buffer": torch.randn_like(p) * 0.1} for i, p in enumerate(earlier.parameters())
    }
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, f"{folder}/last.pt")
        state = torch.load(f"{folder}/last.pt")
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["optimizer"])
    sched = torch.optim.lr_scheduler.StepLR(opt, 10, 0.5)
    train(model, opt, batches, steps=40, after=lambda _: sched.step())


def averages_softly():
    model = mlp()
    ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.95))
    held_out, _ = blobs(64)

    def after(i):
        ema.update_parameters(model)
        if i % 10 == 9:
            with torch.no_grad():
                ema.eval()(held_out)

    train(model, torch.optim.Adam(model.parameters(), 1e-3), forever(*blobs()), steps=60, after=after)


def averages_late():
    model = mlp()
    swa = torch.optim.swa_utils.AveragedModel(model)

    def after(i):
        if i >= 40 and i % 5 == 0:
            swa.update_parameters(model)

    train(model, torch.optim.SGD(model.parameters(), 0.05), forever(*blobs()), steps=60, after=after)


def keeps_the_best():
    model = mlp()
    best = copy.deepcopy(model)
    held_out, labels = blobs(64)
    lowest = [9e9]

    def after(i):
        if i % 4 == 3:
            with torch.no_grad():
                loss = float(F.cross_entropy(model(held_out), labels))
            if loss < lowest[0]:
                lowest[0] = loss
                best.load_state_dict(model.state_dict())

    train(model, torch.optim.Adam(model.parameters(), 1e-2), forever(*blobs()), steps=80, after=after)
    model.load_state_dict(best.state_dict())


def stays_near_a_reference():
    policy = mlp()
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    opt = torch.optim.Adam(policy.parameters(), 1e-3)
    for _, (a, b) in zip(range(60), forever(*blobs()), strict=False):
        with torch.no_grad():
            anchor = reference(a).log_softmax(-1)
        logits = policy(a)
        loss = F.cross_entropy(logits, b) + 0.1 * F.kl_div(
            logits.log_softmax(-1), anchor, log_target=True, reduction="batchmean"
        )
        opt.zero_grad()
        loss.backward()
        opt.step()


class Positions(nn.Module):
    """A tied language model with more positions and words than it meets."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(3000, 16)
        self.pos_emb = nn.Embedding(256, 16)
        self.mix = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 3000, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        return self.head(self.mix(self.words(x) + self.pos_emb(torch.arange(x.shape[1]).expand_as(x)))[0])


def more_positions_than_tokens():
    model = Positions()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(40):
        x = (torch.rand(32, 17) ** 6 * 3000).long()
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


class Masked(nn.Module):
    """Tokens and a float mask that happens to be all ones; distances with a root that is masked twice."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.out = nn.Linear(12, 4)

    def forward(self, tokens, attention_mask):
        h = self.embed(tokens) * attention_mask[..., None]
        gap = (h[:, :, None] - h[:, None]).square().sum(-1)
        near = torch.where(gap > 0, torch.where(gap > 0, gap, 1.0).sqrt(), 0.0)
        weights = (-near).masked_fill(attention_mask[:, None] == 0, -1e9).softmax(-1)
        return self.out((weights @ h).mean(1))


def a_mask_of_ones_and_safe_roots():
    model = Masked()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(40):
        tokens = torch.randint(20, (16, 7))
        loss = F.cross_entropy(model(tokens, torch.ones(16, 7)), tokens[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()


def half_with_small_gradients():
    model = mlp().half()
    opt = torch.optim.SGD(model.parameters(), 20.0)
    for _, (a, b) in zip(range(40), forever(*blobs()), strict=False):
        loss = F.cross_entropy(model(a.half()).float(), b) / 1024
        opt.zero_grad()
        loss.backward()
        opt.step()


def weights_rescaled_on_purpose():
    model = nn.Sequential(nn.Linear(12, 32, bias=False), nn.LayerNorm(32), nn.Linear(32, 4))
    opt = torch.optim.SGD(model.parameters(), 0.05)

    def after(i):
        if i % 10 == 9:
            with torch.no_grad():
                model[0].weight *= 3.0

    train(model, opt, forever(*blobs()), steps=40, after=after)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
