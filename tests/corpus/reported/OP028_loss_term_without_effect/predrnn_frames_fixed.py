import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class STCell(nn.Module):
    """Recurrent cell with a temporal memory c and a spatial memory m."""

    def __init__(self, cin, hid):
        super().__init__()
        self.hid = hid
        self.conv_x = nn.Conv2d(cin, hid * 7, 3, padding=1)
        self.conv_h = nn.Conv2d(hid, hid * 4, 3, padding=1)
        self.conv_m = nn.Conv2d(hid, hid * 3, 3, padding=1)
        self.conv_o = nn.Conv2d(hid * 2, hid, 3, padding=1)
        self.conv_last = nn.Conv2d(hid * 2, hid, 1)

    def forward(self, x, h, c, m):
        i_x, f_x, g_x, ip_x, fp_x, gp_x, o_x = self.conv_x(x).chunk(7, 1)
        i_h, f_h, g_h, o_h = self.conv_h(h).chunk(4, 1)
        i_m, f_m, g_m = self.conv_m(m).chunk(3, 1)
        delta_c = torch.sigmoid(i_x + i_h) * torch.tanh(g_x + g_h)
        c = torch.sigmoid(f_x + f_h + 1.0) * c + delta_c
        delta_m = torch.sigmoid(ip_x + i_m) * torch.tanh(gp_x + g_m)
        m = torch.sigmoid(fp_x + f_m + 1.0) * m + delta_m
        mem = torch.cat([c, m], 1)
        h = torch.sigmoid(o_x + o_h + self.conv_o(mem)) * torch.tanh(self.conv_last(mem))
        return h, c, m, delta_c, delta_m


class RNN(nn.Module):
    def __init__(self, hid=12, layers=2, decouple_beta=0.1):
        super().__init__()
        self.hid, self.decouple_beta = hid, decouple_beta
        self.cells = nn.ModuleList([STCell(1 if i == 0 else hid, hid) for i in range(layers)])
        self.adapter = nn.Conv2d(hid, hid, 1, bias=False)
        self.conv_last = nn.Conv2d(hid, 1, 1)

    def forward(self, frames, input_length):
        b, t, _, s, _ = frames.shape
        zero = frames.new_zeros(b, self.hid, s, s)
        h, c, m = [zero] * len(self.cells), [zero] * len(self.cells), zero
        next_frames, decouple_loss = [], []
        x_gen = None
        for k in range(t - 1):
            net = frames[:, k] if k < input_length else x_gen
            for i, cell in enumerate(self.cells):
                h[i], c[i], m, dc, dm = cell(net, h[i], c[i], m)
                net = h[i]
                dc = F.normalize(self.adapter(dc).flatten(2), dim=2)
                dm = F.normalize(self.adapter(dm).flatten(2), dim=2)
                decouple_loss.append(torch.mean(torch.abs(torch.cosine_similarity(dc, dm, dim=2))))
            x_gen = self.conv_last(h[-1])
            next_frames.append(x_gen)
        decouple_loss = torch.mean(torch.stack(decouple_loss, dim=0))
        next_frames = torch.stack(next_frames, 1)
        mse = F.mse_loss(next_frames, frames[:, 1:])
        return next_frames, mse + self.decouple_beta * decouple_loss


def moving_blobs(n, seed, length=7, size=10):
    """A blob moving with constant velocity and bouncing at the border."""
    g = torch.Generator().manual_seed(seed)
    pos = 2 + torch.rand(n, 2, generator=g) * (size - 5)
    vel = 2.0 * (torch.rand(n, 2, generator=g) - 0.5)
    r = torch.arange(size, dtype=torch.float32)
    out = []
    for _ in range(length):
        d = (r[None, :, None] - pos[:, 0, None, None]) ** 2 + (r[None, None, :] - pos[:, 1, None, None]) ** 2
        out.append(torch.exp(-d / 2.0))
        pos = pos + vel
        bounce = (pos < 1) | (pos > size - 2)
        vel = torch.where(bounce, -vel, vel)
    x = torch.stack(out, 1).unsqueeze(2)
    return (x - 0.06) / 0.17


def train():
    torch.manual_seed(0)
    data, valid = moving_blobs(256, 1), moving_blobs(48, 2)
    model = RNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    itr = 0
    for epoch in range(6):
        for idx in torch.randperm(len(data)).split(16):
            optimizer.zero_grad()
            _, loss = model(data[idx], input_length=4)
            loss.backward()
            optimizer.step()
            itr += 1
        with torch.no_grad():
            pred, _ = model(valid, input_length=4)
            mse = F.mse_loss(pred[:, 3:], valid[:, 4:]).item()
        print(f"itr: {itr} training loss: {loss.item():.4f} test mse: {mse:.4f}")


if __name__ == "__main__":
    train()
