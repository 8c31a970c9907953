"""The same updates by ONNX Runtime's training build, of the ONNX file that weir trains: a request
has its name, "export", and the names and shapes of the weights, "shapes". See protocol.py."""

import math
import os
import sys
import types

import protocol

CLASSES = 10


def training(request):
    """A model's updates, and the version of what makes them."""
    import onnx
    import onnxruntime
    from onnxruntime.training import api, artifacts, onnxblock

    o, folder = request["optimizer"], os.path.dirname(request["export"])
    if o["kind"] != "adamw":
        raise ValueError(f"it has no {o['kind']}")
    model = onnx.load(request["export"])
    suit(model, request["shape"][0], onnx)
    weights = {w.name: list(w.dims) for w in model.graph.initializer if w.name in request["shapes"]}
    assert weights == request["shapes"], "the file has other weights"
    adamw = onnxblock.optim.AdamW(betas=(o["beta1"], o["beta2"]), eps=o["epsilon"],
                                  weight_decay=o["decay"])
    with protocol.silence():
        artifacts.generate_artifacts(model, requires_grad=list(weights), optimizer=adamw,
                                     loss=artifacts.LossType.CrossEntropyLoss,
                                     artifact_directory=folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = request["threads"]
    state = api.CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = api.Module(f"{folder}/training_model.onnx", state, session_options=options)
    assert module.get_parameters_size(True) == sum(math.prod(s) for s in weights.values())
    by = api.Optimizer(f"{folder}/optimizer_model.onnx", module)
    by.set_learning_rate(o["rate"])
    return module, by, onnxruntime.__version__


def suit(model, batch, onnx):
    """Writes a model as ONNX Runtime's gradients want it, and as weir takes it: normalisations have
    the moments of batches, and what a softmax at the end normalises are the scores."""
    for n in model.graph.node:
        if n.op_type == "BatchNormalization" and len(n.output) < 3:
            others = [a for a in n.attribute if a.name != "training_mode"]
            del n.attribute[:]
            n.attribute.extend([*others, onnx.helper.make_attribute("training_mode", 1)])
            n.output.extend(name + ".next" for name in n.input[3:])
        elif n.op_type == "LayerNormalization":
            n.output.extend(f"{n.output[0]}.{i}" for i in range(len(n.output), 3))
        elif n.op_type == "LSTM":  # absent operands at the end count as well
            n.input.extend([""] * (7 - len(n.input)))
    last, scores = model.graph.node[-1], model.graph.output[0].name
    if last.op_type == "Softmax" and last.output[0] == scores:
        scores = last.input[0]
        model.graph.node.remove(last)
    del model.graph.output[:]  # whose shape is that of labels, too, and must be known
    model.graph.output.append(
        onnx.helper.make_tensor_value_info(scores, onnx.TensorProto.FLOAT, [batch, CLASSES]))


def begin(request):
    import numpy

    module, by, version = training(request)
    x, y = protocol.batches(request, numpy)

    def update(i):
        loss = module(x[i], y[i])
        by.step()
        module.lazy_reset_grad()
        return float(loss)

    return update, version


# These parts of the package want PyTorch, which training on the device does not use.
for name in ("amp", "optim"):
    sys.modules["onnxruntime.training." + name] = types.ModuleType(name)
protocol.limit(int(sys.argv[1]))
protocol.serve(begin)
