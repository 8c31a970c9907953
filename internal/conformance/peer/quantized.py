#!/usr/bin/env python3
"""Compare weir with ONNX Runtime on what ONNX Runtime's own tools make of models.

Its quantisation tools write 8-bit models (dynamic, static as QDQ and as QOperator) and 4-bit ones
(MatMulNBits); its graph optimiser and its transformer optimiser write operators of the domain
com.microsoft. Each variant is made once from a model of fetch.py or of `weir model new`, kept in
the user's cache, and run in both.

Rounding to 8 bits turns differences in the last digit of a float into whole steps, and layer upon
layer multiplies those, so that two correct runtimes agree only roughly on a quantised model: ONNX
Runtime with its optimisations and without them are up to 0.15 apart, and 0.36 in one element. So
every node of such a model runs in weir on the operands that it has in ONNX Runtime, and there
floats must agree within 1e-4, as a whole and each, and integers within one step, all but one in ten
thousand exactly. The whole model is allowed a relative L2 error of 0.2 and a local one of 0.4.
Float variants must agree within 1e-3 as a whole and each.

Exit codes: 0 all agree; 1 some do not; 2 the command line is wrong or weir cannot be built; 3 the
peer cannot be installed.
"""

import argparse
import collections
import functools
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import time

import environment

if __name__ == "__main__":
    environment.enter_or_exit()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.version_converter  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from onnxruntime import quantization  # noqa: E402
from onnxruntime.capi import _pybind_state as pybind  # noqa: E402

import compare  # noqa: E402
import fetch  # noqa: E402
import inputs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
EXACT, ROUNDED, ROUNDED_LOCAL, NODE = 1e-3, 0.2, 0.4, 1e-4
Level = onnxruntime.GraphOptimizationLevel


def optimised(source, target, level=Level.ORT_ENABLE_EXTENDED):
    """What ONNX Runtime makes of a model when it loads it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def folded(source, target):
    """A model as ONNX Runtime wants it before static quantisation: batch normalisation in the
    weights of convolutions."""
    optimised(source, target, Level.ORT_ENABLE_BASIC)


def dynamic(source, target):
    quantization.quantize_dynamic(source, target, weight_type=quantization.QuantType.QUInt8,
                                  extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})


class Calibration(quantization.CalibrationDataReader):
    """A few inputs of the kind that the model is compared on."""

    def __init__(self, feeds):
        self.left = list(feeds)

    def get_next(self):
        return self.left.pop(0) if self.left else None


# The first whose QuantizeLinear has a scale for each channel.
CHANNELS_OPSET = 13


def prepared(source):
    """A model as static quantisation wants it: the tool writes scales for each channel into older
    opsets, too, where they are invalid, and takes constants that nodes hold for activations."""
    model = onnx.load(source)
    held = [n for n in model.graph.node
            if n.op_type == "Constant" and n.attribute[0].name == "value"]
    for node in held:
        node.attribute[0].t.name = node.output[0]
        model.graph.initializer.append(node.attribute[0].t)
        model.graph.node.remove(node)
    if next(o.version for o in model.opset_import if not o.domain) < CHANNELS_OPSET:
        model = onnx.version_converter.convert_version(model, CHANNELS_OPSET)
    return model


def static(form, **more):
    def make(source, target):
        quantization.quantize_static(prepared(source),
                                     target,
                                     Calibration([case_of(source).steps[0]]),
                                     quant_format=form,
                                     **{
                                         "activation_type": quantization.QuantType.QUInt8,
                                         "weight_type": quantization.QuantType.QInt8
                                     } | more)

    return make


def four_bits(source, target, block=32, accuracy=1):
    """Products with constant matrices become MatMulNBits, as ONNX Runtime's quantiser for 4 bits
    does it.

    With accuracy 4 they may round the other operand to bytes, with 1 not.
    """
    model = onnx.load(source)
    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        weights = numpy_helper.to_array(constants[
            node.input[1]]) if node.op_type == "MatMul" and node.input[1] in constants else None
        if weights is None or weights.ndim != 2:
            continue
        k, n = weights.shape
        blocks = -(-k // block)
        packed, scales = np.zeros((n, blocks, block // 2), np.uint8), np.zeros((n, blocks),
                                                                               np.float32)
        zeros = np.zeros((n, (blocks + 1) // 2), np.uint8)
        pybind.quantize_matmul_4bits(packed, np.ascontiguousarray(weights), scales.reshape(-1),
                                     zeros.reshape(-1), block, n, k, False)
        names = [f"{node.input[1]}_{part}" for part in ("packed", "scales", "zeros")]
        if names[0] not in constants:
            parts = [
                numpy_helper.from_array(v, name) for v, name in zip((packed, scales, zeros), names)
            ]
            model.graph.initializer.extend(parts)
            constants |= {t.name: t for t in parts}
        del node.input[1:]
        node.input.extend(names)
        node.op_type, node.domain = "MatMulNBits", "com.microsoft"
        node.attribute.extend(
            onnx.helper.make_attribute(a, v) for a, v in
            {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": accuracy}.items())
    used = {name for node in model.graph.node for name in node.input}
    kept = [t for t in model.graph.initializer if t.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, target)


def transformers(source, target):
    """EmbedLayerNormalization, Attention, SkipLayerNormalization and BiasGelu, by the optimiser for
    transformers; it needs PyTorch."""
    from onnxruntime.transformers import optimizer

    optimizer.optimize_model(str(source),
                             model_type="bert",
                             num_heads=12,
                             hidden_size=384,
                             opt_level=0).save_model_to_file(str(target))


def nncf(source, target):
    """As NNCF quantises: weights by channel, activations by tensor or by channel, as it sees fit.

    It needs more packages than the peer, which lie in an environment of their own.
    """
    python = environment.install(HERE / "requirements-nncf.txt")
    with tempfile.NamedTemporaryFile(suffix=".npz") as feeds:
        np.savez(feeds, **case_of(source).steps[0])
        feeds.flush()
        subprocess.run([python, HERE / "nncf_quantize.py", source, feeds.name, target], check=True,
                       capture_output=True)


def by_tools(model):
    """What tools make of a model, by what the name of the variant has more than the model's."""
    qdq, words = quantization.QuantFormat.QDQ, quantization.QuantType.QUInt16
    makers = {
        "qdq": static(qdq), "qdq-channel": static(qdq, per_channel=True),
        "qdq-products": static(qdq, op_types_to_quantize=["Conv", "MatMul"]),
        "a16": static(qdq, activation_type=words), "nncf": nncf
    }
    return {f"{model}-{more}": (model, make, ROUNDED) for more, make in makers.items()}


