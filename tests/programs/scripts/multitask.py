"""Two heads on one body, weighted by learned uncertainties: the digit, and its mean brightness and centre of mass."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
digits = load_digits()
images = torch.tensor(digits.images).float() / 16
mass = images.sum((1, 2))
grid = torch.arange(8).float()
centre = torch.stack(((images.sum(2) * grid).sum(1) / mass, (images.sum(1) * grid).sum(1) / mass, mass), dim=1)
centre = (centre - centre.mean(0)) / centre.std(0)
dataset = TensorDataset(images.unsqueeze(1), torch.tensor(digits.target), centre)
train_set, val_set = torch.utils.data.random_split(dataset, [1500, 297])
train_loader = DataLoader(train_set, batch_size=50, shuffle=True)
val_loader = DataLoader(val_set, batch_size=99)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 48), nn.ReLU()
        )
        self.classify, self.regress = nn.Linear(48, 10), nn.Linear(48, 3)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = self.body(x)
        return self.classify(h), self.regress(h)

    def loss(self, outputs, label, values):
        losses = torch.stack((F.cross_entropy(outputs[0], label), F.mse_loss(outputs[1], values)))
        return (torch.exp(-self.log_vars) * losses + self.log_vars).sum(), losses


model = MultiTask()
optimizer = torch.optim.Adam(
    [
        {"params": [p for n, p in model.named_parameters() if n != "log_vars"], "lr": 2e-3},
        {"params": [model.log_vars], "lr": 1e-2},
    ]
)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [4], gamma=0.3)
for epoch in range(6):
    model.train()
    for image, label, values in train_loader:
        total, losses = model.loss(model(image), label, values)
        optimizer.zero_grad(set_to_none=True)
        total.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        parts = [(model(image), label, values) for image, label, values in val_loader]
        hits = sum((o[0].argmax(1) == label).sum().item() for o, label, _ in parts)
        error = sum(F.mse_loss(o[1], values, reduction="sum").item() for o, _, values in parts)
    print(epoch, total.item(), losses.tolist(), hits / len(val_set), error / len(val_set), model.log_vars.tolist())
