"""Knowledge distillation: a teacher is trained, frozen, and a smaller student learns from its softened logits."""

import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
digits = load_digits()
data = torch.tensor(digits.data).float() / 16
target = torch.tensor(digits.target)
train_loader = DataLoader(TensorDataset(data[:1400], target[:1400]), batch_size=128, shuffle=True)
test_loader = DataLoader(TensorDataset(data[1400:], target[1400:]), batch_size=128)


def network(width):
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


def train(model, epochs):
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for epoch in range(epochs):
        running_loss = 0.0
        for inputs, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        print(f"Epoch {epoch + 1}/{epochs}, Loss: {running_loss / len(train_loader)!r}")


def test(model):
    model.eval()
    correct = 0
    with torch.no_grad():
        for inputs, labels in test_loader:
            correct += (model(inputs).argmax(1) == labels).sum().item()
    return 100 * correct / len(test_loader.dataset)


def train_knowledge_distillation(teacher, student, epochs, T, soft_target_loss_weight, ce_loss_weight):
    ce_loss = nn.CrossEntropyLoss()
    optimizer = optim.Adam(student.parameters(), lr=3e-3)
    teacher.eval()
    student.train()
    for epoch in range(epochs):
        running_loss = 0.0
        for inputs, labels in train_loader:
            optimizer.zero_grad()
            with torch.no_grad():
                teacher_logits = teacher(inputs)
            student_logits = student(inputs)
            soft_targets = F.softmax(teacher_logits / T, dim=-1)
            soft_prob = F.log_softmax(student_logits / T, dim=-1)
            soft_targets_loss = torch.sum(soft_targets * (soft_targets.log() - soft_prob)) / soft_prob.size(0) * T**2
            loss = soft_target_loss_weight * soft_targets_loss + ce_loss_weight * ce_loss(student_logits, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        print(f"Epoch {epoch + 1}/{epochs}, Loss: {running_loss / len(train_loader)!r}")


teacher, student = network(128), network(16)
train(teacher, 6)
print(f"Teacher accuracy: {test(teacher)!r}%")
train_knowledge_distillation(teacher, student, 6, T=2, soft_target_loss_weight=0.25, ce_loss_weight=0.75)
print(f"Student accuracy: {test(student)!r}%")