# name of the variant -> (model or variant, how it is made, relative L2 error allowed)
VARIANTS = {
    "minilm-optimised": ("minilm", optimised, EXACT),
    "minilm-4bit": ("minilm", four_bits, EXACT),
    "minilm-4bit-int8": ("minilm", functools.partial(four_bits, accuracy=4), ROUNDED),
    "minilm-dynamic": ("minilm", dynamic, ROUNDED),
    "minilm-dynamic-optimised": ("minilm-dynamic", optimised, ROUNDED),
    "minilm-4bit-optimised": ("minilm-4bit", optimised, EXACT),
    "minilm-transformers": ("minilm", transformers, EXACT),
    "minilm-transformers-dynamic": ("minilm-transformers", dynamic, ROUNDED),
    "minilm-l6-optimised": ("minilm-l6", optimised, EXACT),
    "minilm-l6-dynamic": ("minilm-l6", dynamic, ROUNDED),
    "minilm-l6-dynamic-optimised": ("minilm-l6-dynamic", optimised, ROUNDED),
    "mobilenetv2-optimised": ("mobilenetv2", optimised, EXACT),
    "mobilenetv2-qdq": ("mobilenetv2", static(quantization.QuantFormat.QDQ), ROUNDED),
    "mobilenetv2-qdq-optimised": ("mobilenetv2-qdq", optimised, ROUNDED),
    "mobilenetv2-qoperator": ("mobilenetv2", static(quantization.QuantFormat.QOperator), ROUNDED),
    "mobilenetv2-qdq-channel": ("mobilenetv2", static(quantization.QuantFormat.QDQ,
                                                      per_channel=True), ROUNDED),
    "mobilenetv2-qdq-s8s8": ("mobilenetv2",
                             static(quantization.QuantFormat.QDQ,
                                    per_channel=True,
                                    activation_type=quantization.QuantType.QInt8), ROUNDED),
    "mobilenetv2-folded": ("mobilenetv2", folded, EXACT),
    "mobilenetv2-folded-qdq": ("mobilenetv2-folded",
                               static(quantization.QuantFormat.QDQ, per_channel=True), ROUNDED),
    "resnet50-folded": ("resnet50", folded, EXACT),
    "resnet50-folded-qdq": ("resnet50-folded", static(quantization.QuantFormat.QDQ,
                                                      per_channel=True), ROUNDED),
    "mobilenetv2-folded-a16": ("mobilenetv2-folded",
                               static(quantization.QuantFormat.QDQ,
                                      activation_type=quantization.QuantType.QUInt16), ROUNDED),
    "resnet50-folded-a16": ("resnet50-folded",
                            static(quantization.QuantFormat.QDQ,
                                   activation_type=quantization.QuantType.QUInt16), ROUNDED),
    "bert-base-dynamic": ("bert-base", dynamic, ROUNDED),
    "resnet50-qdq": ("resnet50", static(quantization.QuantFormat.QDQ, per_channel=True), ROUNDED),
    "resnet50-optimised": ("resnet50", optimised, EXACT),
    "resnet50-dynamic": ("resnet50", dynamic, ROUNDED),
    "silero-vad-v5-optimised": ("silero-vad-v5", optimised, EXACT),
    "ddddocr-common-dynamic": ("ddddocr-common", dynamic, ROUNDED),
}
for tooled in "ppocr-rec", "ppocr-det", "ddddocr-common", "mobilenetv2-folded", "resnet50-folded":
    VARIANTS |= {k: v for k, v in by_tools(tooled).items() if k not in VARIANTS}


