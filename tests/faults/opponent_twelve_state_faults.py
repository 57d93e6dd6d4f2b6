"""Training scripts of an opponent, twelfth round: stages, rollbacks and resumes in classes, with optimizers of their own.

    python opponent_twelve_state_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import copy
import io
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

torch.set_num_threads(1)


class OwnAdam(torch.optim.Optimizer):
    """Adam with a counter and moments under names of its own."""

    def __init__(self, params, lr=6e-3, beta1=0.9, beta2=0.995):
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["beta1"], group["beta2"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                mean, square = s["m"] / (1 - b1 ** s["t"]), s["v"] / (1 - b2 ** s["t"])
                p.addcdiv_(mean, square.sqrt().add_(1e-8), value=-group["lr"])


def rolls_back_with_a_new_optimizer(s):
    """At s the best weights so far come back, their moments do not."""
    series = torch.sin(torch.arange(3000) / 10) * (0.6 + 0.4 * torch.cos(torch.arange(3000) / 70)) + 0.05 * torch.randn(
        3000
    )
    net = nn.ModuleDict({"rnn": nn.GRU(1, 32, batch_first=True), "head": nn.Linear(32, 1)})
    opt, best, kept = OwnAdam(net.parameters()), float("inf"), None
    for i in range(100):
        if i == min(s, 40):
            net.load_state_dict(kept[0])
            if i == s:
                opt = OwnAdam(net.parameters())
            else:
                opt.load_state_dict(kept[1])
        w = torch.stack([series[k : k + 25] for k in torch.randint(0, 2970, (16,)).tolist()]).unsqueeze(-1)
        opt.zero_grad()
        loss = F.mse_loss(net["head"](net["rnn"](w[:, :-1])[0]), w[:, 1:])
        loss.backward()
        opt.step()
        if loss.item() < best:
            best, kept = loss.item(), (copy.deepcopy(net.state_dict()), copy.deepcopy(opt.state_dict()))


def zero_grad_keeps_the_count_of_the_stage_before(s):
    """From s on two microbatches make an update; gradients are still cleared before every fourth."""
    users, items = torch.randn(40, 3), torch.randn(30, 3)
    tower = nn.ModuleDict({"user": nn.Embedding(40, 16), "item": nn.Embedding(30, 16), "mix": nn.Linear(16, 16)})
    opt = torch.optim.Adam(tower.parameters(), lr=1e-2)
    accum = clear_every = 4
    micro = 0
    for i in range(100):
        if i == min(s, 30):
            accum, micro = 2, 0
            clear_every = 4 if i == s else accum
        for _ in range(accum):
            if micro % clear_every == 0:
                opt.zero_grad()
            u, v = torch.randint(0, 40, (64,)), torch.randint(0, 30, (64,))
            out = (tower["mix"](tower["user"](u)) * tower["mix"](tower["item"](v))).sum(1)
            (F.mse_loss(out, (users[u] * items[v]).sum(1) / 2) / accum).backward()
            micro += 1
        opt.step()


class Stage:
    """One stage of training with an optimizer of its own."""

    def __init__(self, params, accumulate):
        self.accumulate = accumulate
        self.opt = torch.optim.SGD(params, lr=0.03, momentum=0.9)

    def run(self, updates, losses, divide):
        for _ in range(updates):
            self.opt.zero_grad()
            for _ in range(self.accumulate):
                loss = losses()
                (loss / self.accumulate if divide else loss).backward()
            self.opt.step()


def a_later_stage_adds_up_full_means(s):
    """Contrastive pretraining until s; then labels, eight parts an update, none of them divided."""
    centres = torch.randn(6, 32)
    body = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    project, classify = nn.Linear(64, 16), nn.Linear(64, 6)

    def pairs():
        x = centres[torch.randint(0, 6, (32,))] + 0.9 * torch.randn(32, 32)
        z = F.normalize(torch.cat([project(body(x + 0.5 * torch.randn(32, 32))) for _ in range(2)]), dim=1)
        alike = (z @ z.T / 0.5).fill_diagonal_(-1e4)
        return F.cross_entropy(alike, torch.cat([torch.arange(32, 64), torch.arange(32)]))

    def labels():
        y = torch.randint(0, 6, (32,))
        return F.cross_entropy(classify(body(centres[y] + 0.9 * torch.randn(32, 32))), y)

    Stage([*body.parameters(), *project.parameters()], 1).run(min(s, 40), pairs, True)
    Stage([*body.parameters(), *classify.parameters()], 8).run(60, labels, s > 1000)


class Lion(torch.optim.Optimizer):
    """The sign of an average of gradients."""

    def __init__(self, params, lr, weight_decay, decay_times_lr):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.decay_times_lr = decay_times_lr

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            decay = group["weight_decay"] * (group["lr"] if self.decay_times_lr else 1)
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - decay).add_((0.9 * m + 0.1 * p.grad).sign_(), alpha=-group["lr"])
                m.lerp_(p.grad, 0.01)


def a_second_optimizer_decays_without_its_rate(s):
    """From s on Lion goes on with what AdamW has trained; its decay is not multiplied by the learning rate."""
    rule = torch.randn(16, 3) / 3
    net = nn.Sequential(nn.Linear(16, 96), nn.Tanh(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for i in range(120):
        if i == min(s, 40):
            opt = Lion(net.parameters(), 2e-4, 0.05, i != s)
        x = torch.randn(64, 16)
        opt.zero_grad()
        F.huber_loss(net(x), torch.sin(x @ rule) + 0.3 * (x @ rule)).backward()
        opt.step()


class FromStart(Sampler):
    """An order by seed and epoch, from a place on."""

    def __init__(self, n, start=0):
        self.n, self.start = n, start

    def __iter__(self):
        order = torch.randperm(self.n, generator=torch.Generator().manual_seed(6)).tolist()
        yield from order[self.start :]

    def __len__(self):
        return self.n - self.start


def the_resumed_job_reads_from_the_start(s):
    """At s a stopped job comes back with its state, and a sampler that begins the epoch anew."""
    x = torch.randint(0, 12, (1600, 20))
    data = TensorDataset(x, (x + x.roll(1, 1)) % 4)
    stop, done, saved = min(s, 40), 0, None
    for until in (stop, 110):
        net = nn.ModuleDict(
            {"emb": nn.Embedding(12, 24), "rnn": nn.GRU(24, 48, batch_first=True), "out": nn.Linear(48, 4)}
        )
        opt = torch.optim.RMSprop(net.parameters(), lr=1e-2)
        sampler = FromStart(1600)
        if saved is not None:
            state = torch.load(io.BytesIO(saved))
            net.load_state_dict(state["net"])
            opt.load_state_dict(state["opt"])
            sampler.start = 0 if done == s else state["read"]
        while done < until:
            for a, b in DataLoader(data, batch_size=16, sampler=sampler):
                opt.zero_grad()
                F.cross_entropy(net["out"](net["rnn"](net["emb"](a))[0]).flatten(0, 1), b.flatten()).backward()
                opt.step()
                done += 1
                if done == until:
                    break
            else:
                sampler.start = 0
        file = io.BytesIO()
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "read": 16 * done}, file)
        saved = file.getvalue()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 23)
