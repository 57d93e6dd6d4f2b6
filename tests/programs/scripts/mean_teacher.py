"""Semi-supervised learning with a mean teacher: consistency on unlabelled samples, teacher weights an average of the student's."""

import math

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
digits = load_digits()
x, y = torch.tensor(digits.data).float() / 16, torch.tensor(digits.target)
labelled = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
unlabelled = DataLoader(TensorDataset(x[200:1400]), batch_size=60, shuffle=True)
test_loader = DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=100)
student = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
teacher = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.95))
optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, nesterov=True)


def rampup(epoch, length=5):
    phase = 1.0 - min(epoch, length) / length
    return math.exp(-5.0 * phase * phase)


def noisy(batch):
    return batch + 0.1 * torch.randn_like(batch)


def accuracy(model):
    model.eval()
    with torch.no_grad():
        return sum((model(a).argmax(1) == b).sum().item() for a, b in test_loader) / len(test_loader.dataset)


for epoch in range(8):
    student.train()
    teacher.train()
    again = iter(labelled)
    for (images,) in unlabelled:
        try:
            inputs, labels = next(again)
        except StopIteration:
            again = iter(labelled)
            inputs, labels = next(again)
        both = torch.cat((inputs, images))
        logits = student(noisy(both))
        with torch.no_grad():
            targets = F.softmax(teacher(noisy(both)), dim=1)
        class_loss = F.cross_entropy(logits[: len(inputs)], labels)
        consistency = 10 * rampup(epoch) * F.mse_loss(F.softmax(logits, dim=1), targets)
        loss = class_loss + consistency
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        teacher.update_parameters(student)
    print(epoch, class_loss.item(), consistency.item(), accuracy(student), accuracy(teacher))
