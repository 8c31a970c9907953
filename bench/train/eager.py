"""The same updates by PyTorch: a request a line, an answer a line.

{"model", "optimizer", "threads", "weights", "x", "y"} begins a model and makes an update of each
batch; the answer has their losses, and the gradients of the first. With "race" it has losses alone,
and with "compile" the model and its loss are compiled. {"time": N} makes N more updates and answers
with the milliseconds of each. {"model", "export"} writes a model of torchvision or
transformers, which is then begun by "folder" instead of weights, "x" and gradients in the answer;
with "exact" it is one of float64, beside which lie a batch and its gradients.
"""

import json
import math
import sys
import time
import warnings

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
                weight_decay=decay, fused=o.get("fused"))


class Training:
    def __init__(self, r):
        torch.set_num_threads(r["threads"])
        self.updates, self.races = r["updates"], r.get("race")
        self.loss = self.scored
        self.start(r)
        if r.get("compile"):
            self.loss = torch.compile(self.scored)
        self.by = optimizer(r["optimizer"], list(self.trained.values()))
        self.y = [torch.tensor(y) for y in r["y"]]

    def start(self, r):
        model = MODELS[r["model"]]
        w = {name: torch.tensor(v["data"], dtype=torch.float32).reshape(v["shape"])
             for name, v in r["weights"].items()}
        self.trained = {n: v.requires_grad_() for n, v in w.items() if "running" not in n}
        self.model = lambda x: model(w, x)
        self.x = [torch.tensor(x, dtype=torch.float32).reshape(r["shape"]) for x in r["x"]]

    def scored(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def update(self, i):
        i %= len(self.x)
        self.by.zero_grad()
        loss = self.loss(self.x[i], self.y[i])
        loss.backward()
        self.by.step()
        return loss

    def begin(self):
        losses, gradients = [], {}
        for i in range(self.updates):
            losses.append(self.update(i).item())
            if i == 0 and not self.races:
                gradients = self.gradients()
        return {"version": torch.__version__, "losses": losses, **gradients}

    def gradients(self):
        return {"gradients": {n: v.grad.flatten().tolist() for n, v in self.trained.items()}}

    def time(self, n):
        took = []
        for i in range(n):
            begin = time.perf_counter()
            self.update(i).item()
            took.append((time.perf_counter() - begin) * 1e3)
        return {"ms": took}


class Recurrent(Training):
    """An LSTM over rows, by PyTorch's own, whose gates are in another order than ONNX's."""

    TORCH, ONNX = (0, 2, 3, 1), (0, 3, 1, 2)

    @staticmethod
    def gates(v, order):
        parts = v.chunk(4)
        return torch.cat([parts[i] for i in order])

    def start(self, r):
        w = {name: torch.tensor(v["data"], dtype=torch.float32).reshape(v["shape"])
             for name, v in r["weights"].items()}
        inputs, rest = w["lstm.W"][0], w["lstm.R"][0]
        net = torch.nn.LSTM(inputs.shape[1], rest.shape[1], batch_first=True)
        b = w["lstm.B"][0].chunk(2)
        for to, v in zip((net.weight_ih_l0, net.weight_hh_l0, net.bias_ih_l0, net.bias_hh_l0),
                         (inputs, rest, *b)):
            to.data = self.gates(v, self.TORCH)
        last = torch.nn.Linear(rest.shape[1], 10)
        last.weight.data, last.bias.data = w["fc.weight"], w["fc.bias"]
        self.net, self.last = net, last
        self.trained = dict(torch.nn.ModuleList([net, last]).named_parameters())
        self.model = lambda x: last(net(x)[1][0][0])
        self.x = [torch.tensor(x, dtype=torch.float32).reshape(r["shape"]) for x in r["x"]]

    def gradients(self):
        n, of = self.net, lambda v: self.gates(v.grad, self.ONNX).flatten()
        return {"gradients": {
            "lstm.W": of(n.weight_ih_l0).tolist(), "lstm.R": of(n.weight_hh_l0).tolist(),
            "lstm.B": torch.cat([of(n.bias_ih_l0), of(n.bias_hh_l0)]).tolist(),
            "fc.weight": self.last.weight.grad.flatten().tolist(),
            "fc.bias": self.last.bias.grad.tolist()}}


class Exported(Training):
    """A model that was written before, which keeps its gradients in files, and those in float64."""

    def start(self, r):
        self.before = memory("VmRSS")
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        self.request, self.model, self.folder = r, made(r["model"]), r["folder"]
        self.trained = dict(self.model.named_parameters())
        kind = torch.int64 if r.get("tokens") else torch.float32
        self.x = [torch.from_file(f"{self.folder}/x{i}", dtype=kind,
                                  size=math.prod(r["shape"])).reshape(r["shape"])
                  for i in range(len(r["y"]))]

    def begin(self):
        answer = super().begin() | {"peak": memory("VmHWM") - self.before}
        if self.races:
            return answer
        kept = self.model, self.trained, self.x, self.by
        self.exactly()
        answer["exact"] = super().begin()["losses"]
        self.model, self.trained, self.x, self.by = kept
        return answer

    def exactly(self):
        """Has the same model and batches in float64."""
        self.model = made(self.request["model"]).double()
        self.trained = dict(self.model.named_parameters())
        self.x = [x.double() if x.is_floating_point() else x for x in self.x]
        self.by = optimizer(self.request["optimizer"], list(self.trained.values()))

    def gradients(self):
        files = {}
        for i, (name, v) in enumerate(self.trained.items()):
            kind = "exact" if v.dtype == torch.float64 else "gradient"
            files[name] = str(i)
            v.grad.contiguous().numpy().tofile(f"{self.folder}/{kind}{i}")
        return {"files": files}


def memory(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key))


