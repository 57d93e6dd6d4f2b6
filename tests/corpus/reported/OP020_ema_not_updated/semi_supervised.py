import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
CLASSES = 4


def make_points(n, seed):
    g = torch.Generator().manual_seed(seed)
    protos = 1.2 * torch.randn(CLASSES, 16, generator=torch.Generator().manual_seed(3))
    y = torch.randint(0, CLASSES, (n,), generator=g)
    return protos[y] + torch.randn(n, 16, generator=g), y


def create_model(ema=False):
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    if ema:
        for param in model.parameters():
            param.detach_()
    return model


class WeightEMA:
    def __init__(self, model, ema_model, lr, alpha=0.995):
        self.alpha = alpha
        self.params = list(model.state_dict().values())
        self.ema_params = list(ema_model.state_dict().values())
        self.wd = 0.02 * lr
        for param, ema_param in zip(self.params, self.ema_params):
            param = ema_param

    def step(self):
        for param, ema_param in zip(self.params, self.ema_params):
            ema_param.mul_(self.alpha)
            ema_param.add_(param * (1 - self.alpha))
            param.mul_(1 - self.wd)


def sharpen(p, t=0.5):
    p = p ** (1 / t)
    return p / p.sum(1, keepdim=True)


def validate(model, data):
    model.eval()
    with torch.no_grad():
        out = model(data[0])
        return F.cross_entropy(out, data[1]).item(), (out.argmax(1) == data[1]).float().mean().item()


def main(steps=300, lr=2e-3):
    torch.manual_seed(0)
    lx, ly = make_points(120, 1)
    ux, _ = make_points(2000, 2)
    valid = make_points(500, 4)
    model = create_model()
    ema_model = create_model(ema=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    ema_optimizer = WeightEMA(model, ema_model, lr)
    for step in range(steps):
        model.train()
        li = torch.randint(0, len(lx), (32,))
        ui = torch.randint(0, len(ux), (64,))
        weak, strong = (ux[ui] + 0.2 * torch.randn(64, 16) for _ in range(2))
        with torch.no_grad():
            guess = sharpen((F.softmax(model(weak), 1) + F.softmax(model(strong), 1)) / 2)
        loss_x = F.cross_entropy(model(lx[li] + 0.2 * torch.randn(32, 16)), ly[li])
        loss_u = (F.softmax(model(strong), 1) - guess).pow(2).mean()
        loss = loss_x + min(1.0, step / 100) * 5.0 * loss_u
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema_optimizer.step()
        if (step + 1) % 30 == 0:
            val, acc = validate(ema_model, valid)
            print(f"step {step + 1} loss {loss.item():.4f} ema valid {val:.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
