import copy

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class EMA(nn.Module):
    def __init__(self, model, beta=0.95, update_after_step=20, update_every=1):
        super().__init__()
        self.beta = beta
        self.online_model = [model]
        self.ema_model = copy.deepcopy(model)
        self.ema_model.requires_grad_(False)
        self.update_after_step = update_after_step
        self.update_every = update_every
        self.parameter_names = {n for n, p in model.named_parameters() if p.dtype == torch.float}
        self.buffer_names = {n for n, b in model.named_buffers() if b.dtype == torch.float}
        self.step = 0

    @property
    def model(self):
        return self.online_model[0]

    def get_params_iter(self, model):
        for name, param in model.named_parameters():
            if name not in self.parameter_names:
                continue
            yield name, param

    def get_buffers_iter(self, model):
        for name, buffer in model.named_parameters():
            if name not in self.buffer_names:
                continue
            yield name, buffer

    @torch.no_grad()
    def copy_params_from_model_to_ema(self):
        for (_, ma), (_, cur) in zip(self.get_params_iter(self.ema_model), self.get_params_iter(self.model)):
            ma.copy_(cur)
        for (_, ma), (_, cur) in zip(self.get_buffers_iter(self.ema_model), self.get_buffers_iter(self.model)):
            ma.copy_(cur)

    @torch.no_grad()
    def update(self):
        self.step += 1
        if self.step % self.update_every != 0:
            return
        if self.step <= self.update_after_step:
            self.copy_params_from_model_to_ema()
            return
        for (_, ma), (_, cur) in zip(self.get_params_iter(self.ema_model), self.get_params_iter(self.model)):
            ma.lerp_(cur, 1 - self.beta)
        for (_, ma), (_, cur) in zip(self.get_buffers_iter(self.ema_model), self.get_buffers_iter(self.model)):
            ma.lerp_(cur, 1 - self.beta)

    def forward(self, x):
        return self.ema_model(x)


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


def textures(n, seed, classes=6, size=16):
    base = torch.randn(classes, 3, size, size, generator=torch.Generator().manual_seed(8))
    base = F.avg_pool2d(base, 5, 1, 2) * 3.0 + 0.5
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    x = 0.4 * base[y] + torch.randn(n, 3, size, size, generator=g)
    return TensorDataset(x, y)


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    loss, hits, n = 0.0, 0, 0
    for x, y in loader:
        out = net(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        hits += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, hits / n


torch.manual_seed(6)
net = nn.Sequential(conv_block(3, 16), conv_block(16, 32), conv_block(32, 32), nn.Flatten(), nn.Linear(32 * 4, 6))
ema = EMA(net)
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
train_dl = DataLoader(textures(2560, 1), batch_size=64, shuffle=True)
val_dl = DataLoader(textures(512, 2), batch_size=128)

for epoch in range(6):
    net.train()
    for x, y in train_dl:
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update()
    l, a = evaluate(net, val_dl)
    el, ea = evaluate(ema, val_dl)
    print(f"epoch {epoch} train {loss.item():.4f} | online {l:.4f} {a:.3f} | ema {el:.4f} {ea:.3f}")
