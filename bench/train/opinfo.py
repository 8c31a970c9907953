"""Samples of PyTorch's own tests of gradients, as ONNX models with what PyTorch makes of them.

Of each operator in torch.testing._internal.common_methods_invocations some samples of float64 are
exported, by PyTorch's exporter, to files in the folder that is the first argument; a line a sample
says {"op", "file", "inputs", "outputs"}, shapes by number, beside which lie their elements
(FILE.iN, FILE.oN), what each element of an output counts (FILE.sN) and the gradients (FILE.gN).
"valid" says whether ONNX's own evaluator computes from the file what PyTorch does.
A line {"op", "skipped"} is an operator of which nothing could be exported.
"""

import json
import os
import sys
import warnings

import numpy
import torch
from onnx.reference import ReferenceEvaluator
from torch.testing._internal.common_methods_invocations import op_db

folder, most = sys.argv[1], int(sys.argv[2])
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the exporter prints graphs that it cannot write
os.dup2(1, 2)
warnings.simplefilter("ignore")
torch.manual_seed(1)


def smooth(v):
    return isinstance(v, torch.Tensor) and v.dtype == torch.float64 and v.requires_grad


class Call(torch.nn.Module):
    """The call of an operator as a function of the operands that are differentiated by."""

    def __init__(self, op, sample):
        super().__init__()
        self.op, self.sample = op, sample

    def forward(self, *given):
        given = iter(given)

        def fill(v):
            if smooth(v):
                return next(given)
            if isinstance(v, (list, tuple)) and any(smooth(x) for x in v):
                return type(v)(fill(x) for x in v)
            return v

        s = self.sample
        args = [fill(v) for v in (s.input, *s.args)]
        out = self.op(*args, **{k: fill(v) for k, v in s.kwargs.items()})
        if isinstance(out, torch.Tensor):
            return out
        return tuple(v for v in out if isinstance(v, torch.Tensor))


def operands(v):
    if smooth(v):
        return [v]
    if isinstance(v, (list, tuple)):
        return [x for e in v for x in operands(e)]
    return []


def write(v, name):
    v.detach().contiguous().numpy().tofile(f"{folder}/{name}")


def valid(file, given, outs, of):
    try:
        model = ReferenceEvaluator(f"{folder}/{file}")
        fed = {f"i{i}": v.detach().numpy() for i, v in enumerate(given)}
        got = model.run(None, {name: fed[name] for name in model.input_names})
        return all(numpy.allclose(got[i], outs[i].detach().numpy(), 1e-5, 1e-8, equal_nan=True)
                   for i in of)
    except Exception:  # whatever it raises of a file that it cannot evaluate
        return False


def export(op, sample, file):
    call = Call(op, sample).eval()
    s = sample
    given = [x for v in (s.input, *s.args, *s.kwargs.values()) for x in operands(v)]
    if not given or any(v.numel() == 0 for v in given):
        return None
    given = [v.detach().clone().requires_grad_() for v in given]
    out = call(*given)
    outs = [out] if isinstance(out, torch.Tensor) else list(out)
    of = [i for i, v in enumerate(outs) if v.dtype == torch.float64 and v.requires_grad]
    if not of:
        return None
    seeds = [torch.randn_like(outs[i]) for i in of]
    gradients = torch.autograd.grad([outs[i] for i in of], given, seeds, allow_unused=True)
    torch.onnx.export(call, tuple(given), f"{folder}/{file}", dynamo=False, opset_version=18,
                      input_names=[f"i{i}" for i in range(len(given))],
                      output_names=[f"o{i}" for i in range(len(outs))])
    for i, (v, g) in enumerate(zip(given, gradients)):
        write(v, f"{file}.i{i}")
        write(torch.zeros_like(v) if g is None else g, f"{file}.g{i}")
    for i, s in zip(of, seeds):
        write(outs[i], f"{file}.o{i}")
        write(s, f"{file}.s{i}")
    return {"inputs": [list(v.shape) for v in given], "valid": valid(file, given, outs, of),
            "outputs": {f"o{i}": list(outs[i].shape) for i in of}}


count = 0
for info in op_db:
    if torch.float64 not in info.dtypes or not info.supports_autograd:
        continue
    made, why = 0, "no sample has a gradient"
    name = info.name + ("." + info.variant_test_name if info.variant_test_name else "")
    try:
        for sample in info.sample_inputs("cpu", torch.float64, requires_grad=True):
            if made == most:
                break
            try:
                said = export(info.op, sample, f"{count}.onnx")
            except Exception as error:  # what cannot be exported is no sample
                why = str(error).strip().split("\n")[0][:200]
                continue
            if said:
                said |= {"op": name, "file": f"{count}.onnx"}
                print(json.dumps(said), file=answers, flush=True)
                made, count = made + 1, count + 1
    except Exception as error:
        why = str(error).strip().split("\n")[0][:200]
    if made == 0:
        print(json.dumps({"op": name, "skipped": why}), file=answers, flush=True)
