"""The same updates by PyTorch eager: a request a line, an answer a line.

{"model", "optimizer", "threads", "weights", "x", "y"} begins a model and makes an update of each
batch; the answer has their losses, and the gradients of the first. {"time": N} makes N more and
answers with the milliseconds of each.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F


def digits(w, x):
    for i in "123":
        x = F.conv2d(x, w[f"conv{i}.weight"], padding=1)
        x = F.batch_norm(x, w[f"bn{i}.running_mean"], w[f"bn{i}.running_var"], w[f"bn{i}.weight"],
                         w[f"bn{i}.bias"], training=True)
        x = F.relu(x)
        if i == "2":
            x = F.max_pool2d(x, 2)
    return F.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"])


def mlp(w, x):
    x = F.relu(F.linear(x, w["fc1.weight"], w["fc1.bias"]))
    x = F.relu(F.linear(x, w["fc2.weight"], w["fc2.bias"]))
    return F.linear(x, w["fc3.weight"], w["fc3.bias"])


def attention(w, x):
    q, k, v = x @ w["query"], x @ w["key"], x @ w["value"]
    x = torch.softmax(q @ k.transpose(1, 2), -1) @ v
    x = F.layer_norm(x, x.shape[-1:], w["norm.weight"], w["norm.bias"])
    return F.linear(x.mean(1), w["fc.weight"], w["fc.bias"])


MODELS = {"digits": digits, "mlp": mlp, "attention": attention}


def optimizer(o, weights):
    rate, decay = o["rate"], o["decay"]
    if o["kind"] in ("sgd", "momentum"):
        return torch.optim.SGD(weights, lr=rate, momentum=o["momentum"], weight_decay=decay)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[o["kind"]]
    return kind(weights, lr=rate, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"],
                weight_decay=decay)


class Training:
    def __init__(self, r):
        torch.set_num_threads(r["threads"])
        self.model = MODELS[r["model"]]
        self.w = {name: torch.tensor(v["data"], dtype=torch.float32).reshape(v["shape"])
                  for name, v in r["weights"].items()}
        self.trained = {n: v.requires_grad_() for n, v in self.w.items() if "running" not in n}
        self.by = optimizer(r["optimizer"], list(self.trained.values()))
        self.x = [torch.tensor(x, dtype=torch.float32).reshape(r["shape"]) for x in r["x"]]
        self.y = [torch.tensor(y) for y in r["y"]]

    def update(self, i):
        self.by.zero_grad()
        loss = F.cross_entropy(self.model(self.w, self.x[i]), self.y[i])
        loss.backward()
        self.by.step()
        return loss

    def begin(self):
        losses, gradients = [], {}
        for i in range(len(self.x)):
            losses.append(self.update(i).item())
            if i == 0:
                gradients = {n: v.grad.flatten().tolist() for n, v in self.trained.items()}
        return {"torch": torch.__version__, "losses": losses, "gradients": gradients}

    def time(self, n):
        took = []
        for i in range(n):
            begin = time.perf_counter()
            self.update(i % len(self.x)).item()
            took.append((time.perf_counter() - begin) * 1e3)
        return {"ms": took}


now = None
for line in sys.stdin:
    request = json.loads(line)
    if "time" in request:
        answer = now.time(request["time"])
    else:
        now = Training(request)
        answer = now.begin()
    print(json.dumps(answer), flush=True)
