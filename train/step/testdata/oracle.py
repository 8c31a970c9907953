"""Writes torch.json, losses of PyTorch and their gradients by the scores:

  python3 train/step/testdata/oracle.py > train/step/testdata/torch.json

It was made by PyTorch 2.x on the processor, in float64 from float32 numbers.
"""

import json
import sys

import torch
from torch.nn import functional as F

torch.manual_seed(15)


def flat(v):
    return [float(f"{x:.9g}") for x in v.detach().flatten().tolist()]


def case(name, scores, loss, **more):
    scores = scores.float().double().requires_grad_()
    value = loss(scores)
    value.backward()
    return {"name": name, "shape": list(scores.shape), "scores": flat(scores),
            "loss": value.item(), "gradient": flat(scores.grad), **more}


def ctc(name, steps, classes, rows, blank=0):
    most = max(map(len, rows))
    labels = [r + [-1] * (most - len(r)) for r in rows]
    lengths = torch.tensor([len(r) for r in rows])
    targets = torch.tensor([x for r in rows for x in r], dtype=torch.int64)
    return case(name, 2 * torch.randn(len(rows), steps, classes), lambda s: F.ctc_loss(
        F.log_softmax(s, 2).transpose(0, 1), targets, torch.full((len(rows),), steps), lengths,
        blank=blank), labels=[x for r in labels for x in r], length=most, blank=blank)


def soft(name, shape, weight, t):
    teacher = torch.randn(shape).float()
    of = teacher.double()
    labels = torch.randint(0, shape[1], (shape[0],) + shape[2:])
    each = 1
    for n in shape[2:]:
        each *= n

    def loss(s):
        kl = F.kl_div(F.log_softmax(s / t, 1), F.softmax(of / t, 1), reduction="batchmean")
        return (1 - weight) * F.cross_entropy(s, labels) + weight * t * t * kl / each

    return case(name, torch.randn(shape), loss, teacher=flat(teacher),
                labels=labels.flatten().tolist(), weight=weight, temperature=t)


def attention(name, shape, factor):
    teacher = torch.randn(shape).float()
    labels = torch.randint(0, shape[1], (shape[0],))
    return case(name, torch.randn(shape), lambda s: F.cross_entropy(s, labels) +
                factor * F.mse_loss(s, teacher.double()), teacher=flat(teacher),
                labels=labels.tolist(), attending=factor)


def ignored(name, shape, ignore):
    labels = torch.randint(0, shape[1], (shape[0],) + shape[2:])
    labels.flatten()[::3] = ignore
    return case(name, torch.randn(shape), lambda s: F.cross_entropy(s, labels,
                                                                    ignore_index=ignore),
                labels=labels.flatten().tolist(), ignore=ignore)


json.dump({"torch": torch.__version__, "cases": [
    ctc("ctc", 6, 4, [[1, 2], [3, 3, 1], [2]]),
    ctc("ctc, one step a label", 3, 5, [[1, 2, 3], [4, 1, 4]]),
    ctc("ctc, another blank", 7, 3, [[0, 0, 1], [1], [0, 1, 0]], blank=2),
    ctc("ctc, a sample without labels", 4, 3, [[1, 2], []]),
    soft("distil", (4, 5), 0.7, 3.0),
    soft("distil, scores alone", (3, 4), 1.0, 1.0),
    soft("distil, positions", (2, 4, 3), 0.5, 2.0),
    attention("attention", (4, 5), 0.25),
    ignored("ignore", (5, 4), -100),
    ignored("ignore, positions", (2, 3, 4), 1),
]}, sys.stdout, indent=1)
