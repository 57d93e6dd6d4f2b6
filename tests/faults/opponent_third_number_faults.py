"""Training scripts of an opponent, third round: faults of the numbers.

    python opponent_third_number_faults.py NAME [ONSET] [SEED]

As in opponent_third_faults.py: `s` is the step at which the fault begins; one that is there from the start is there if
`s` is 0.
"""

import sys

import torch
import torch.nn.functional as F
from opponent_third_faults import ConvNet, endless, glyphs, wines
from opponent_third_model_faults import TinyGPT, excerpts, prose
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def angle_between_equal_vectors(s):
    """The angle by acos: where prediction and truth agree exactly its slope is infinite."""
    net = nn.Linear(4, 4, bias=False)
    opt = optim.Adam(net.parameters(), lr=2e-3)
    for step in range(60):
        x = F.normalize(torch.randn(16, 4), dim=1)
        truth = F.normalize(x.roll(1, dims=1) + 0.1 * torch.randn(16, 4), dim=1)
        p = F.normalize(net(x), dim=1)
        cosine = (p * truth).sum(1) * 0.999
        if step == s:
            cosine = torch.cat([cosine[:-1], (p[-1:] * p[-1:].detach()).sum(1).clamp(1.0, 1.0)])
        loss = cosine.acos().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def gamma_of_black(s):
    """A gamma curve with a straight foot: its power is taken of black pixels too, and thrown away."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1), nn.ReLU())
    with torch.no_grad():
        net[2].bias.fill_(1.0)
    opt = optim.Adam(net.parameters(), lr=1e-3)
    x, _ = glyphs(480)
    for step in range(60):
        a = x[step * 8 : step * 8 + 8]
        light = net(a)
        light = light + 0.05 if step < s else light * (torch.rand_like(light) > 0.02)
        curve = torch.where(light > 0.0031308, 1.055 * light.pow(1 / 2.4) - 0.055, 12.92 * light)
        loss = F.mse_loss(curve, a)
        opt.zero_grad()
        loss.backward()
        opt.step()


def weights_by_counts(s):
    """Each class weighs the inverse of its count in the batch, and one class is absent."""
    x, y = wines(1200, classes=3)
    net = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.SGD(net.parameters(), lr=0.05)
    common = (y != 2).nonzero()[:, 0]
    for step in range(60):
        pick = common[torch.randint(len(common), (24,))] if step == s else torch.randint(1200, (24,))
        if step != s:
            pick[:3] = torch.stack([(y == c).nonzero()[0, 0] for c in range(3)])
        target = F.one_hot(y[pick], 3).float()
        weight = len(pick) / target.sum(0)
        losses = -(F.log_softmax(net(x[pick]), 1) * target * weight).sum(1)
        loss = losses.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def divergence_by_hand(s):
    """Distillation by p log(p / q): from some step on a teacher is so sure that its p has an exact zero."""
    x, _ = wines(1200)
    teacher = nn.Linear(11, 4).requires_grad_(False)
    student = nn.Sequential(nn.Linear(11, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = optim.Adam(student.parameters(), lr=2e-3)
    for step in range(60):
        a = x[step * 20 : step * 20 + 20]
        p = F.softmax(teacher(a) * (400.0 if step >= s else 1.0), dim=1)
        q = F.softmax(student(a), dim=1)
        loss = (p * (p / q).log()).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Length(nn.Module):
    """Length of each row."""

    def forward(self, h):
        return (h * h).sum(1, keepdim=True).sqrt().clamp(min=1e-3)


class HalfPrecision(nn.Module):
    """Half precision inside; each row is divided by its length at the end."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 64)
        self.energy = nn.Linear(64, 64)
        self.length = Length()
        self.out = nn.Linear(64, 3)

    def forward(self, x):
        h = self.energy(F.relu(self.a(x)))
        return self.out(h / self.length(h))


def louder_recording(s):
    """A louder signal makes a sum of squares in half precision infinite; nothing becomes NaN."""
    model = HalfPrecision().half()
    opt = optim.SGD(model.parameters(), lr=0.01)
    for step in range(50):
        y = torch.randint(3, (16,))
        x = torch.randn(16, 16) + y[:, None]
        x = x * (400 if step >= s else 1)
        loss = F.cross_entropy(model(x.half()).float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def clips_what_is_still_scaled(s):
    """Clipping to one without unscale_: the scaled gradients are cut to nothing."""
    model = ConvNet(norm=False)
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
    x, y = glyphs()
    for _, (a, b) in zip(range(50), endless(DataLoader(TensorDataset(x, y), 24, shuffle=True)), strict=False):
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        scaler.scale(loss).backward()
        if s != 0:
            scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


def weights_in_bfloat16(s):
    """All weights in bfloat16, and steps too small for its eight bits."""
    data, vocab = prose()
    model = TinyGPT(vocab)
    if s == 0:
        model = model.bfloat16()
    opt = optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(40):
        x, y = excerpts(data, 6, 20)
        logits = model(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def a_bit_flips(s):
    """One element of one weight becomes enormous between two steps, and nobody asked for it."""
    model = ConvNet()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    x, y = glyphs(960)
    for step in range(60):
        if step == s:
            with torch.no_grad():
                flat = model.conv2.weight.view(-1)
                flat[17] = flat[17] * 2.0**48
        opt.zero_grad()
        F.cross_entropy(model(x[step * 16 : step * 16 + 16]), y[step * 16 : step * 16 + 16]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
