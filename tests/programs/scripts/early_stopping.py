"""Tabular regression with early stopping: the best weights are kept by deepcopy and put back at the end."""

import copy

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=7)
X_train, X_val, y_train, y_val = train_test_split(X_train, y_train, test_size=0.25, random_state=7)
scaler = StandardScaler().fit(X_train)
target = StandardScaler().fit(y_train[:, None])


def tensors(features, labels):
    return torch.tensor(scaler.transform(features)).float(), torch.tensor(target.transform(labels[:, None])).float()


train_loader = DataLoader(TensorDataset(*tensors(X_train, y_train)), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(*tensors(X_val, y_val)), batch_size=64)


class EarlyStopping:
    """Stops when the validation loss has not become better for some epochs."""

    def __init__(self, patience=5, min_delta=0.0):
        self.patience, self.min_delta = patience, min_delta
        self.best, self.best_state, self.counter, self.early_stop = np.inf, None, 0, False

    def __call__(self, val_loss, model):
        if val_loss < self.best - self.min_delta:
            self.best, self.counter = val_loss, 0
            self.best_state = copy.deepcopy(model.state_dict())
        else:
            self.counter += 1
            self.early_stop = self.counter >= self.patience


model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
stopper = EarlyStopping()
for epoch in range(60):
    model.train()
    running = 0.0
    for features, labels in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(features), labels)
        loss.backward()
        optimizer.step()
        running += loss.item() * len(features)
    model.eval()
    with torch.no_grad():
        val_loss = sum(criterion(model(f), t).item() * len(f) for f, t in val_loader) / len(val_loader.dataset)
    scheduler.step(val_loss)
    print(epoch, running / len(train_loader.dataset), val_loss, optimizer.param_groups[0]["lr"])
    stopper(val_loss, model)
    if stopper.early_stop:
        print(f"Early stopping at epoch {epoch}")
        break
model.load_state_dict(stopper.best_state)
model.eval()
with torch.no_grad():
    features, labels = tensors(X_test, y_test)
    print("test", criterion(model(features), labels).item(), "best", stopper.best)
