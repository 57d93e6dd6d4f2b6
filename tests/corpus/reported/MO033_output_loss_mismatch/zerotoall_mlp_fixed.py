from __future__ import print_function

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(1)

# Training settings
batch_size = 64


def handwritten(n, seed):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(10, 1, 10, 10, generator=torch.Generator().manual_seed(31))
    proto = F.avg_pool2d(proto, 3, 1, 1) * 2
    y = torch.randint(0, 10, (n,), generator=g)
    return TensorDataset(proto[y] + 0.7 * torch.randn(n, 1, 10, 10, generator=g), y)


train_loader = DataLoader(dataset=handwritten(2048, 1), batch_size=batch_size, shuffle=True)
test_loader = DataLoader(dataset=handwritten(512, 2), batch_size=128, shuffle=False)


class Net(nn.Module):

    def __init__(self):
        super(Net, self).__init__()
        self.l1 = nn.Linear(100, 128)
        self.l2 = nn.Linear(128, 96)
        self.l3 = nn.Linear(96, 64)
        self.l4 = nn.Linear(64, 48)
        self.l5 = nn.Linear(48, 10)

    def forward(self, x):
        x = x.view(-1, 100)  # Flatten the data (n, 1, 10, 10)-> (n, 100)
        x = F.relu(self.l1(x))
        x = F.relu(self.l2(x))
        x = F.relu(self.l3(x))
        x = F.relu(self.l4(x))
        return self.l5(x)


model = Net()

criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9)


def train(epoch):
    model.train()
    total = 0.0
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if batch_idx % 16 == 0:
            print('Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}'.format(
                epoch, batch_idx * len(data), len(train_loader.dataset),
                100. * batch_idx / len(train_loader), loss.item()))
    return total / len(train_loader)


def test():
    model.eval()
    test_loss = 0
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            test_loss += criterion(output, target).item() * len(target)
            correct += output.argmax(1).eq(target).sum().item()
    n = len(test_loader.dataset)
    print('Test set: Average loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)'.format(
        test_loss / n, correct, n, 100. * correct / n))


for epoch in range(1, 8):
    print('mean train loss {:.4f}'.format(train(epoch)))
    test()
