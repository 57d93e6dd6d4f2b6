"""A graph convolution network on one graph, full batch, with masks of nodes: the way of pygcn and the PyG introduction."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(12345)
nodes, classes, features = 300, 3, 24
labels = torch.arange(nodes) % classes
same = labels[:, None] == labels[None, :]
edges = torch.rand(nodes, nodes) < torch.where(same, 0.08, 0.01)
adjacency = torch.triu(edges, 1)
adjacency = (adjacency | adjacency.T).float() + torch.eye(nodes)
x = torch.randn(nodes, features) * 1.5
x[:, :classes] += F.one_hot(labels, classes).float()
degree = adjacency.sum(1).pow(-0.5)
adj = (degree[:, None] * adjacency * degree[None, :]).to_sparse()
order = torch.randperm(nodes)
train_mask, val_mask, test_mask = (torch.zeros(nodes, dtype=torch.bool) for _ in range(3))
train_mask[order[:60]], val_mask[order[60:150]], test_mask[order[150:]] = True, True, True


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, input, adj):
        return torch.spmm(adj, input @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gc1 = GraphConvolution(features, hidden)
        self.gc2 = GraphConvolution(hidden, classes)

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, 0.5, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


model = GCN(16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def train(epoch):
    model.train()
    optimizer.zero_grad()
    output = model(x, adj)
    loss_train = F.nll_loss(output[train_mask], labels[train_mask])
    acc_train = (output[train_mask].argmax(1) == labels[train_mask]).float().mean()
    loss_train.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        output = model(x, adj)
        loss_val = F.nll_loss(output[val_mask], labels[val_mask])
        acc_val = (output[val_mask].argmax(1) == labels[val_mask]).float().mean()
    print(
        f"Epoch: {epoch:04d} loss_train: {loss_train.item()!r} acc_train: {acc_train.item():.4f} loss_val: {loss_val.item()!r} acc_val: {acc_val.item():.4f}"
    )


for epoch in range(100):
    train(epoch)
model.eval()
with torch.no_grad():
    output = model(x, adj)
print(
    "Test",
    F.nll_loss(output[test_mask], labels[test_mask]).item(),
    (output[test_mask].argmax(1) == labels[test_mask]).float().mean().item(),
)
