import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
PROTOS = torch.randn(10, 20, generator=torch.Generator().manual_seed(8))


def make_task(n, classes, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, len(classes), (n,), generator=g)
    x = 0.7 * PROTOS[torch.tensor(classes)[y]] + 0.7 * torch.randn(n, 20, generator=g)
    return TensorDataset(x, y)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU())
        self.classifier = nn.Linear(48, classes)

    def forward(self, x):
        return self.classifier(self.features(x))


class TrainableParamsModifier:
    def __init__(self, params, trainable, start_epoch=0.0):
        self.params, self.trainable, self.start_epoch = params, trainable, start_epoch
        self.applied = False

    def update(self, module, epoch):
        if self.applied or epoch < self.start_epoch:
            return
        for name, param in module.named_parameters():
            if name.startswith(self.params):
                param.requires_grad = self.trainable
        self.applied = True


class ScheduledModifierManager:
    def __init__(self, modifiers):
        self.modifiers = modifiers

    def update(self, module, epoch):
        for mod in self.modifiers:
            mod.update(module, epoch)

    def modify(self, module, optimizer, steps_per_epoch):
        manager, inner, state = self, optimizer.step, {"n": 0}

        def step(*args, **kwargs):
            manager.update(module, state["n"] / steps_per_epoch)
            state["n"] += 1
            return inner(*args, **kwargs)

        optimizer.step = step
        return optimizer


def run(net, loader, valid, optimizer, epochs, tag):
    vx, vy = valid.tensors
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            total += loss.item()
        net.eval()
        with torch.no_grad():
            val = F.cross_entropy(net(vx), vy).item()
        print(f"{tag} epoch {epoch} train {total / len(loader):.4f} valid {val:.4f}")


def main():
    torch.manual_seed(20)
    source = DataLoader(make_task(1200, [0, 1, 2, 3, 4, 5], 1), batch_size=40, shuffle=True)
    dense = Net(6)
    optimizer = torch.optim.SGD(dense.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    run(dense, source, make_task(300, [0, 1, 2, 3, 4, 5], 2), optimizer, 4, "upstream")

    target = DataLoader(make_task(800, [6, 7, 8, 9], 3), batch_size=32, shuffle=True)
    net = Net(4)
    net.features.load_state_dict(dense.features.state_dict())
    before = net.features[0].weight.detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    manager = ScheduledModifierManager([TrainableParamsModifier("features", trainable=False, start_epoch=0.0)])
    optimizer = manager.modify(net, optimizer, len(target))
    run(net, target, make_task(300, [6, 7, 8, 9], 4), optimizer, 5, "transfer")
    print("backbone change", (net.features[0].weight - before).abs().max().item())


if __name__ == "__main__":
    main()
