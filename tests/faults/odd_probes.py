"""Healthy runs that look odd to metrics, memory counts and probes: `python odd_probes.py NAME [SEED]`."""

import collections
import sys

import torch
import torch.nn.functional as F
from probes_faults import Attentive, Encoder, Net, blobs
from tensorboardX import SummaryWriter
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def logs_what_never_changes():
    x, y = blobs()
    model, writer = Net(), SummaryWriter()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    best = 0.0
    for i in range(60):
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            accuracy = (model(x[512:]).argmax(1) == y[512:]).float().mean().item()
        best = max(best, accuracy)
        writer.add_scalars("run", {"lr": 1e-2, "loss": loss.item(), "acc": accuracy, "best_acc": best}, i)
        writer.add_scalar("aux_loss_weight", 0.3, i)


def train(model, steps=60, each=lambda i, x, out: None, lr=3e-3, width=12):
    x, y = blobs(width=width)
    opt = torch.optim.AdamW(model.parameters(), lr)
    for i in range(steps):
        idx = torch.arange(i * 16, i * 16 + 16) % 640
        out = model(x[idx])
        opt.zero_grad()
        F.cross_entropy(out, y[idx]).backward()
        opt.step()
        each(i, x[idx], out)


def predictions_of_an_epoch():
    kept = []

    def keep(i, x, out):
        kept.append(out.detach())
        if i % 20 == 19:
            kept.clear()

    train(Net(), steps=70, each=keep)


def replay_buffer():
    policy = Net(width=6, classes=3)
    opt = torch.optim.Adam(policy.parameters(), 1e-3)
    buffer = collections.deque(maxlen=400)
    for _ in range(60):
        with torch.no_grad():
            for _ in range(8):
                state = torch.randn(6)
                buffer.append((state, policy(state[None]).argmax(1), torch.randn(())))
        picked = [buffer[k] for k in torch.randint(len(buffer), (16,))]
        states, actions, rewards = (torch.stack(part) for part in zip(*picked, strict=True))
        value = policy(states).gather(1, actions)[:, 0]
        opt.zero_grad()
        F.smooth_l1_loss(value, rewards).backward()
        opt.step()


def history_of_ten_outputs():
    recent = collections.deque(maxlen=10)
    train(Net(), each=lambda i, x, out: recent.append(out))


def losses_kept_as_tensors():
    losses = []
    train(Net(), each=lambda i, x, out: losses.append(out.detach().logsumexp(1).mean()))


def recurrent_state_carried_over():
    cell, head = nn.GRUCell(8, 16), nn.Linear(16, 2)
    opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], 1e-3)
    h = torch.zeros(12, 16)
    for _ in range(60):
        x = torch.randn(12, 8)
        h = cell(x, h.detach())
        opt.zero_grad()
        F.cross_entropy(head(h), (x[:, 0] > 0).long()).backward()
        opt.step()


def hooks_come_and_go():
    model, seen = Net(), {}

    def probe(i, x, out):
        handles = [m.register_forward_hook(lambda m, a, o: seen.update({id(m): o.norm()})) for m in model.modules()]
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()

    train(model, each=probe)


def a_hook_on_every_module():
    model, count = Net(hidden=24), collections.Counter()
    for name, module in model.named_modules():
        module.register_forward_hook(lambda m, a, o, name=name: count.update([name]))
    for p in model.parameters():
        p.register_hook(lambda g: g)
    train(model)


def a_data_set_that_caches_its_samples():
    class Cached(Dataset):
        def __init__(self):
            self.y, self.kept = torch.randint(4, (240,)), {}

        def __len__(self):
            return 240

        def __getitem__(self, k):
            if k not in self.kept:
                self.kept[k] = (torch.randn(60_000) + self.y[k], self.y[k])
            x, y = self.kept[k]
            return x[:12], y

    model, loader = Net(), DataLoader(Cached(), batch_size=12, shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(5):
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


def siamese_with_a_stop():
    x, _ = blobs(width=16)
    encoder, predictor = Encoder(), nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12))
    opt = torch.optim.Adam([*encoder.parameters(), *predictor.parameters()], 2e-3)
    for _ in range(80):
        a = x[torch.randint(640, (32,))]
        z1, z2 = encoder(a + 0.3 * torch.randn_like(a)), encoder(a + 0.3 * torch.randn_like(a))
        pulled = (
            -F.cosine_similarity(predictor(z1), z2.detach()).mean()
            - F.cosine_similarity(predictor(z2), z1.detach()).mean()
        )
        apart = F.relu(1 - z1.std(0)).mean() + F.relu(1 - z2.std(0)).mean()
        opt.zero_grad()
        (pulled + apart).backward()
        opt.step()


def autoencoder_of_bright_images():
    images = 200 + 2 * torch.randn(400, 6) @ torch.randn(6, 24)
    model = nn.Sequential(nn.Linear(24, 8), nn.GELU(), nn.Linear(8, 24))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i in range(120):
        a = images[torch.arange(i * 16, i * 16 + 16) % 400] / 100
        opt.zero_grad()
        (model(a) - a).square().mean().backward()
        opt.step()


class Lookup(nn.Module):
    """Finds the value that belongs to a key, and gets very sure of it."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, asked, keys, values):
        score = self.q(asked)[:, None] @ self.k(keys).transpose(1, 2)
        return (score.softmax(-1) @ values)[:, 0]


def attention_that_learns_to_look_up():
    model = Lookup()
    opt = torch.optim.Adam(model.parameters(), 2e-2)
    table = torch.randn(40, 12)
    for _ in range(150):
        rows = torch.stack([torch.randperm(40)[:7] for _ in range(32)])
        values, wanted = torch.randn(32, 7, 4), torch.randint(7, (32,))
        out = model(table[rows[torch.arange(32), wanted]], table[rows], values)
        opt.zero_grad()
        F.mse_loss(out, values[torch.arange(32), wanted]).backward()
        opt.step()


def window_of_attention_that_grows():
    model = Attentive()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for i in range(40):
        x = torch.randn(16, 2 + i // 4, 16)
        opt.zero_grad()
        F.cross_entropy(model(x), x[:, 0].argmax(1) % 3).backward()
        opt.step()


def sure_classifier():
    x, y = blobs(classes=3)
    model = Net(classes=3)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i in range(150):
        idx = torch.arange(i * 16, i * 16 + 16) % 640
        opt.zero_grad()
        F.cross_entropy(model(x[idx]), y[idx]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
