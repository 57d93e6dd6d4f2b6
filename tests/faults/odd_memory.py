"""Healthy runs that keep things on purpose: `python odd_memory.py NAME [SEED]`. Nothing is wrong with any of them."""

import collections
import sys

import numpy as np
import torch
import torch.nn.functional as F
from memory_faults import batches, blobs, conv, mlp, shapes
from torch import nn

torch.set_num_threads(1)


def train(model, steps=64, each=lambda i, a, out, loss: None):
    x, y = blobs()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for i, a, b in batches(x, y, steps):
        out = model(a)
        loss = F.cross_entropy(out, b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        each(i, a, out, loss)


def history_of_numbers():
    history = collections.defaultdict(list)

    def note(i, a, out, loss):
        history["loss"].append(loss.item())
        history["spread"].append(out.detach().std().cpu())
        history["rows"].append({"step": i, "loss": float(loss.detach())})

    train(mlp(), each=note)


def a_buffer_of_transitions_that_fills():
    class Replay:
        def __init__(self, room):
            self.room, self.store, self.at = room, [], 0

        def push(self, item):
            if len(self.store) < self.room:
                self.store.append(item)
            else:
                self.store[self.at] = item
            self.at = (self.at + 1) % self.room

    replay = Replay(160)
    x = torch.randn(640, 14)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(70):
        for k in range(6):
            replay.push((torch.randn(4096) + i, k))
        idx = torch.randint(len(replay.store), (16,))
        target = torch.stack([replay.store[int(n)][0][:3] for n in idx])
        opt.zero_grad()
        F.smooth_l1_loss(model(x[idx]), target / 70).backward()
        opt.step()


class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.out = nn.Embedding(24, 16), nn.Linear(16, 48), nn.Linear(16, 24)
        self.keys, self.values = [], []

    def forward(self, ids):
        q, k, v = self.qkv(self.embed(ids)).chunk(3, -1)
        if not self.training:
            self.keys.append(k)
            self.values.append(v)
            k, v = torch.cat(self.keys, 1), torch.cat(self.values, 1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.training))


def keys_and_values_while_it_speaks():
    model = Speaker()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    text = torch.arange(400) % 7 + torch.randint(2, (400,))
    for i in range(48):
        at = torch.randint(380, (8,)).tolist()
        ids = torch.stack([text[n : n + 17] for n in at])
        loss = F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 12 == 11:
            model.eval()
            said = ids[:1, :1]
            with torch.no_grad():
                for _ in range(20):
                    said = model(said)[:, -1:].argmax(-1)
            model.keys.clear()
            model.values.clear()
            model.train()


def features_of_an_epoch_for_a_probe():
    x, y = shapes()
    model, kept = conv(), []
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i, a, b in batches(x, y, 80):
        feature = model[:4](a)
        out = model[4](feature)
        opt.zero_grad()
        F.cross_entropy(out, b).backward()
        opt.step()
        kept.append(feature.detach().numpy())
        if i % 20 == 19:
            np.concatenate(kept)
            kept.clear()


def losses_of_twelve_steps_are_averaged():
    window, means = [], []

    def note(i, a, out, loss):
        window.append(loss)
        if len(window) == 12:
            means.append(torch.stack(window).mean().item())
            window.clear()

    train(mlp(), each=note)


def a_state_that_is_cut_every_eight_steps():
    cell, head = nn.GRUCell(6, 20), nn.Linear(20, 2)
    opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], 2e-3)
    h, total = torch.zeros(10, 20), 0.0
    for i in range(160):
        x = torch.randn(10, 6)
        h = cell(x, h)
        total = total + F.cross_entropy(head(h), (x[:, 0] > 0).long())
        if i % 8 == 7:
            opt.zero_grad()
            (total / 8).backward()
            opt.step()
            h, total = h.detach(), 0.0


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
