"""Optimize a multi-layer perceptron on a small image classification problem."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

BATCHSIZE = 128
CLASSES = 10
EPOCHS = 12
SIDE = 20


def build_images(n, seed):
    protos = torch.rand(CLASSES, SIDE, SIDE, generator=torch.Generator().manual_seed(11))
    protos = F.avg_pool2d(protos[:, None], 5, 1, 2)[:, 0]
    protos = (protos - protos.mean()) / protos.std()
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (n,), generator=g)
    images = 0.5 * protos[labels] + torch.randn(n, SIDE, SIDE, generator=g)
    return images, labels


def define_model(trial):
    layers = []
    in_features = SIDE * SIDE
    for units, p in zip(trial["units"], trial["dropout"]):
        layers.append(nn.Linear(in_features, units))
        layers.append(nn.ReLU())
        layers.append(nn.Dropout(p))
        in_features = units
    layers.append(nn.Linear(in_features, CLASSES))
    layers.append(nn.LogSoftmax(dim=1))
    return nn.Sequential(*layers)


def get_loaders():
    train_loader = DataLoader(TensorDataset(*build_images(3840, 0)), batch_size=BATCHSIZE, shuffle=True)
    valid_loader = DataLoader(TensorDataset(*build_images(1280, 1)), batch_size=BATCHSIZE)
    return train_loader, valid_loader


def objective(trial):
    model = define_model(trial)
    optimizer = getattr(optim, trial["optimizer"])(model.parameters(), lr=trial["lr"])
    train_loader, valid_loader = get_loaders()

    model.train()
    for epoch in range(EPOCHS):
        running = 0.0
        for data, target in train_loader:
            data = data.view(data.size(0), -1)
            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            loss.backward()
            optimizer.step()
            running += loss.item()

        model.eval()
        correct = 0
        valid_loss = 0.0
        with torch.no_grad():
            for data, target in valid_loader:
                output = model(data.view(data.size(0), -1))
                valid_loss += F.nll_loss(output, target, reduction="sum").item()
                correct += (output.argmax(dim=1) == target).sum().item()
        n_valid = len(valid_loader.dataset)
        accuracy = correct / n_valid
        print(f"epoch {epoch:2d} train {running / len(train_loader):.4f} "
              f"valid {valid_loss / n_valid:.4f} accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    torch.manual_seed(0)
    params = {"units": [256, 128], "dropout": [0.4, 0.3], "optimizer": "Adam", "lr": 5e-4}
    value = objective(params)
    print("Value:", value)
