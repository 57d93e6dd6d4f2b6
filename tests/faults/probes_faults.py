"""Faults of metrics, memory and representations: `python probes_faults.py NAME [ONSET] [SEED]`.

They know nothing of firstfault; `s` is the step at which the fault begins. The truth stands in probes_faults.toml.
"""

import copy
import sys

import torch
import torch.nn.functional as F
from tensorboardX import SummaryWriter
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class Net(nn.Module):
    def __init__(self, width=12, hidden=32, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


# -- metrics --------------------------------------------------------------------------------------------------------------


def evaluates_an_old_copy(s):
    x, y = blobs()
    model, writer = Net(), SummaryWriter()
    shown = copy.deepcopy(model)
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(44):
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        opt.zero_grad()
        F.cross_entropy(model(x[idx]), y[idx]).backward()
        opt.step()
        if i < s:
            shown.load_state_dict(model.state_dict())
        if i % 2 == 1:
            shown.eval()
            with torch.no_grad():
                writer.add_scalar("val/loss", F.cross_entropy(shown(x[512:]), y[512:]), i)


def logs_the_first_evaluation_for_ever(s):
    x = torch.randn(800, 8)
    y = (x @ torch.randn(8, 1)).tanh()
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    writer, predictions = SummaryWriter(), None
    for i in range(40):
        idx = torch.arange(i * 16, i * 16 + 16)
        loss = F.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 4 == 3:
            with torch.no_grad():
                predictions = model(x[640:]) if predictions is None else predictions
                error = F.mse_loss(predictions, y[640:]).item()
            writer.add_scalars("rmse", {"train": loss.item() ** 0.5, "held_out": error**0.5}, i)


# -- memory ---------------------------------------------------------------------------------------------------------------


def keeps_every_output(s):
    x, y = blobs()
    model, seen = Net(), []
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(40):
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        logits = model(x[idx])
        loss = F.cross_entropy(logits, y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s:
            seen.append((logits, y[idx]))  # for a confusion matrix at the end


def sums_scores_of_a_recurrent_model(s):
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.rnn, self.out = nn.Embedding(30, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 3)

        def forward(self, ids):
            return self.out(self.rnn(self.embed(ids))[0][:, -1])

    model, confidence = Reader(), torch.zeros(12)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(36):
        ids = torch.randint(30, (12, 7))
        scores = model(ids)
        if i >= s:
            confidence = confidence + scores.softmax(1).amax(1)
        loss = F.cross_entropy(scores, ids[:, 0] % 3)
        opt.zero_grad()
        loss.backward()
        opt.step()


def a_hook_collects_activations(s):
    x, y = blobs(width=20)
    model, features = nn.Sequential(nn.Linear(20, 48), nn.Tanh(), nn.Linear(48, 24), nn.Tanh(), nn.Linear(24, 4)), []
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i in range(48):
        if i == s:
            model[3].register_forward_hook(lambda _, args, out: features.append(out))
        idx = torch.arange(i * 16, i * 16 + 16) % 640
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()


def registers_a_hook_each_step(s):
    x, y = blobs()
    model, norms = Net(), {}
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i in range(36):
        if i >= s:
            model.head.register_forward_hook(lambda _, args, out: norms.update(head=out.detach().norm()))
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()


def clips_by_hooks_again_and_again(s):
    x = torch.randn(640, 1, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long()
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 2))
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i in range(34):
        if i >= s:
            for p in model.parameters():
                p.register_hook(lambda g: g.clamp(-1, 1))
        idx = torch.arange(i * 16, i * 16 + 16) % 640
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()


def keeps_a_copy_of_every_report(s):
    x, y = blobs()
    model, reports = Net(), []
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i in range(70):
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s:
            reports.append((f"{i}: {loss.item()} " * 110_000).encode())


# -- representations ------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self, width=16, code=12):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.code = nn.Linear(48, code)

    def forward(self, x):
        return self.code(self.body(x))


def pulls_views_together_without_a_stop(s):
    x, _ = blobs(width=16)
    encoder, predictor = Encoder(), nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12))
    opt = torch.optim.Adam([*encoder.parameters(), *predictor.parameters()], 3e-3)
    for _ in range(90):
        a = x[torch.randint(640, (32,))]
        z1, z2 = encoder(a + 0.5 * torch.randn_like(a)), encoder(a + 0.5 * torch.randn_like(a))
        loss = -(F.cosine_similarity(predictor(z1), z2) + F.cosine_similarity(predictor(z2), z1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def forgets_its_negatives(s):
    x, _ = blobs(width=20, classes=12)
    model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 8))
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for i in range(s + 60):
        k = torch.randint(640, (24,))
        one, two = (F.normalize(model(x[k] + 0.3 * torch.randn(24, 20)), dim=1) for _ in range(2))
        likeness = one @ two.t() / 0.2
        loss = F.cross_entropy(likeness, torch.arange(24)) if i < s else -likeness.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Attentive(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.qkv, self.out, self.heads, self.scale = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, None
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.head((x + self.out(y.transpose(1, 2).reshape(b, t, w))).mean(1))


def scale_of_attention_is_lost(s):
    model = Attentive()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for i in range(36):
        x = torch.randn(16, 9, 16)
        if i == s:
            model.scale = 1000.0
        loss = F.cross_entropy(model(x), x[:, 0].argmax(1) % 3)
        opt.zero_grad()
        loss.backward()
        opt.step()


def attention_weights_loaded_in_other_units(s):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(40, 24)
            self.layer = nn.TransformerEncoderLayer(24, 3, 48, dropout=0.0, batch_first=True)
            self.out = nn.Linear(24, 5)

        def forward(self, ids):
            return self.out(self.layer(self.embed(ids)))

    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(34):
        ids = torch.randint(40, (12, 8))
        if i == s:
            with torch.no_grad():
                model.layer.self_attn.in_proj_weight[:48] *= 40
        loss = F.cross_entropy(model(ids).flatten(0, 1), (ids % 5).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def rewards_logits_for_growing(s):
    x, y = blobs(classes=3)
    model = Net(classes=3)
    opt = torch.optim.Adam(model.parameters(), 2e-2)
    for i in range(100):
        idx = torch.arange(i * 16, i * 16 + 16) % 640
        logits = model(x[idx])
        loss = F.cross_entropy(logits, y[idx]) - 0.05 * logits.max(1).values.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 14)
