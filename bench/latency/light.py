"""The light models of the ONNX project, with weights.

Light models are the graphs of well-known networks whose weights were replaced by ConstantOfShape of
0.02 (onnx/backend/test/data/light in the package onnx). All channels of such a network are alike,
so that every class gets the same score and a comparison of outputs would overlook nearly any
mistake. Here each ConstantOfShape becomes a random initializer, distributed as what it is used for
wants it, and the graph stays as it is.

Needs the peer's Python environment.
"""

import pathlib

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = {
    "vgg19": "light_vgg19", "densenet121": "light_densenet121",
    "inception-v2": "light_inception_v2", "squeezenet": "light_squeezenet",
    "shufflenet": "light_shufflenet"
}

# The first version of the format in which an initializer need not be an input, which a caller could
# set, as well.
IR_VERSION = 4

# What an operator is called by its use: (operator, the one after it) -> name.
ENDS = {("BatchNormalization", "Sum"): "Residual", ("Gemm", "Softmax"): "Classifier"}


def folder():
    return pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def uses(graph):
    """{value: (operator, operand number)} of one use of each value.

    Unsqueeze counts as what its result is used for, a BatchNormalization at the end of a residual
    branch as Residual, and a Gemm before Softmax as Classifier.
    """
    found = {}
    for node in reversed(graph.node):
        after, _ = used = found.get(node.output[0], ("", 0))
        kind = ENDS.get((node.op_type, after), node.op_type)
        for k, name in enumerate(node.input):
            found[name] = used if node.op_type == "Unsqueeze" else (kind, k)
    return found


def weights(rng, use, shape):
    """Random weights for one operand of an operator, such that values neither grow nor vanish with
    depth."""
    match use:
        case "Conv" | "Gemm", 1:  # He et al., "Delving Deep into Rectifiers", 2015, section 2.2
            return rng.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape)
        case "Classifier", 1:  # scores of about 1, which Softmax does not make 0 and 1
            return rng.normal(0, 1 / shape[1], shape)
        # Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 5.1, has it begin at 0
        case "Residual", 1:
            return rng.uniform(0.1, 0.3, shape)
        case ("BatchNormalization", 1 | 4) | ("Residual", 4) | ("Mul", _):  # scale, variance
            return rng.uniform(0.8, 1.2, shape)
        # bias, mean
        case ("Conv" | "Gemm" | "Classifier", 2) | ("BatchNormalization" | "Residual",
                                                    2 | 3) | ("Add", _):
            return rng.normal(0, 0.1, shape)
    raise ValueError(f"no weights known for operand {use[1]} of {use[0]}")


def fill(model, rng):
    """Replace each ConstantOfShape of a light model by an initializer."""
    graph = model.graph
    constants = {i.name: i for i in graph.initializer}
    used = uses(graph)
    filled = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    for node in filled:
        shape = numpy_helper.to_array(constants.pop(node.input[0])).tolist()
        value = weights(rng, used[node.output[0]], shape).astype(np.float32)
        constants[node.output[0]] = numpy_helper.from_array(value, node.output[0])
        graph.node.remove(node)
    kept = {name for node in graph.node for name in node.input}
    inputs = [i for i in graph.input if i.name in kept and i.name not in constants]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(i for name, i in constants.items() if name in kept)
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, IR_VERSION)


def write(name, file):
    """Write one of LIGHT with weights, the same at every call."""
    model = onnx.load(folder() / f"{LIGHT[name]}.onnx")
    fill(model, np.random.default_rng(0))
    onnx.checker.check_model(model)
    onnx.save(model, file)
