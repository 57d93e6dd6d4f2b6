"""Five-fold cross-validation: a new model, optimizer and loaders for each fold over one dataset."""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

torch.manual_seed(42)
k_folds, num_epochs = 5, 4
X, y = load_breast_cancer(return_X_y=True)
dataset = TensorDataset(torch.tensor(StandardScaler().fit_transform(X)).float(), torch.tensor(y))


class SimpleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(30, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x):
        return self.layers(x)


def reset_weights(m):
    for layer in m.children():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()


results = {}
for fold, (train_ids, test_ids) in enumerate(KFold(n_splits=k_folds, shuffle=True, random_state=0).split(X)):
    print(f"FOLD {fold}")
    trainloader = DataLoader(dataset, batch_size=32, sampler=SubsetRandomSampler(train_ids))
    testloader = DataLoader(dataset, batch_size=32, sampler=SubsetRandomSampler(test_ids))
    network = SimpleNet()
    network.apply(reset_weights)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    loss_function = nn.CrossEntropyLoss()
    for epoch in range(num_epochs):
        network.train()
        current_loss = 0.0
        for inputs, targets in trainloader:
            optimizer.zero_grad()
            loss = loss_function(network(inputs), targets)
            loss.backward()
            optimizer.step()
            current_loss += loss.item()
        print(f"epoch {epoch}: {current_loss / len(trainloader)!r}")
    network.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for inputs, targets in testloader:
            _, predicted = torch.max(network(inputs).data, 1)
            total += targets.size(0)
            correct += (predicted == targets).sum().item()
    results[fold] = 100.0 * correct / total
    print(f"Accuracy for fold {fold}: {results[fold]!r} %")
print(f"Average: {sum(results.values()) / len(results)!r} %")
