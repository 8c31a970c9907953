#!/usr/bin/env python3
"""Compare weir with ONNX Runtime on what ONNX Runtime's own tools make of models.

Its quantisation tools write 8-bit models (dynamic, static as QDQ and as QOperator) and 4-bit ones (MatMulNBits); its graph
optimiser and its transformer optimiser write operators of the domain com.microsoft. Each variant is made once from a model
of fetch.py or of `weir model new`, kept in the user's cache, and run in both.

Rounding to 8 bits turns differences in the last digit of a float into whole steps, so that two correct runtimes agree only
roughly on quantised models: the relative L2 error allowed is 1e-3 for float variants and 5e-2 for others.

Exit codes: 0 all agree; 1 some do not; 2 the command line is wrong or weir cannot be built; 3 the peer cannot be installed.
"""

import argparse
import collections
import json
import logging
import pathlib
import sys
import time

import environment

if __name__ == "__main__":
    try:
        environment.enter()
    except environment.NotInstallable as error:
        print(f"skipped: ONNX Runtime cannot be installed: {error}", file=sys.stderr)
        sys.exit(3)

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from onnxruntime import quantization  # noqa: E402
from onnxruntime.capi import _pybind_state as pybind  # noqa: E402

import compare  # noqa: E402
import fetch  # noqa: E402
import inputs  # noqa: E402

EXACT, ROUNDED = 1e-3, 5e-2
Level = onnxruntime.GraphOptimizationLevel


