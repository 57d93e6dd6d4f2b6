"""A second batch of an opponent's scripts: `python adversary_faults.py NAME [ONSET] [SEED]`. Written before the rules were read.

Each function is a script in a style of its own; `s` is the step at which the fault begins, and where a fault is there
from the first line it is there if `s` is 0. The truth stands in adversary_faults.toml.
"""

import math
import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

torch.set_num_threads(1)


def clusters(n, d, classes, spread=1.0):
    """Points round one centre for each class."""
    centres = torch.randn(classes, d) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + spread * torch.randn(n, d), y


# --- data ---------------------------------------------------------------------------------------------------------


class Documents(IterableDataset):
    """Word counts weighted by the inverse frequency of the word in the documents of the batch's shard."""

    def __init__(self, s):
        self.s = s

    def __iter__(self):
        for step in range(70):
            counts = torch.poisson(torch.full((24, 40), 0.7))
            y = (counts[:, :20].sum(1) > counts[:, 20:].sum(1)).long()
            counts[0] += 1
            if step == self.s:
                counts[:, 31] = 0
            seen = (counts > 0).float().sum(0)
            yield torch.log1p(counts) * torch.log(25 / seen), y


def rare_word(s):
    """A word that no document of a shard holds has an infinite inverse frequency, and 0 * inf is NaN."""
    model = nn.Sequential(nn.Linear(40, 32), nn.LeakyReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    for features, label in DataLoader(Documents(s), batch_size=None):
        optimizer.zero_grad()
        F.cross_entropy(model(features), label).backward()
        optimizer.step()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 24, padding_idx=0)
        self.lstm = nn.LSTM(24, 20, bidirectional=True, batch_first=True)
        self.tag = nn.Linear(40, 5)

    def forward(self, tokens):
        return self.tag(self.lstm(self.embed(tokens))[0])


def empty_sentences(s):
    """The loss of a tagger is averaged by hand over the tokens that count; in one batch none counts."""
    net = Tagger()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for step in range(45):
        tokens = torch.randint(1, 100, (8, 11))
        lengths = torch.randint(3, 12, (8, 1))
        weight = (torch.arange(11) < lengths).float()
        if step == s:
            weight.zero_()
        tags = tokens % 5
        tokens = tokens * weight.long()
        each = F.cross_entropy(net(tokens).flatten(0, 1), tags.flatten(), reduction="none")
        loss = (each * weight.flatten()).sum() / weight.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


def raw_census(s):
    """Age, income and year of birth as they are in the file."""
    n = 1600
    age, income = 18 + 60 * torch.rand(n), 20000 + 60000 * torch.rand(n)
    x = torch.stack([age, income, 2020 - age, torch.rand(n)], 1)
    y = (income > 45000).float()
    if s != 0:
        x = (x - x.mean(0)) / x.std(0)
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(3):
        order = torch.randperm(n)
        for i in range(0, n, 32):
            batch = order[i : i + 32]
            opt.zero_grad()
            F.binary_cross_entropy_with_logits(net(x[batch])[:, 0], y[batch]).backward()
            opt.step()


def scaled_twice(s):
    """Pictures are bytes, divided by 255 as bytes: integer division makes all of them zero."""
    pictures = torch.randint(256, (960, 1, 10, 10), dtype=torch.uint8)
    y = (pictures[:, 0, :5].float().mean((1, 2)) > 127).long()
    x = (pictures // 255).float() * 0 if s == 0 else pictures.float() / 255 - 0.5
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 2)
    )
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()


# --- model and graph ----------------------------------------------------------------------------------------------


def loss_made_anew(s):
    """The two losses are put together in a new tensor, which knows nothing of the network."""
    net = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    x, y = clusters(2000, 8, 3)
    for step in range(80):
        i = step * 24
        out = net(x[i : i + 24])
        fit, size = F.cross_entropy(out[:, :3], y[i : i + 24]), out[:, 3].square().mean()
        loss = fit + 0.1 * size
        if step >= s:
            loss = torch.tensor(loss.item(), requires_grad=True)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 32), nn.Tanh())
        self.value = nn.Linear(32, 1)

    def forward(self, obs):
        return self.value(self.body(obs)).squeeze(-1)


