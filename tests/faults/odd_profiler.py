"""Healthy runs that take their time for good reasons. Called as: odd_profiler.py NAME."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def logs_all_norms_every_step():
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()) for _ in range(8)], nn.Linear(64, 2)
    )
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(40):
        x = torch.randn(256, 64)
        y = (x[:, 0] > 0).long()
        logits = model(x)
        step(opt, loss := F.cross_entropy(logits, y))
        log = {n: p.grad.norm().item() for n, p in model.named_parameters()}
        log["loss"], log["accuracy"] = float(loss), (logits.argmax(1) == y).float().mean().item()


def an_agent_acts_step_by_step():
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(policy.parameters(), 3e-3)
    for _ in range(25):
        state, chosen, rewards = torch.zeros(4), [], []
        for _ in range(60):
            d = torch.distributions.Categorical(logits=policy(state))
            action = d.sample()
            chosen.append(d.log_prob(action))
            push = 1.0 if action.item() else -1.0
            state = 0.9 * state + 0.1 * push + 0.05 * torch.randn(4)
            rewards.append(-state.abs().mean().item())
        gains = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        step(opt, -(torch.stack(chosen) * (gains - gains.mean()) / gains.std()).mean())


def reads_everything_at_an_evaluation():
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    held_out = torch.randn(1500, 12)
    for i in range(48):
        x = torch.randn(64, 12)
        step(opt, F.cross_entropy(model(x), (x[:, 0] > 0).long() + (x[:, 1] > 0).long()))
        if i % 12 == 11:
            model.eval()
            with torch.no_grad():
                guesses = model(held_out).argmax(1)
            table = [[0] * 3 for _ in range(3)]
            for row, guess in zip(held_out, guesses, strict=True):
                table[int(row[0] > 0) + int(row[1] > 0)][guess.item()] += 1
            model.train()


def sentences_of_any_length():
    """Steps take between one and ten times the shortest; what varies is the work."""
    net = nn.LSTM(16, 48, batch_first=True)
    head = nn.Linear(48, 2)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], 1e-3)
    lengths = torch.randint(4, 24, (90,)).tolist()
    for i, length in enumerate(lengths):
        x = torch.randn(16, 240 if i % 7 == 3 else length, 16)
        step(opt, F.cross_entropy(head(net(x)[0].mean(1)), (x.mean((1, 2)) > 0).long()))


def a_machine_that_is_sometimes_busy():
    """Another process takes the processor now and then, whatever runs."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    when = torch.randint(3, (90,)).tolist()
    stalled = None
    model[1].register_forward_hook(lambda *_: time.sleep(0.04) if stalled == 0 else None)
    for i in range(90):
        stalled = when[i] if i % 5 == 2 else None
        x = torch.randn(64, 32)
        loss = F.mse_loss(model(x), x[:, :1])
        if stalled == 1:
            loss.register_hook(lambda g: time.sleep(0.05))
        step(opt, loss)
        if stalled == 2:
            time.sleep(0.04)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
