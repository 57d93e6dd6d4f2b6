"""Image classification the way of timm's train.py: no decay for norms and biases, mixup, warm-up and cosine, averaged weights."""

import math
import time
from collections import OrderedDict
from copy import deepcopy

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
epochs, warmup_epochs, base_lr, smoothing, mixup_alpha = 5, 1, 4e-3, 0.1, 0.2
digits = load_digits()
images = F.interpolate(torch.tensor(digits.images).float().unsqueeze(1) / 16, scale_factor=2)
images = (images - 0.3) / 0.37
labels = torch.tensor(digits.target)
loader_train = DataLoader(TensorDataset(images[:1300], labels[:1300]), batch_size=64, shuffle=True, drop_last=True)
loader_eval = DataLoader(TensorDataset(images[1300:], labels[1300:]), batch_size=128)


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        keep = torch.empty(x.shape[0], 1, 1, device=x.device).bernoulli_(1 - self.p)
        return x * keep / (1 - self.p)


class Block(nn.Module):
    def __init__(self, dim, heads, drop_path):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.drop_path(self.attn(h, h, h, need_weights=False)[0])
        return x + self.drop_path(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    def __init__(self, dim=32, depth=2, heads=4, patch=4):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, 17, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads, 0.1 * i) for i in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 10)
        nn.init.trunc_normal_(self.cls_token, std=0.02)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class ModelEma(nn.Module):
    def __init__(self, model, decay=0.98):
        super().__init__()
        self.module, self.decay = deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for ema_v, model_v in zip(self.module.state_dict().values(), model.state_dict().values()):
            ema_v.copy_(self.decay * ema_v + (1 - self.decay) * model_v)


class AverageMeter:
    def __init__(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n
        self.avg = self.sum / self.count


def mixup(x, y):
    lam = float(torch.distributions.Beta(mixup_alpha, mixup_alpha).sample())
    off, on = smoothing / 10, 1 - smoothing + smoothing / 10
    one = torch.full((len(y), 10), off).scatter_(1, y[:, None], on)
    return x * lam + x.flip(0) * (1 - lam), one * lam + one.flip(0) * (1 - lam)


def param_groups_weight_decay(model, weight_decay):
    decay, no_decay = [], []
    for name, param in model.named_parameters():
        (no_decay if param.ndim <= 1 or name in {"cls_token", "pos_embed"} else decay).append(param)
    return [{"params": no_decay, "weight_decay": 0.0}, {"params": decay, "weight_decay": weight_decay}]


model = VisionTransformer()
optimizer = torch.optim.AdamW(param_groups_weight_decay(model, 0.05), lr=base_lr)
model_ema = ModelEma(model)
updates_per_epoch = len(loader_train)


def step_update(num_updates):
    if num_updates < warmup_epochs * updates_per_epoch:
        lr = 1e-5 + (base_lr - 1e-5) * num_updates / (warmup_epochs * updates_per_epoch)
    else:
        lr = 1e-5 + 0.5 * (base_lr - 1e-5) * (1 + math.cos(math.pi * num_updates / (epochs * updates_per_epoch)))
    for group in optimizer.param_groups:
        group["lr"] = lr
    return lr


def validate(model):
    losses, top1 = AverageMeter(), AverageMeter()
    model.eval()
    with torch.no_grad():
        for input, target in loader_eval:
            output = model(input)
            losses.update(F.cross_entropy(output, target).item(), input.size(0))
            top1.update((output.argmax(1) == target).float().mean().item() * 100, input.size(0))
    return OrderedDict([("loss", losses.avg), ("top1", top1.avg)])


best_metric = None
step_update(0)
for epoch in range(epochs):
    model.train()
    losses, batch_time, end = AverageMeter(), AverageMeter(), time.time()
    for batch_idx, (input, target) in enumerate(loader_train):
        input, target = mixup(input, target)
        output = model(input)
        loss = torch.sum(-target * F.log_softmax(output, dim=-1), dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model_ema.update(model)
        losses.update(loss.item(), input.size(0))
        lr = step_update(epoch * updates_per_epoch + batch_idx + 1)
        batch_time.update(time.time() - end)
        end = time.time()
        if batch_idx % 5 == 0:
            print(f"Train: {epoch} [{batch_idx}/{updates_per_epoch}] Loss: {losses.val!r} ({losses.avg!r}) LR: {lr!r}")
    metrics, ema_metrics = validate(model), validate(model_ema.module)
    print("Test:", dict(metrics), "EMA:", dict(ema_metrics))
    best_metric = max(best_metric or 0, ema_metrics["top1"])
print(f"*** Best metric: {best_metric!r}")
