import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class GraphData:
    def __init__(self, node_features, edge_index, y):
        self.node_features = node_features
        self.edge_index = edge_index
        self.y = y
        self.num_nodes = len(node_features)


class BatchGraphData:
    def __init__(self, graph_list):
        self.node_features = torch.from_numpy(np.vstack([g.node_features for g in graph_list]))
        num_nodes_list = [g.num_nodes for g in graph_list]
        offsets = np.cumsum([0] + num_nodes_list[:-1])
        self.edge_index = torch.from_numpy(np.hstack([g.edge_index + o for g, o in zip(graph_list, offsets)]))
        self.graph_index = torch.from_numpy(np.repeat(np.arange(len(graph_list)), num_nodes_list))
        self.y = torch.tensor([g.y for g in graph_list], dtype=torch.float32)
        self.num_graphs = len(graph_list)


def random_molecules(n, seed, n_types=5):
    rng = np.random.default_rng(seed)
    bond = np.random.default_rng(0).normal(size=(n_types, n_types))
    bond = bond + bond.T
    graphs = []
    for _ in range(n):
        size = rng.integers(6, 14)
        types = rng.integers(0, n_types, size)
        edges = [(i, rng.integers(0, i)) for i in range(1, size)]
        edges += [tuple(rng.choice(size, 2, replace=False)) for _ in range(2)]
        src = np.array([e[0] for e in edges] + [e[1] for e in edges])
        dst = np.array([e[1] for e in edges] + [e[0] for e in edges])
        y = bond[types[src], types[dst]].sum() / 8
        graphs.append(GraphData(np.eye(n_types, dtype=np.float32)[types], np.stack([src, dst]), y))
    return graphs


class MPNN(nn.Module):
    def __init__(self, d_in=5, hidden=64, layers=2):
        super().__init__()
        self.embed = nn.Linear(d_in, hidden)
        self.msg = nn.ModuleList([nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU()) for _ in range(layers)])
        self.upd = nn.ModuleList([nn.GRUCell(hidden, hidden) for _ in range(layers)])
        self.readout = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, batch):
        h = self.embed(batch.node_features)
        src, dst = batch.edge_index
        for msg, upd in zip(self.msg, self.upd):
            m = msg(torch.cat([h[src], h[dst]], dim=1))
            agg = torch.zeros_like(h).index_add(0, dst, m)
            h = upd(agg, h)
        out = self.readout(h).squeeze(1)
        return torch.zeros(batch.num_graphs).index_add(0, batch.graph_index, out)


def main():
    torch.manual_seed(44)
    train_loader = DataLoader(random_molecules(2000, 1), batch_size=40, shuffle=True, collate_fn=BatchGraphData)
    val_loader = DataLoader(random_molecules(400, 2), batch_size=100, collate_fn=BatchGraphData)
    model = MPNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(4):
        model.train()
        total = 0.0
        for batch in train_loader:
            loss = nn.functional.mse_loss(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            val = [nn.functional.mse_loss(model(b), b.y).item() for b in val_loader]
        print(f"epoch {epoch} train mse {total / len(train_loader):.4f} val mse {sum(val) / len(val):.4f}")


if __name__ == "__main__":
    main()