class Text(torch.nn.Module):
    """A model of text that gives the scores alone."""

    def __init__(self, layers, size, heads):
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        self.bert = BertForSequenceClassification(BertConfig(
            vocab_size=1000, hidden_size=size, num_hidden_layers=layers, num_attention_heads=heads,
            intermediate_size=4 * size, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
            num_labels=10, pad_token_id=None))  # PyTorch has no gradient of one, ONNX knows none

    def forward(self, x):
        return self.bert(x).logits


def made(name):
    """A model with the weights of one seed, without dropout."""
    torch.manual_seed(1)
    if name == "minilm":
        model = Text(6, 384, 12)
    elif name == "bert":
        model = Text(12, 768, 12)
    else:
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, num_classes=10)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
            module.eval()
    return model


def training(name):
    """A model as it is trained."""
    model = made(name)
    for module in model.modules():
        module.train(not isinstance(module, torch.nn.Dropout))
    model.training = True
    return model


def exact(r):
    """Writes a model in float64, a batch, what each score counts, and the gradients."""
    model, shape = training(r["model"]).double(), r["shape"]
    x = (torch.randint(r["tokens"], shape) if r.get("tokens") else
         torch.randn(shape, dtype=torch.float64))
    write(model, x, r["export"])
    scores = model(x)
    seed = torch.randn_like(scores)
    (scores * seed).sum().backward()
    files = {name: f"g{i}" for i, (name, _) in enumerate(model.named_parameters())}
    for name, v in [("x", x), ("seed", seed), *((files[n], v.grad)
                                                for n, v in model.named_parameters())]:
        v.detach().contiguous().numpy().tofile(f"{r['folder']}/{name}")
    return {"version": torch.__version__, "files": files}


def export(r):
    x = torch.zeros(r["shape"], dtype=torch.int64 if r.get("tokens") else torch.float32)
    write(training(r["model"]), x, r["export"])
    return {"version": torch.__version__}


def write(model, x, file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), file, dynamo=False, opset_version=17,
                          training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                          input_names=["x"], output_names=["y"])


def answered(request):
    """What is said to a request, whose model is trained by what follows."""
    global now
    if "time" in request:
        return now.time(request["time"])
    if "exact" in request:
        return exact(request)
    if "export" in request and not request.get("race"):
        return export(request)
    now = None
    kind = Recurrent if request["model"] == "lstm" else Training
    now = (Exported if "folder" in request else kind)(request)
    return now.begin()


now = None
for line in sys.stdin:
    try:
        answer = answered(json.loads(line))
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"}
    print(json.dumps(answer), flush=True)
