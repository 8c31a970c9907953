"""Follows a recipe of bench/converge in PyTorch, in float32 on the processor.

Reads one JSON object from standard input: the task, its files, sizes, the seed, and the numbers of
the samples that are tried; prints the loss and the metric of each epoch's evaluation. The model,
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


def draw(m):
    """Weights as weir train draws them."""
    if isinstance(m, (nn.Linear, nn.Conv2d)):
        nn.init.normal_(m.weight, 0, math.sqrt(2 / m.weight[0].numel()))
        nn.init.zeros_(m.bias)
    elif isinstance(m, nn.Embedding):
        nn.init.normal_(m.weight, 0, 0.02)


def moved(x):
    """crop 1: each image moved by up to a pixel each way, zeros moving in."""
    x = F.pad(x, (1, 1, 1, 1))
    at = torch.randint(0, 3, (len(x), 2)).tolist()
    return torch.stack([x[i, :, a:a + 8, b:b + 8] for i, (a, b) in enumerate(at)])


inputs = [load(f) for f in o["inputs"]]
inputs[0] = inputs[0].float() / o["divide"]
labels = load(o["labels"])
held = torch.tensor(o["held"])
kept = torch.ones(len(labels), dtype=torch.bool)
kept[held] = False
rows = kept.nonzero().flatten()
if o["task"] == "classifier":
    model, loss, labels = Digits(), F.cross_entropy, labels.long()
    inputs[0] = inputs[0].reshape(-1, 1, 8, 8)
    right = lambda y, t: (y.argmax(1) == t).float()
else:
    model, loss = WideDeep(), F.binary_cross_entropy_with_logits
    right = lambda y, t: ((y > 0) == (t > 0.5)).float()
model.apply(draw)
step = torch.optim.Adam(model.parameters(), lr=o["rate"])
per = len(rows) // o["batch"]
total = per * o["epochs"]
rate = torch.optim.lr_scheduler.LambdaLR(
    step, lambda i: 0.5 * (1 + math.cos(math.pi * i / total)))
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
        loss(model(*x), labels[at]).backward()
        step.step()
        rate.step()
    model.eval()
    with torch.no_grad():
        y = model(*[v[held] for v in inputs])
        out.append([loss(y, labels[held]).item(), right(y, labels[held]).mean().item()])
json.dump({"torch": torch.__version__, "epochs": out}, sys.stdout)
