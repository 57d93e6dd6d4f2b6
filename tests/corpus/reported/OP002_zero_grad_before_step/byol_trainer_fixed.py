import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_images(n, generator):
    """Four kinds of 16x16 texture, each with its own phase, contrast and noise."""
    labels = torch.randint(0, 4, (n,), generator=generator)
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    phase = torch.rand(n, 1, 1, generator=generator) * 6.28
    freq = 0.9
    waves = torch.stack([xx, yy, (xx + yy) * 0.7, (xx - yy) * 0.7])[labels]
    imgs = torch.sin(freq * waves + phase)
    imgs = imgs + 0.3 * torch.randn(n, 16, 16, generator=generator)
    return imgs.unsqueeze(1), labels


class Augment(nn.Module):
    def forward(self, x):
        b = x.shape[0]
        shift = torch.randint(0, 16, (2,)).tolist()
        x = torch.roll(x, shifts=shift, dims=(2, 3))
        scale = 0.7 + 0.6 * torch.rand(b, 1, 1, 1)
        return x * scale + 0.2 * torch.randn_like(x)


class MLP(nn.Module):
    def __init__(self, dim, out, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(),
                                 nn.Linear(hidden, out))

    def forward(self, x):
        return self.net(x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.projector = MLP(16, 32)

    def forward(self, x):
        rep = self.body(x)
        return self.projector(rep), rep


class BYOL(nn.Module):
    def __init__(self, moving_average_decay=0.97):
        super().__init__()
        self.online = Encoder()
        self.predictor = MLP(32, 32)
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad_(False)
        self.augment1, self.augment2 = Augment(), Augment()
        self.decay = moving_average_decay

    @torch.no_grad()
    def update_moving_average(self):
        for po, pt in zip(self.online.parameters(), self.target.parameters()):
            pt.lerp_(po, 1 - self.decay)

    def loss_fn(self, x, y):
        return 2 - 2 * (F.normalize(x, dim=-1) * F.normalize(y, dim=-1)).sum(-1)

    def forward(self, images):
        one, two = self.augment1(images), self.augment2(images)
        p1, p2 = self.predictor(self.online(one)[0]), self.predictor(self.online(two)[0])
        with torch.no_grad():
            t1, t2 = self.target(one)[0], self.target(two)[0]
        return (self.loss_fn(p1, t2) + self.loss_fn(p2, t1)).mean() / 2


class Trainer:
    def __init__(self, net, dataset, num_train_steps, batch_size=32, learning_rate=1e-3):
        self.net = net
        self.dl = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
        self.optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=learning_rate)
        self.num_train_steps = num_train_steps

    def cycle(self):
        while True:
            yield from self.dl

    def __call__(self):
        self.net.train()
        batches = self.cycle()
        for step in range(self.num_train_steps):
            images = next(batches)[0]
            loss = self.net(images)
            self.optimizer.zero_grad()
            loss.backward()

            self.optimizer.step()
            self.net.update_moving_average()
            if step % 20 == 0:
                print(f"step {step:4d}  loss {loss.item():.4f}")
        print("training complete")


@torch.no_grad()
def knn_accuracy(net, bank, queries, k=15):
    net.eval()
    f_bank = F.normalize(net.online(bank[0])[1], dim=-1)
    f_q = F.normalize(net.online(queries[0])[1], dim=-1)
    idx = (f_q @ f_bank.t()).topk(k, dim=-1).indices
    votes = F.one_hot(bank[1][idx], 4).sum(1)
    return (votes.argmax(-1) == queries[1]).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(11)
    g = torch.Generator().manual_seed(5)
    train_set, test_set = make_images(640, g), make_images(160, g)
    model = BYOL()
    print(f"knn before: {knn_accuracy(model, train_set, test_set):.3f}")
    Trainer(model, TensorDataset(train_set[0]), num_train_steps=160)()
    print(f"knn after:  {knn_accuracy(model, train_set, test_set):.3f}")
