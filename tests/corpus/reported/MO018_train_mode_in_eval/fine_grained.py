"""Fine-grained classification of small textures with a residual backbone."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Birds(Dataset):
    """Eight species: a coarse stripe direction and a small mark at one of four places."""

    def __init__(self, size, seed):
        gen = torch.Generator().manual_seed(seed)
        self.label = torch.arange(size) % 8
        axis = torch.linspace(0, 6.28, 16)
        image = torch.empty(size, 3, 16, 16)
        for i, label in enumerate(self.label.tolist()):
            phase = 6.28 * torch.rand(1, generator=gen)
            wave = torch.sin(2 * axis + phase)
            base = wave[:, None].expand(16, 16) if label % 2 else wave[None].expand(16, 16)
            image[i] = base * torch.tensor([1.0, 0.6, 0.3])[:, None, None]
            row, col = divmod(label // 2, 2)
            top = 1 + 8 * row + int(torch.randint(0, 3, (1,), generator=gen))
            left = 1 + 8 * col + int(torch.randint(0, 3, (1,), generator=gen))
            image[i, 2, top:top + 4, left:left + 4] += 2.0
        self.image = image + 0.6 * torch.randn(image.shape, generator=gen)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.image[i], self.label[i]


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self, num_classes, width=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = BasicBlock(width, width, 1)
        self.layer2 = BasicBlock(width, 2 * width, 2)
        self.layer3 = BasicBlock(2 * width, 4 * width, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(16 * width, num_classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        x = self.avgpool(x)
        x = x.view(x.size(0), -1)
        x = nn.Dropout(p=0.5)(x)
        return self.fc(x)


def run_test(net, loader):
    net.eval()
    loss, correct, total = 0.0, 0, 0
    with torch.no_grad():
        for img, label in loader:
            logits = net(img)
            loss += F.cross_entropy(logits, label, reduction="sum").item()
            correct += (logits.argmax(1) == label).sum().item()
            total += len(label)
    return loss / total, correct / total


def main():
    torch.manual_seed(14)
    trainloader = DataLoader(Birds(640, 0), batch_size=32, shuffle=True, drop_last=True)
    testloader = DataLoader(Birds(160, 1), batch_size=80)
    net = ResNet(8)
    creterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[6], gamma=0.1)
    for epoch in range(8):
        net.train()
        total = 0.0
        for img, label in trainloader:
            optimizer.zero_grad()
            loss = creterion(net(img), label)
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        test_loss, test_acc = run_test(net, testloader)
        print(f"epoch:{epoch} train loss:{total / len(trainloader):.3f} test loss:{test_loss:.3f} test acc:{test_acc:.3f}")


if __name__ == "__main__":
    main()
