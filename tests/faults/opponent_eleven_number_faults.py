"""Training scripts of an opponent, eleventh round: what is scaled, clipped and evaluated by code of the script's own.

    python opponent_eleven_number_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self, vocab=80, dim=40, tags=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.drop = nn.Dropout(0.3)
        self.rnn = nn.GRU(dim, 48, batch_first=True, bidirectional=True)
        self.out = nn.Linear(96, tags)
        self.goes_back = False

    def forward(self, tokens):
        h, _ = self.rnn(self.drop(self.embed(tokens)))
        return self.out(self.drop(h))

    def predict(self, tokens):
        logits = self(tokens)
        if self.goes_back:
            self.train()
        return logits.softmax(-1)


def predicts_and_goes_back_to_training(s):
    """Only the first batch of an evaluation runs in eval mode: predict() switches back."""
    net, rule = Tagger(), torch.randint(0, 6, (80,))
    tokens = torch.randint(0, 80, (1200, 14))
    tags = (rule[tokens] + (tokens.roll(1, 1) < 20)) % 6
    opt = torch.optim.RAdam(net.parameters(), lr=1.5e-2)
    for i in range(110):
        if i > 0 and i % min(s, 40) == 0:
            net.goes_back = i >= s
            net.eval()
            with torch.inference_mode():
                right = sum(
                    (net.predict(tokens[a : a + 25]).argmax(-1) == tags[a : a + 25]).sum().item()
                    for a in range(1000, 1200, 25)
                )
            print(i, right / 2800)
        net.train()
        idx = torch.randint(0, 1000, (20,))
        loss = F.cross_entropy(net(tokens[idx]).flatten(0, 1), tags[idx].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.n1, self.n2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return torch.relu(x + self.n2(self.b(torch.relu(self.n1(self.a(x))))))


def limits(parameters, ceiling):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.stack([g.float().norm() for g in grads]).norm()
    if total > ceiling:
        torch._foreach_mul_(grads, (ceiling / total).item())


def clips_by_hand_what_is_still_scaled(s):
    """From s on the script's own clipping comes before the gradients are divided."""
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        Residual(16),
        nn.MaxPool2d(2),
        Residual(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 6),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=500)
    kernels = torch.randn(6, 3, 8, 8)
    for i in range(90):
        y = torch.randint(0, 6, (24,))
        x = kernels[y] + torch.randn(24, 3, 8, 8)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        if i < s:
            scaler.unscale_(opt)
        limits(list(net.parameters()), 2.0)
        scaler.step(opt)
        scaler.update()


def sharpens_until_half_overflows(s):
    """Prototypes are compared in half precision at a sharpness that is divided out again; from s on nothing stops its growth."""
    trunk = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 32))
    model = nn.ModuleDict({"trunk": trunk, "match": nn.Linear(32, 8, bias=False)})
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    centers, sharpness = torch.randn(8, 24), 1.0
    for i in range(110):
        y = torch.randint(0, 8, (48,))
        x = centers[y] + 0.9 * torch.randn(48, 24)
        if i and i % 4 == 0 and (sharpness < 8 or i >= s):
            sharpness *= 2
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model["match"](model["trunk"](x) * sharpness)
        loss = F.cross_entropy(logits.float() / sharpness, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 14)
