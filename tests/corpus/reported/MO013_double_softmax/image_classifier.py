import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data as data_utils


class LeNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5)
        self.conv2 = nn.Conv2d(16, 32, 3)
        self.fc1 = nn.Linear(32 * 4, 64)
        self.fc2 = nn.Linear(64, n_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return F.softmax(self.fc2(x), dim=1)


def get_loaders(batch_size, n_classes, seed):
    g = torch.Generator().manual_seed(seed)
    protos = torch.randn(n_classes, 1, 16, 16, generator=g)

    def split(n):
        y = torch.randint(0, n_classes, (n,), generator=g)
        x = protos[y] + torch.randn(n, 1, 16, 16, generator=g)
        return data_utils.TensorDataset(x / 2 ** 0.5, y)

    train = data_utils.DataLoader(split(1920), batch_size=batch_size, shuffle=True)
    val = data_utils.DataLoader(split(640), batch_size=128)
    return train, val


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    loss, correct, n = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += criterion(out, y).item() * len(y)
        correct += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, correct / n


def train_model(args):
    torch.manual_seed(args.randseed)
    train_loader, val_loader = get_loaders(args.batch_size, args.n_classes, args.randseed)
    model = LeNet(args.n_classes)
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.wd)
    n_steps = args.n_epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, n_steps)

    for epoch in range(1, args.n_epochs + 1):
        model.train()
        train_loss = 0.0
        for x, y in train_loader:
            loss = criterion(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            scheduler.step()
            train_loss = 0.9 * train_loss + 0.1 * loss.item()
        val_loss, val_acc = evaluate(model, val_loader, criterion)
        print(f"[Epoch {epoch}] train loss: {train_loss:.3f}; val loss: {val_loss:.3f}; val acc: {val_acc:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_classes", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--n_epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--wd", type=float, default=1e-4)
    parser.add_argument("--randseed", type=int, default=123)
    train_model(parser.parse_args())
