"""Follows a recipe of bench/converge in PyTorch, in float32 on the processor.

Reads one JSON object from standard input: the task, its files, sizes, the seed, and the numbers of
the samples that are tried; prints the loss and the metric of each epoch's evaluation, and, where
outputs are judged, those of the samples that are tried. The model,
the optimizer, the schedule, and what weights are drawn from are those of the recipe; which numbers
are drawn, and so the order of samples, is PyTorch's.
"""

import gzip
import io
import json
import math
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

o = json.load(sys.stdin)
torch.manual_seed(o["seed"])
torch.set_num_threads(o["threads"])


def load(path):
    data = open(path, "rb").read()
    if path.endswith(".gz"):
        data = gzip.decompress(data)
    return torch.from_numpy(np.load(io.BytesIO(data)))


class Digits(nn.Module):
    """The network of examples/digits."""

    def __init__(self):
        super().__init__()
        block = lambda a, b: (nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
        self.layers = nn.Sequential(
            *block(1, 16), *block(16, 32), nn.MaxPool2d(2), *block(32, 64),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    def forward(self, image):
        return self.layers(image)


class WideDeep(nn.Module):
    """Cheng et al. 2016: a linear model of categories beside a network of their vectors."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Embedding(o["categories"], 1)
        self.table = nn.Embedding(o["categories"], o["width"])
        n = o["columns"] * o["width"] + o["numbers"]
        self.deep = nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(),
                                  nn.Linear(32, 1))

    def forward(self, numbers, categories):
        deep = torch.cat([self.table(categories).flatten(1), numbers], 1)
        return self.deep(deep) + self.wide(categories).sum(1)


class Detector(nn.Module):
    """A score and a box for each square of a picture."""

    def __init__(self):
        super().__init__()
        layers, before = [], 3
        for i, n in enumerate((16, 32, 64, 64)):
            layers += [nn.Conv2d(before, n, 3, 1 if i == 3 else 2, 1), nn.BatchNorm2d(n), nn.ReLU()]
            before = n
        self.layers = nn.Sequential(*layers)
        self.there, self.box = nn.Conv2d(64, 1, 1), nn.Conv2d(64, 4, 1)

    def forward(self, image):
        x = self.layers(image)
        return self.there(x), self.box(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(o["wide"], o["wide"])
                                                      for _ in range(4))

    def forward(self, x, to, mask):
        cut = lambda v: v.reshape(len(v), o["length"], o["heads"], -1).transpose(1, 2)
        q, k, v = cut(self.query(x)), cut(self.key(to)), cut(self.value(to))
        s = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask, -1)
        return self.out((s @ v).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """One layer on each side, with normalisation in front."""

    def __init__(self):
        super().__init__()
        n = o["wide"]
        self.letters, self.phonemes = nn.Embedding(o["letters"], n), nn.Embedding(o["phonemes"], n)
        self.places = nn.ParameterList([torch.zeros(o["length"], n) for _ in range(2)])
        self.attend = nn.ModuleList([Attention() for _ in range(3)])
        self.norm = nn.ModuleList([nn.LayerNorm(n) for _ in range(7)])
        self.feed = nn.ModuleList([nn.Sequential(nn.Linear(n, 2 * n), nn.ReLU(),
                                                 nn.Linear(2 * n, n)) for _ in range(2)])
        self.scores = nn.Linear(n, o["phonemes"])

    def forward(self, letters, before):
        hide = ((letters != 0).float() - 1)[:, None, None] * 1e4
        future = torch.triu(torch.full((o["length"], o["length"]), -1e4), 1)
        x = self.letters(letters) + self.places[0]
        h = self.norm[0](x)
        x = x + self.attend[0](h, h, hide)
        x = self.norm[2](x + self.feed[0](self.norm[1](x)))
        y = self.phonemes(before) + self.places[1]
        h = self.norm[3](y)
        y = y + self.attend[1](h, h, future)
        y = y + self.attend[2](self.norm[4](y), x, hide)
        y = self.norm[6](y + self.feed[1](self.norm[5](y)))
        return self.scores(y).transpose(1, 2)


class GAN(nn.Module):
    """What makes pictures, and what judges them."""

    def __init__(self):
        super().__init__()
        self.made = nn.Sequential(nn.Linear(32, 1024), nn.ReLU(), nn.Unflatten(1, (64, 4, 4)),
                                  nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(),
                                  nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())
        self.judge = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2),
                                   nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(),
                                   nn.Linear(1024, 1))

    def forward(self, real):
        made = self.made(torch.randn(len(real), 32))
        return self.judge(real), self.judge(made), self.judge(made.detach()), made


def draw(m):
    """Weights as weir train draws them."""
    if isinstance(m, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
        fan = m.weight[0].numel()
        if isinstance(m, nn.ConvTranspose2d):
            fan = m.weight[:, 0].numel()
        nn.init.normal_(m.weight, 0, math.sqrt(2 / fan))
        nn.init.zeros_(m.bias)
    elif isinstance(m, nn.Embedding):
        nn.init.normal_(m.weight, 0, 0.02)


def moved(x):
    """crop 1: each image moved by up to a pixel each way, zeros moving in."""
    x = F.pad(x, (1, 1, 1, 1))
    at = torch.randint(0, 3, (len(x), 2)).tolist()
    return torch.stack([x[i, :, a:a + 8, b:b + 8] for i, (a, b) in enumerate(at)])


def boxes(y, t):
    """Of scores, and of the boxes of those squares that have one."""
    there, box = y
    counts = t[1] != -1000
    d = F.huber_loss(box, t[1], reduction="none")[counts].sum() / max(counts.sum(), 1)
    return F.binary_cross_entropy_with_logits(there, t[0]) + d


def adversaries(y, _):
    """What judges learns from what is real and made, and what makes from how it is judged."""
    yes, fooled, no, _ = y
    bce = F.binary_cross_entropy_with_logits
    judge = list(model.judge.parameters())
    if torch.is_grad_enabled():
        ds = torch.autograd.grad(bce(fooled, torch.ones_like(fooled)),
                                 list(model.made.parameters()), retain_graph=True)
        for p, d in zip(model.made.parameters(), ds):
            p.grad = d
        ds = torch.autograd.grad(bce(yes, torch.ones_like(yes)) + bce(no, torch.zeros_like(no)),
                                 judge, retain_graph=True)
        for p, d in zip(judge, ds):
            p.grad = d
    return bce(yes, torch.ones_like(yes)) + bce(no, torch.zeros_like(no)) + bce(
        fooled, torch.ones_like(fooled))


inputs = [load(f) for f in o["inputs"]]
if inputs[0].dtype != torch.int64:
    inputs[0] = inputs[0].float() / o["divide"]
labels = load(o["labels"])
held = torch.tensor(o["held"])
kept = torch.ones(len(inputs[0]), dtype=torch.bool)
kept[held] = False
rows = kept.nonzero().flatten()
if o["task"] == "classifier":
    model, loss, labels = Digits(), F.cross_entropy, labels.long()
    inputs[0] = inputs[0].reshape(-1, 1, 8, 8)
    right = lambda y, t: (y.argmax(1) == t).float()
elif o["task"] == "detector":
    model, loss, labels = Detector(), boxes, [labels] + [load(f) for f in o["more"]]
    right = lambda y, t: ((y[0] > 0) == (t[0] > 0.5)).float()
elif o["task"] == "translation":
    model, loss = Transformer(), lambda y, t: F.cross_entropy(y, t, ignore_index=-100)
    right = lambda y, t: (y.argmax(1) == t)[t != -100].float()
elif o["task"] == "GAN":
    model, loss = GAN(), adversaries
    right = lambda y, t: torch.zeros(1)
else:
    model, loss = WideDeep(), F.binary_cross_entropy_with_logits
    right = lambda y, t: ((y > 0) == (t > 0.5)).float()
model.apply(draw)
step = torch.optim.Adam(model.parameters(), lr=o["rate"],
                        betas=(0.5 if o["task"] == "GAN" else 0.9, 0.999))
of = lambda at: [v[at] for v in labels] if isinstance(labels, list) else labels[at]
per = len(rows) // o["batch"]
total = per * o["epochs"]


def rates(i):
    if o["task"] == "GAN":
        return 1
    w = o["warmup"]
    return (i + 1) / w if i < w else 0.5 * (1 + math.cos(math.pi * (i - w) / (total - w)))


rate = torch.optim.lr_scheduler.LambdaLR(step, rates)
out = []
for epoch in range(o["epochs"]):
    model.train()
    order = rows[torch.randperm(len(rows))]
    for i in range(per):
        at = order[i * o["batch"]:(i + 1) * o["batch"]]
        x = [v[at] for v in inputs]
        if o["task"] == "classifier":
            x[0] = moved(x[0])
        step.zero_grad()
        value = loss(model(*x), of(at))
        if o["task"] != "GAN":
            value.backward()
        if o["clip"]:
            nn.utils.clip_grad_norm_(model.parameters(), o["clip"])
        step.step()
        rate.step()
    model.eval()
    with torch.no_grad():
        y = model(*[v[held] for v in inputs])
        out.append([loss(y, of(held)).item(), right(y, of(held)).mean().item()])
given = {}
if o["task"] == "detector":
    given = {"there": y[0], "box": y[1]}
elif o["task"] == "GAN":
    given = {"made": y[3]}
json.dump({"torch": torch.__version__, "epochs": out,
           "given": {n: v.flatten().tolist() for n, v in given.items()}}, sys.stdout)
