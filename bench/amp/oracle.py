"""What PyTorch makes of the same scales and the same net, for bench/amp.

Reads a request in JSON on standard input and writes the answer in JSON to standard output.
"""

import json
import sys

import torch


def scales(case):
    """The scale and the count of good steps after each step of GradScaler."""
    scaler = torch.amp.GradScaler("cpu", init_scale=case["init"], growth_factor=case["growth"],
                                  backoff_factor=case["backoff"],
                                  growth_interval=case["interval"])
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    out = []
    for bad in case["bad"]:
        optimizer.zero_grad()
        scaler.scale((weight * (float("inf") if bad else 1.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        out.append([scaler.get_scale(), int(scaler._growth_tracker)])
    return out


def gradients(net, autocast):
    """The gradients of the weights of a net of products and activations."""
    x = torch.tensor(net["x"]).reshape(net["rows"], net["width"])
    ws = [torch.tensor(w).reshape(net["width"], net["width"]).requires_grad_() for w in net["w"]]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        h = x
        for w in ws:
            h = torch.tanh(h @ w)
        loss = (h.float() * h.float()).mean()
    loss.backward()
    return [w.grad.flatten().tolist() for w in ws]


def main():
    torch.manual_seed(0)
    request = json.load(sys.stdin)
    json.dump({"torch": torch.__version__, "scales": [scales(c) for c in request["scales"]],
               "fp32": gradients(request["net"], False), "bf16": gradients(request["net"], True)},
              sys.stdout)


main()
