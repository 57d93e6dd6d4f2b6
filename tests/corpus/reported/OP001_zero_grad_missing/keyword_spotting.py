import argparse
import logging

import torch
import torch.nn as nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset


def make_utterances(num, num_keywords, frames, dim, bank, seed):
    g = torch.Generator().manual_seed(seed)
    feats = torch.randn(num, frames, dim, generator=g) * 0.8
    labels = torch.randint(0, num_keywords, (num,), generator=g)
    length = bank.size(1)
    for i in range(num):
        start = int(torch.randint(0, frames - length + 1, (1,), generator=g))
        feats[i, start:start + length] += bank[labels[i]]
    return feats, labels


class DSBlock(nn.Module):
    def __init__(self, channels, kernel, dilation):
        super().__init__()
        pad = (kernel - 1) * dilation // 2
        self.depthwise = nn.Conv1d(channels, channels, kernel, padding=pad, dilation=dilation, groups=channels)
        self.norm = nn.BatchNorm1d(channels)
        self.pointwise = nn.Conv1d(channels, channels, 1)
        self.act = nn.ReLU()

    def forward(self, x):
        return x + self.pointwise(self.act(self.norm(self.depthwise(x))))


class KWSModel(nn.Module):
    def __init__(self, dim, hidden, num_keywords):
        super().__init__()
        self.preprocess = nn.Conv1d(dim, hidden, 1)
        self.backbone = nn.Sequential(*[DSBlock(hidden, 5, 2 ** i) for i in range(3)])
        self.classifier = nn.Linear(hidden, num_keywords)

    def forward(self, feats):
        x = self.backbone(self.preprocess(feats.transpose(1, 2)))
        return self.classifier(x.amax(dim=2))


class Executor:
    def __init__(self):
        self.step = 0

    def train(self, model, optimizer, data_loader, args):
        model.train()
        for batch_idx, (feats, target) in enumerate(data_loader):
            logits = model(feats)
            loss = nn.functional.cross_entropy(logits, target)
            loss.backward()
            grad_norm = clip_grad_norm_(model.parameters(), args.grad_clip)
            if torch.isfinite(grad_norm):
                optimizer.step()
            if batch_idx % args.log_interval == 0:
                logging.info("TRAIN batch %d loss %.4f grad_norm %.3f", batch_idx, loss.item(), grad_norm.item())
            self.step += 1

    def cv(self, model, data_loader):
        model.eval()
        total, count, correct = 0.0, 0, 0
        with torch.no_grad():
            for feats, target in data_loader:
                logits = model(feats)
                total += nn.functional.cross_entropy(logits, target, reduction="sum").item()
                correct += (logits.argmax(1) == target).sum().item()
                count += target.numel()
        return total / count, correct / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--grad_clip", type=float, default=5.0)
    parser.add_argument("--log_interval", type=int, default=10)
    parser.add_argument("--seed", type=int, default=777)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(args.seed)

    num_keywords, frames, dim = 8, 50, 20
    bank = torch.randn(num_keywords, 12, dim, generator=torch.Generator().manual_seed(3)) * 0.6
    train_set = TensorDataset(*make_utterances(1920, num_keywords, frames, dim, bank, 1))
    cv_set = TensorDataset(*make_utterances(480, num_keywords, frames, dim, bank, 2))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    cv_loader = DataLoader(cv_set, batch_size=args.batch_size)

    model = KWSModel(dim, 48, num_keywords)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    executor = Executor()
    for epoch in range(args.epochs):
        executor.train(model, optimizer, train_loader, args)
        cv_loss, acc = executor.cv(model, cv_loader)
        logging.info("Epoch %d CV loss %.4f acc %.3f", epoch, cv_loss, acc)


if __name__ == "__main__":
    main()