def optimised(source, target, level=Level.ORT_ENABLE_EXTENDED):
    """What ONNX Runtime makes of a model when it loads it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def dynamic(source, target):
    quantization.quantize_dynamic(source, target, weight_type=quantization.QuantType.QUInt8)


class Calibration(quantization.CalibrationDataReader):
    """A few inputs of the kind that the model is compared on."""

    def __init__(self, feeds):
        self.left = list(feeds)

    def get_next(self):
        return self.left.pop(0) if self.left else None


def static(form):
    def make(source, target):
        quantization.quantize_static(source, target, Calibration([case_of(source).steps[0]]), quant_format=form,
                                     activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)

    return make


def four_bits(source, target, block=32):
    """Products with constant matrices become MatMulNBits, as ONNX Runtime's quantiser for 4 bits does it."""
    model = onnx.load(source)
    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        weights = numpy_helper.to_array(constants[node.input[1]]) if node.op_type == "MatMul" and node.input[1] in constants else None
        if weights is None or weights.ndim != 2:
            continue
        k, n = weights.shape
        blocks = -(-k // block)
        packed, scales = np.zeros((n, blocks, block // 2), np.uint8), np.zeros((n, blocks), np.float32)
        zeros = np.zeros((n, (blocks + 1) // 2), np.uint8)
        pybind.quantize_matmul_4bits(packed, np.ascontiguousarray(weights), scales.reshape(-1), zeros.reshape(-1), block, n, k, False)
        names = [f"{node.input[1]}_{part}" for part in ("packed", "scales", "zeros")]
        if names[0] not in constants:
            parts = [numpy_helper.from_array(v, name) for v, name in zip((packed, scales, zeros), names)]
            model.graph.initializer.extend(parts)
            constants |= {t.name: t for t in parts}
        del node.input[1:]
        node.input.extend(names)
        node.op_type, node.domain = "MatMulNBits", "com.microsoft"
        node.attribute.extend(onnx.helper.make_attribute(a, v) for a, v in
                              {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": 1}.items())
    used = {name for node in model.graph.node for name in node.input}
    kept = [t for t in model.graph.initializer if t.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, target)


def then(first, second):
    def make(source, target):
        middle = target.with_suffix(".part.onnx")
        first(source, middle)
        second(middle, target)
        middle.unlink()

    return make


# name of the variant -> (model, how it is made, relative L2 error allowed)
VARIANTS = {
    "minilm-optimised": ("minilm", optimised, EXACT),
    "minilm-4bit": ("minilm", four_bits, EXACT),
    "minilm-dynamic": ("minilm", dynamic, ROUNDED),
    "minilm-dynamic-optimised": ("minilm", then(dynamic, optimised), ROUNDED),
    "minilm-4bit-optimised": ("minilm", then(four_bits, optimised), EXACT),
    "minilm-l6-optimised": ("minilm-l6", optimised, EXACT),
    "minilm-l6-dynamic-optimised": ("minilm-l6", then(dynamic, optimised), ROUNDED),
    "mobilenetv2-optimised": ("mobilenetv2", optimised, EXACT),
    "mobilenetv2-qdq": ("mobilenetv2", static(quantization.QuantFormat.QDQ), ROUNDED),
    "mobilenetv2-qdq-optimised": ("mobilenetv2", then(static(quantization.QuantFormat.QDQ), optimised), ROUNDED),
    "mobilenetv2-qoperator": ("mobilenetv2", static(quantization.QuantFormat.QOperator), ROUNDED),
    "resnet50-optimised": ("resnet50", optimised, EXACT),
    "resnet50-dynamic": ("resnet50", dynamic, ROUNDED),
    "silero-vad-v5-optimised": ("silero-vad-v5", optimised, EXACT),
    "silero-vad-legacy-dynamic": ("silero-vad-legacy", dynamic, ROUNDED),
    "ppocr-rec-dynamic": ("ppocr-rec", dynamic, ROUNDED),
    "ppocr-det-qdq": ("ppocr-det", static(quantization.QuantFormat.QDQ), ROUNDED),
}


def case_of(file, session=None):
    """The inputs of a model, by the name of its file."""
    base = file.name.split(".")[0]
    base = max((b for b, _, _ in VARIANTS.values() if base.startswith(b)), key=len, default=base)
    rng = np.random.default_rng(0)
    index = fetch.default_directory() / "models.json"
    for entry in json.loads(index.read_text())["models"] if index.exists() else []:
        if entry["name"] == base:
            spec = {i["name"]: (i["dtype"], i["shape"]) for i in entry["inputs"]}
            return inputs.fetched_case(rng, entry["recipe"], spec)
    session = session or compare.peer_session(str(file))
    return inputs.standard_case(rng, base, [(i.name, i.shape) for i in session.get_inputs()])


def source(model, directory, weir):
    """The file of a model, written or found."""
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
        if node.domain not in ("", "ai.onnx") or any(w in node.op_type for w in ("Quant", "Integer", "QLinear", "SimplifiedLayer")):
            uses[node.op_type] += 1
    return ", ".join(f"{o} {n}" for o, n in sorted(uses.items()))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="VARIANT", help="variants to compare (default: all)")
    parser.add_argument("--weir", help="weir binary (default: built from ./cmd/weir)")
    parser.add_argument("--directory", type=pathlib.Path, default=environment.cache_directory() / "quantized", help="folder of the variants")
    options = parser.parse_args()
    if unknown := set(options.names) - set(VARIANTS):
        parser.error(f"no variant named {', '.join(sorted(unknown))}; there are {', '.join(VARIANTS)}")
    return options


def main():
    options = parse_arguments()
    logging.disable(logging.WARNING)
    binary = compare.build_weir() if options.weir is None else options.weir
    if binary is None:
        return compare.EXIT_USAGE
    weir = compare.Weir(binary, [])
    options.directory.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in options.names or VARIANTS:
        start = time.perf_counter()
        options.tolerance = VARIANTS[name][2]
        uses = []

        def work():
            file = variant(name, options.directory, weir)
            uses.append(operators(file))
            return compare.compare(compare.Model(name, file, lambda session: case_of(file, session)), weir, options)

        entry = compare.guarded(name, work)
        failed += entry["status"] == "failed"
        print("\n".join(list(compare.table([entry]))[1:]), flush=True)
        print(f"    {''.join(uses)}\n    weir {entry.get('weir_ms', [0])[-1]:.0f} ms, peer {entry.get('peer_ms', [0])[-1]:.0f} ms, "
              f"{time.perf_counter() - start:.0f} s in all", flush=True)
    return compare.EXIT_DISAGREE if failed else 0


if __name__ == "__main__":
    sys.exit(main())