def case_of(file, session=None):
    """The inputs of a model, by the name of its file."""
    base = file.name.split(".")[0]
    models = {model for model, _, _ in VARIANTS.values() if model not in VARIANTS}
    base = max((model for model in models if base.startswith(model)), key=len, default=base)
    rng = np.random.default_rng(0)
    index = fetch.default_directory() / "models.json"
    for entry in json.loads(index.read_text())["models"] if index.exists() else []:
        if entry["name"] == base:
            spec = {i["name"]: (i["dtype"], i["shape"]) for i in entry["inputs"]}
            return inputs.fetched_case(rng, entry["recipe"], spec)
    session = session or compare.peer_session(str(file))
    return inputs.standard_case(rng, base, [(i.name, i.shape) for i in session.get_inputs()])


def apart(model):
    """The nodes of a model side by side, each on operands that are inputs: (model, names of the
    values that feed it).

    The outputs of a node get another name than the value that its readers take.
    """
    whole, constants = model.graph, {t.name for t in model.graph.initializer}
    for node in whole.node:
        if node.op_type == "Constant":
            constants.add(node.output[0])
            whole.initializer.append(
                numpy_helper.from_array(numpy_helper.to_array(node.attribute[0].t), node.output[0]))
    nodes = [
        onnx.NodeProto.FromString(n.SerializeToString()) for n in whole.node
        if n.op_type != "Constant" and not subgraphs(n)
    ]
    fed = list(dict.fromkeys(i for n in nodes for i in n.input if i and i not in constants))
    for node in nodes:
        node.output[:] = [o and f"{o} computed" for o in node.output]
    return nodes, fed


def subgraphs(node):
    return any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
               for a in node.attribute)


def peer_values(file, feeds, names):
    """What ONNX Runtime, without optimisations, computes for the named values."""
    model = onnx.load(file)
    have = {o.name for o in model.graph.output}
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(n) for n in names if n not in have)
    session = compare.peer_session(model.SerializeToString(), Level.ORT_DISABLE_ALL)
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds)))


def node_by_node(file, weir, scratch):
    """What is wrong with single nodes on the peer's operands, and how many were compared."""
    feeds = case_of(file).steps[0]
    model = onnx.load(file)
    nodes, fed = apart(model)
    computed = [o.removesuffix(" computed") for n in nodes for o in n.output if o]
    values = feeds | peer_values(file, feeds, [n for n in computed if n not in feeds])
    typed = {
        n: (onnx.helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype), np.asarray(v).shape)
        for n, v in values.items()
    }
    graph = onnx.helper.make_graph(
        nodes, "apart", [onnx.helper.make_tensor_value_info(n, *typed[n]) for n in fed],
        [onnx.helper.make_tensor_value_info(f"{n} computed", typed[n][0], None)
         for n in computed], model.graph.initializer)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=model.opset_import,
                               ir_version=model.ir_version), scratch)
    got = weir.run(scratch, {n: np.asarray(values[n]) for n in fed})
    problems = []
    for node in nodes:
        for name in filter(None, node.output):
            if problem := value_problem(got[name], values[name.removesuffix(" computed")]):
                problems.append(f"{node.op_type} {node.name}: {problem}")
    return problems, len(nodes)


