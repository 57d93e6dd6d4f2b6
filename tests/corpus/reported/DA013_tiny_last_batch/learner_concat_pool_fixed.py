from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)


class DataBunch:
    def __init__(self, train_dl, valid_dl):
        self.train_dl, self.valid_dl = train_dl, valid_dl

    @classmethod
    def create(cls, ds, valid_pct=0.2, bs=32, seed=0):
        n_val = int(len(ds) * valid_pct)
        train_ds, valid_ds = random_split(ds, [len(ds) - n_val, n_val], torch.Generator().manual_seed(seed))
        train_dl = DataLoader(train_ds, bs, shuffle=True, drop_last=True)
        return cls(train_dl, DataLoader(valid_ds, bs * 2))


class AdaptiveConcatPool2d(nn.Module):
    def forward(self, x):
        return torch.cat([F.adaptive_max_pool2d(x, 1), F.adaptive_avg_pool2d(x, 1)], 1)


def conv_layer(ni, nf):
    return nn.Sequential(nn.Conv2d(ni, nf, 3, padding=1, bias=False), nn.BatchNorm2d(nf), nn.ReLU(), nn.MaxPool2d(2))


def create_head(nf, nc, ps=0.1):
    return nn.Sequential(AdaptiveConcatPool2d(), nn.Flatten(),
                         nn.BatchNorm1d(nf), nn.Linear(nf, 48, bias=False), nn.ReLU(),
                         nn.BatchNorm1d(48), nn.Dropout(ps), nn.Linear(48, nc))


def create_cnn(nc):
    return nn.Sequential(conv_layer(3, 8), conv_layer(8, 16), create_head(32, nc))


class Learner:
    def __init__(self, data, model, opt_func=partial(torch.optim.AdamW, weight_decay=0.01), loss_func=F.cross_entropy):
        self.data, self.model, self.opt_func, self.loss_func = data, model, opt_func, loss_func

    def fit_one_cycle(self, cyc_len, max_lr=4e-3):
        opt = self.opt_func(self.model.parameters(), lr=max_lr / 25)
        total = cyc_len * len(self.data.train_dl)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr, total_steps=total, pct_start=0.3)
        print("epoch  train_loss  valid_loss  accuracy")
        for epoch in range(cyc_len):
            self.model.train()
            smooth = None
            for xb, yb in self.data.train_dl:
                loss = self.loss_func(self.model(xb), yb)
                loss.backward()
                opt.step()
                sched.step()
                opt.zero_grad()
                smooth = loss.item() if smooth is None else 0.9 * smooth + 0.1 * loss.item()
            val_loss, acc = self.validate()
            print(f"{epoch:5d}  {smooth:10.4f}  {val_loss:10.4f}  {acc:8.4f}")

    def validate(self):
        self.model.eval()
        loss, hit, n = 0.0, 0, 0
        with torch.no_grad():
            for xb, yb in self.data.valid_dl:
                out = self.model(xb)
                loss += self.loss_func(out, yb, reduction="sum").item()
                hit += (out.argmax(1) == yb).sum().item()
                n += len(yb)
        return loss / n, hit / n


def make_flags(n, seed):
    """Two-band flags: the class is the pair of colours, bands may be horizontal or vertical."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=g)
    palette = torch.tensor([[1., -1, -1], [-1, 1., -1], [-1, -1, 1.], [1., 1, -1]])
    pairs = torch.tensor([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])[y]
    x = torch.empty(n, 3, 16, 16)
    for i in range(n):
        a, b = palette[pairs[i, 0]], palette[pairs[i, 1]]
        if torch.rand(1, generator=g) < 0.5:
            a, b = b, a
        cut = int(torch.randint(5, 11, (1,), generator=g))
        x[i] = b[:, None, None]
        if torch.rand(1, generator=g) < 0.5:
            x[i, :, :cut] = a[:, None, None]
        else:
            x[i, :, :, :cut] = a[:, None, None]
    return x + 1.0 * torch.randn(x.shape, generator=g), y


if __name__ == "__main__":
    torch.manual_seed(12)
    data = DataBunch.create(TensorDataset(*make_flags(801, 3)), bs=32)
    learn = Learner(data, create_cnn(6))
    learn.fit_one_cycle(5)
