"""
Small hourglass network for keypoint detection.
__config__ contains the options for training and testing.
"""
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

__config__ = {
    'inference': {
        'nstack': 2,
        'inp_dim': 16,
        'num_parts': 6,
        'keys': ['imgs'],
    },
    'train': {
        'batchsize': 16,
        'res': 32,
        'train_iters': 40,
        'valid_iters': 10,
        'epoch_num': 12,
        'learning_rate': 2e-3,
        'loss': [['detection_loss', 1.]],
    },
}

LIMBS = [(0, 1), (1, 2), (1, 3), (1, 4), (4, 5)]


def draw_person(rng, res):
    """ head, neck, two hands, hip, foot """
    cx, cy = rng.uniform(10, res - 10), rng.uniform(8, 12)
    s = rng.uniform(0.8, 1.1)
    kp = np.array([[0, -5], [0, 0], [-7, 3], [7, 3], [0, 8], [3, 15]], dtype=np.float32) * s
    kp += rng.normal(0, 1.2, kp.shape)
    kp = np.clip(kp + [cx, cy], 1, res - 2).astype(np.float32)
    img = rng.normal(0, 0.12, (res, res)).astype(np.float32)
    ys, xs = np.mgrid[0:res, 0:res]
    for a, b in LIMBS:
        for t in np.linspace(0, 1, 12):
            px, py = kp[a] * (1 - t) + kp[b] * t
            img = np.maximum(img, 0.8 * np.exp(-((xs - px) ** 2 + (ys - py) ** 2) / 0.9))
    img = np.maximum(img, np.exp(-((xs - kp[0, 0]) ** 2 + (ys - kp[0, 1]) ** 2) / 4))
    # clutter
    for _ in range(3):
        px, py = rng.uniform(0, res, 2)
        img = np.maximum(img, 0.6 * np.exp(-((xs - px) ** 2 + (ys - py) ** 2) / 1.5))
    return img[None].astype(np.float32), kp


class People(Dataset):
    def __init__(self, size, res, seed):
        rng = np.random.default_rng(seed)
        self.items = [draw_person(rng, res) for _ in range(size)]
        self.ys, self.xs = np.mgrid[0:res, 0:res].astype(np.float32)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, kp = self.items[i]
        heat = [np.exp(-((self.xs - x) ** 2 + (self.ys - y) ** 2) / 4.) for x, y in kp]
        return img, np.stack(heat).astype(np.float32), kp


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class Hourglass(nn.Module):
    def __init__(self, n, f):
        super(Hourglass, self).__init__()
        self.up1 = conv(f, f)
        self.low1 = nn.Sequential(nn.MaxPool2d(2), conv(f, f))
        self.low2 = Hourglass(n - 1, f) if n > 1 else conv(f, f)
        self.up2 = nn.Upsample(scale_factor=2)

    def forward(self, x):
        return self.up1(x) + self.up2(self.low2(self.low1(x)))


class PoseNet(nn.Module):
    def __init__(self, nstack, inp_dim, num_parts, **kwargs):
        super(PoseNet, self).__init__()
        self.pre = nn.Sequential(conv(1, inp_dim), conv(inp_dim, inp_dim))
        self.hgs = nn.ModuleList([Hourglass(3, inp_dim) for _ in range(nstack)])
        self.outs = nn.ModuleList([nn.Conv2d(inp_dim, num_parts, 1) for _ in range(nstack)])
        self.merge = nn.ModuleList([nn.Conv2d(num_parts, inp_dim, 1) for _ in range(nstack - 1)])

    def forward(self, imgs):
        x = self.pre(imgs)
        preds = []
        for i, hg in enumerate(self.hgs):
            feature = hg(x)
            preds.append(self.outs[i](feature))
            if i < len(self.merge):
                x = x + feature + self.merge[i](preds[-1])
        return torch.stack(preds, 1)

    def calc_loss(self, preds, heatmaps):
        # all the stacks are supervised
        return ((preds - heatmaps[:, None]) ** 2).mean(dim=(1, 2, 3, 4)) * 100


def make_network(config):
    train_cfg = config['train']
    config['net'] = PoseNet(**config['inference'])
    train_cfg['optimizer'] = torch.optim.Adam(config['net'].parameters(), train_cfg['learning_rate'])

    def make_train(batch_id, config, phase, **inputs):
        net = config['net']
        config['batch_id'] = batch_id
        if phase == 'train':
            net = net.train()
        else:
            net = net.eval()

        if phase != 'inference':
            with torch.set_grad_enabled(phase == 'train'):
                preds = net(inputs['imgs'])
                losses = {'detection_loss': net.calc_loss(preds, inputs['heatmaps'])}
                loss = 0
                for name, weight in train_cfg['loss']:
                    loss = loss + weight * torch.mean(losses[name])

            if phase == 'train':
                optimizer = train_cfg['optimizer']
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss.item()
        else:
            net = net.eval()
            with torch.no_grad():
                return net(inputs['imgs'])[:, -1]
    return make_train


def make_generators(config, seed):
    cfg = config['train']
    data = {'train': People(cfg['train_iters'] * cfg['batchsize'], cfg['res'], seed),
            'valid': People(cfg['valid_iters'] * cfg['batchsize'], cfg['res'], seed + 1)}
    loaders = {phase: DataLoader(ds, batch_size=cfg['batchsize'], shuffle=(phase == 'train')) for phase, ds in data.items()}

    def data_func(phase):
        for imgs, heatmaps, kps in loaders[phase]:
            yield {'imgs': imgs, 'heatmaps': heatmaps, 'kps': kps}
    return data_func


def train(train_func, data_func, config):
    while config['train']['epoch'] < config['train']['epoch_num']:
        epoch, t0 = config['train']['epoch'], time.time()
        for phase in ['train', 'valid']:
            num_step = config['train']['{}_iters'.format(phase)]
            generator = data_func(phase)
            batch_id = num_step * epoch
            history = [train_func(batch_id + i, config, phase, **next(generator)) for i in range(num_step)]
            print('epoch {:2d} {:5s} detection_loss: {:.5f}  (first batch {:.5f}, last batch {:.5f})'.format(
                epoch, phase, np.mean(history), history[0], history[-1]))
        print('epoch {:2d} took {:.1f}s'.format(epoch, time.time() - t0))
        config['train']['epoch'] += 1


def evaluate(func, data_func, config):
    """ percentage of keypoints within two pixels """
    hits, total = 0, 0
    for datas in data_func('valid'):
        pred = func(-1, config, 'inference', imgs=datas['imgs'])
        n, k, h, w = pred.shape
        best = pred.view(n, k, -1).argmax(-1)
        xy = torch.stack([best % w, best // w], -1).float()
        hits += ((xy - datas['kps']).norm(dim=-1) < 2).sum().item()
        total += n * k
    return hits / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('-e', '--epochs', type=int, default=__config__['train']['epoch_num'])
    parser.add_argument('--seed', type=int, default=7)
    opt = parser.parse_args()
    torch.manual_seed(opt.seed)
    config = __config__
    config['train'].update(epoch=0, epoch_num=opt.epochs)
    func = make_network(config)
    data_func = make_generators(config, opt.seed)
    train(func, data_func, config)
    print('PCK@2 on valid: {:.3f}'.format(evaluate(func, data_func, config)))


if __name__ == '__main__':
    main()