def value_problem(got, want):
    """What is wrong with one value, empty when it agrees."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
    if np.issubdtype(want.dtype, np.floating):
        error, local = compare.relative_l2(got, want)[0], compare.local_error(got, want)
        return "" if max(error, local) <= NODE else (f"relative L2 error {error:.2g}, local error "
                                                     f"{local:.2g}")
    off = np.abs(got.astype(np.int64) - want.astype(np.int64))
    if want.dtype.itemsize > 2:
        return f"{(off > 0).sum()} of {off.size} differ" if off.any() else ""
    if off.max(initial=0) > 1 or (off > 0).sum() > max(1, off.size // 10000):
        return f"{(off > 0).sum()} of {off.size} differ, by {off.max()} at most"
    return ""


def source(model, directory, weir):
    """The file of a model, written or found."""
    if model in VARIANTS:
        return variant(model, directory, weir)
    fetched = fetch.default_directory() / f"{model}.onnx"
    if fetched.exists():
        return fetched
    if model not in compare.STANDARD:
        raise FileNotFoundError(f"{fetched.name} is not fetched: run fetch.py")
    file = directory / f"{model}.onnx"
    if not file.exists():
        weir.new_model(model, file)
    return file


def variant(name, directory, weir):
    """The file of a variant, made unless it is there."""
    model, make, _ = VARIANTS[name]
    file = directory / f"{name}.onnx"
    if not file.exists():
        part = directory / f"{name}.making.onnx"
        make(source(model, directory, weir), part)
        part.rename(file)
    return file


def operators(file):
    """How often the model uses operators of other domains than ONNX's, and of quantisation."""
    uses = collections.Counter()
    for node in onnx.load(file, load_external_data=False).graph.node:
        if node.domain not in ("", "ai.onnx") or any(
                w in node.op_type for w in ("Quant", "Integer", "QLinear", "SimplifiedLayer")):
            uses[node.op_type] += 1
    return ", ".join(f"{o} {n}" for o, n in sorted(uses.items()))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names",
                        nargs="*",
                        metavar="VARIANT",
                        help="variants to compare (default: all)")
    compare.add_weir_option(parser)
    parser.add_argument("--directory",
                        type=pathlib.Path,
                        default=environment.cache_directory() / "quantized",
                        help="folder of the variants")
    options = parser.parse_args()
    if unknown := set(options.names) - set(VARIANTS):
        parser.error(
            f"no variant named {', '.join(sorted(unknown))}; there are {', '.join(VARIANTS)}")
    return options


def main():
    options = parse_arguments()
    logging.disable(logging.WARNING)
    binary = compare.weir_binary(options.weir)
    if binary is None:
        return compare.EXIT_USAGE
    weir = compare.Weir(binary, [])
    options.directory.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in options.names or VARIANTS:
        start = time.perf_counter()
        uses = []

        def work():
            file = variant(name, options.directory, weir)
            options.tolerance = VARIANTS[name][2]
            uses.append(operators(file))
            local = ROUNDED_LOCAL if options.tolerance == ROUNDED else EXACT
            entry = compare.compare(
                compare.Model(name, file, lambda session: case_of(file, session), local), weir,
                options)
            if options.tolerance == ROUNDED:
                problems, count = node_by_node(file, weir, options.directory / "apart.onnx")
                uses.append(f"; {count} nodes apart, {len(problems)} disagree" +
                            "".join(f"\n    {p}" for p in problems[:5]))
                entry["status"] = "failed" if problems else entry["status"]
            return entry

        try:
            variant(name, options.directory, weir)
        except ImportError as error:
            print(f"{name:18} skipped: {error}", flush=True)
            continue
        except Exception:  # said below
            pass
        entry = compare.guarded(name, work)
        failed += entry["status"] == "failed"
        print("\n".join(list(compare.table([entry]))[1:]), flush=True)
        print(
            f"    {''.join(uses)}\n    weir {entry.get('weir_ms', [0])[-1]:.0f} ms, peer "
            f"{entry.get('peer_ms', [0])[-1]:.0f} ms, "
            f"{time.perf_counter() - start:.0f} s in all",
            flush=True)
    return compare.EXIT_DISAGREE if failed else 0


if __name__ == "__main__":
    sys.exit(main())