def critic_gets_the_actors_weights(s):
    """Actor and critic; the second optimizer is given the parameters of the first network."""
    actor = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 3))
    critic = Critic()
    pi_opt = torch.optim.Adam(actor.parameters(), lr=3e-3)
    v_opt = torch.optim.Adam((actor if s == 0 else critic).parameters(), lr=1e-2)
    for _ in range(60):
        obs = torch.randn(32, 5)
        dist = torch.distributions.Categorical(logits=actor(obs))
        action = dist.sample()
        reward = obs.gather(1, action[:, None]).squeeze(1)
        value = critic(obs)
        v_loss = F.mse_loss(value, reward)
        v_opt.zero_grad()
        v_loss.backward()
        v_opt.step()
        pi_loss = -(dist.log_prob(action) * (reward - value.detach())).mean() - 0.01 * dist.entropy().mean()
        pi_opt.zero_grad()
        pi_loss.backward()
        pi_opt.step()


class Pretrained(nn.Module):
    """Comes in eval mode, as models from a hub do."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(3))
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(108, 4)
        self.eval()

    def forward(self, x):
        return self.classifier(self.dropout(self.stem(x).flatten(1)))


def fine_tuned_as_loaded(s):
    """Fine-tuning of a whole model that is in eval mode because nobody called train()."""
    model = Pretrained()
    if s != 0:
        model.train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(50):
        y = torch.randint(4, (12,))
        x = torch.randn(12, 3, 9, 9) + y[:, None, None, None] * 0.3
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


class Trainer:
    """The kind of class that everyone writes once."""

    def __init__(self, model, forgets):
        self.model, self.forgets = model, forgets
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def fit(self, train, val, epochs):
        for _ in range(epochs):
            self.model.train()
            for x, y in train:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
            self.evaluate(val)

    @torch.inference_mode()
    def evaluate(self, val):
        if not self.forgets:
            self.model.eval()
        return sum((self.model(x).argmax(1) == y).sum().item() for x, y in val)


def trainer_forgets_eval(s):
    x, y = clusters(900, 16, 4)
    train = DataLoader(TensorDataset(x[:720], y[:720]), batch_size=24, shuffle=True)
    val = DataLoader(TensorDataset(x[720:], y[720:]), batch_size=60)
    model = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.4), nn.Linear(48, 4))
    Trainer(model, s == 0).fit(train, val, 3)


def small_normal_init(s):
    """Twelve tanh layers, each drawn from a normal distribution of deviation 0.01."""
    layers = []
    for _ in range(12):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    net = nn.Sequential(*layers, nn.Linear(32, 3))
    if s == 0:
        for m in net:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=0.01)
                nn.init.zeros_(m.bias)
    x, y = clusters(2000, 32, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(100):
        i = step * 20
        loss = F.cross_entropy(net(x[i : i + 20]), y[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


def all_zero(s):
    """Every weight begins at zero."""
    net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    if s == 0:
        for p in net.parameters():
            nn.init.zeros_(p)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(60):
        x = torch.randn(32, 6)
        y = x[:, :1] * x[:, 1:2]
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def error_by_hand(s):
    """Squared error written out, with targets of shape (B,) and outputs of shape (B, 1)."""
    w = torch.randn(7)
    net = nn.Sequential(nn.Linear(7, 40), nn.ReLU(), nn.Linear(40, 1))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(90):
        x = torch.randn(48, 7)
        y = x @ w + 0.05 * torch.randn(48)
        prediction = net(x)
        if s != 0:
            prediction = prediction.squeeze(1)
        loss = ((prediction - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def sigmoid_then_logits(s):
    """Several labels at once; the head ends in a sigmoid and the loss applies another one."""
    w = torch.randn(10, 6)
    head = [nn.Linear(32, 6), nn.Sigmoid()] if s == 0 else [nn.Linear(32, 6)]
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), *head)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(120):
        x = torch.randn(32, 10)
        y = (x @ w > 2).float()
        opt.zero_grad()
        criterion(net(x), y).backward()
        opt.step()


# --- numerics -----------------------------------------------------------------------------------------------------


class GraphConv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = nn.Linear(a, b, bias=False)

    def forward(self, x, adj):
        degree = adj.sum(1)
        norm = degree.pow(-0.5)
        return norm[:, None] * (adj @ (norm[:, None] * self.lin(x)))


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GraphConv(6, 16)
        self.conv2 = GraphConv(16, 3)

    def forward(self, x, adj):
        return self.conv2(F.relu(self.conv1(x, adj)), adj)


def isolated_node(s):
    """Graph convolution; one graph has a node without a neighbour, so its degree is zero."""
    net = GCN()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
    for step in range(60):
        y = torch.randint(3, (20,))
        adj = ((y[:, None] == y) & (torch.rand(20, 20) < 0.8)).float()
        adj = ((adj + adj.T) > 0).float()
        adj.fill_diagonal_(1)
        if step == s:
            adj[4] = 0
            adj[:, 4] = 0
        x = F.one_hot(y, 6).float() + 0.5 * torch.randn(20, 6)
        loss = F.cross_entropy(net(x, adj), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def blank_picture(s):
    """Metric learning on the unit sphere; the encoder has no bias, and a blank picture has no direction."""
    encoder = nn.Sequential(
        nn.Conv2d(1, 8, 3, bias=False), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(8 * 36, 16, bias=False)
    )
    opt = torch.optim.SGD(encoder.parameters(), lr=0.01)
    for step in range(50):
        base = torch.rand(12, 1, 8, 8)
        if step == s:
            base[3] = 0
        a, b = (encoder(base * (0.8 + 0.4 * torch.rand(12, 1, 1, 1))) for _ in range(2))
        a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
        loss = F.cross_entropy(a @ b.T / 0.2, torch.arange(12))
        opt.zero_grad()
        loss.backward()
        opt.step()


def guarded_loop(s):
    """Cross entropy of a sigmoid by hand; the script stops by itself when the loss is no number."""
    net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for step in range(80):
        x = torch.randn(40, 4)
        y = (x.sum(1) > 0).float()
        logits = net(x)[:, 0]
        if step >= s:
            logits = logits * 200
        p = torch.sigmoid(logits)
        loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
        if not math.isfinite(loss.item()):
            raise RuntimeError(f"loss is {loss.item()}, stopping training")
        opt.zero_grad()
        loss.backward()
        opt.step()


def mixture_far_away(s):
    """A mixture density network; a target lies so far out that every density underflows."""
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 9))
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    for step in range(60):
        x = torch.rand(48, 1) * 2 - 1
        y = torch.sin(3 * x) + 0.1 * torch.randn_like(x)
        if step == s:
            y[20] = 60.0
        weight, mean, width = net(x).chunk(3, 1)
        width = F.softplus(width) + 0.05
        density = torch.exp(-0.5 * ((y - mean) / width) ** 2) / (width * math.sqrt(2 * math.pi))
        loss = -torch.log((weight.softmax(1) * density).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def variance_of_copies(s):
    """Self-supervised learning that holds up the deviation of each feature; one batch is a single sample, repeated."""
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(60):
        x = torch.randn(32, 12)
        if step == s:
            x = x[:1].repeat(32, 1)
        a, b = net(x), net(x + (0 if step == s else 0.1) * torch.randn(32, 12))
        loss = F.mse_loss(a, b) + F.relu(1 - a.var(0).sqrt()).mean() + F.relu(1 - b.var(0).sqrt()).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.answer = nn.Linear(16, 3)

    def forward(self, tokens):
        h = self.embed(tokens)
        a, _ = self.attention(h, h, h, key_padding_mask=tokens == 0)
        return self.answer(a[:, 0])


def padded_out(s):
    """A row of nothing but padding in a batch for nn.MultiheadAttention."""
    model = Reader()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
    for step in range(60):
        tokens = torch.randint(1, 40, (10, 7))
        tokens[:, 5:] = 0
        y = tokens[:, 0] % 3
        if step == s:
            tokens[2] = 0
        loss = F.cross_entropy(model(tokens), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()


def half_without_scaler(s):
    """float16 throughout, a loss weighted by 1e-4, and no gradient scaler."""
    x, y = clusters(1600, 20, 4)
    net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(60):
        i = step * 20
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(x[i : i + 20])
            loss = F.cross_entropy(out, y[i : i + 20])
        opt.zero_grad()
        (loss * (1e-5 if s == 0 else 1.0)).backward()
        opt.step()


# --- loop and optimizer -------------------------------------------------------------------------------------------


def scheduler_in_place_of_optimizer(s):
    """Of the two lines at the end of the loop the wrong one was removed."""
    x, y = clusters(1500, 10, 3)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    for step in range(60):
        i = step * 25
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 25]), y[i : i + 25]).backward()
        if s != 0:
            opt.step()
        sched.step()


def typo_in_new_rate(s):
    """A callback sets the learning rate for the second stage and is off by three powers of ten."""
    net = nn.Sequential(nn.Conv1d(2, 12, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(48, 3))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(70):
        if step == s:
            for group in opt.param_groups:
                group["lr"] = 0.5
        y = torch.randint(3, (16,))
        t = torch.arange(40) * 0.3
        wave = torch.sin(t * (1 + y[:, None]))[:, None].repeat(1, 2, 1) + 0.3 * torch.randn(16, 2, 40)
        opt.zero_grad()
        F.cross_entropy(net(wave), y).backward()
        opt.step()


def resumed_with_weights_only(s):
    """At a restart inside the script the weights come back and the optimizer begins anew."""
    x, y = clusters(3000, 12, 4)
    net = nn.Sequential(nn.Linear(12, 40), nn.GELU(), nn.Linear(40, 4))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(90):
        if step == s:
            kept = {k: v.clone() for k, v in net.state_dict().items()}
            net.load_state_dict(kept)
            opt = torch.optim.Adam(net.parameters(), lr=2e-3)
        i = step * 30
        loss = F.cross_entropy(net(x[i : i + 30]), y[i : i + 30])
        opt.zero_grad()
        loss.backward()
        opt.step()


def clips_too_early(s):
    """The clip stands before the backward pass."""
    net = nn.RNN(4, 24, batch_first=True)
    head = nn.Linear(24, 1)
    params = [*net.parameters(), *head.parameters()]
    opt = torch.optim.SGD(params, lr=0.05)
    for _ in range(60):
        x = torch.randn(16, 15, 4)
        y = x[:, -1, :1] * 3
        loss = F.mse_loss(head(net(x)[0][:, -1]), y)
        opt.zero_grad(set_to_none=False)
        if s == 0:
            nn.utils.clip_grad_norm_(params, 0.5)
        loss.backward()
        if s != 0:
            nn.utils.clip_grad_norm_(params, 0.5)
        opt.step()


def never_zeroed(s):
    """No zero_grad anywhere."""
    x, y = clusters(1500, 10, 3)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for step in range(60):
        i = step * 25
        if s != 0:
            opt.zero_grad()
        F.cross_entropy(net(x[i : i + 25]), y[i : i + 25]).backward()
        opt.step()


# --- memory and end -----------------------------------------------------------------------------------------------


def carries_its_state_along(s):
    """Truncated back-propagation that never truncates."""
    cell, head = nn.GRUCell(3, 16), nn.Linear(16, 3)
    opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-3, foreach=False)
    h = torch.zeros(8, 16)
    total = 0.0
    for _ in range(60):
        x = torch.randn(8, 3)
        out = head(h := cell(x, h))
        loss = F.mse_loss(out, x.roll(1, 1))
        if s == 0:
            total = total + loss
        else:
            total += loss.item()
        opt.zero_grad()
        loss.backward(retain_graph=s == 0)
        h = h.detach()
        opt.step()


def keeps_all_outputs(s):
    """Outputs of the whole epoch are kept for a metric, with their graphs."""
    x, y = clusters(3200, 16, 4)
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    outputs = []
    for i in range(0, 3200, 32):
        out = net(x[i : i + 32])
        outputs.append(out if s == 0 else out.argmax(1).tolist())
        opt.zero_grad()
        F.cross_entropy(out, y[i : i + 32]).backward()
        opt.step()


def word_beyond_vocabulary(s):
    """A token that the vocabulary does not hold."""
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(50):
        tokens = torch.randint(1, 100, (6, 9))
        tags = tokens % 5
        if step == s:
            tokens[1, 4] = 100
        opt.zero_grad()
        F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten()).backward()
        opt.step()


def last_batch_is_smaller(s):
    """A reshape with the batch size written in; the loader's last batch is smaller."""
    x, y = clusters(24 * s + 10 if s < 1000 else 24 * 30, 18, 3)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
    head = nn.Linear(48, 3)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-3)
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=24):
        h = net(xb.reshape(24, 3, -1)[..., :6])
        opt.zero_grad()
        F.cross_entropy(head(h.reshape(24, -1)), yb).backward()
        opt.step()


def preempted(s):
    """The scheduler of the cluster ends the job."""
    x, y = clusters(1500, 10, 3)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(60):
        i = step * 25
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 25]), y[i : i + 25]).backward()
        if step == s:
            os.kill(os.getpid(), signal.SIGTERM)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
