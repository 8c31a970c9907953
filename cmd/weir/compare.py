"""Runs a model in another runtime for weir bench --compare.

A line of JSON on standard input names the runtime, the model and the files of its inputs; each
further one asks for runs. Every line is answered by one: the runtime's name and version, the times
in ms, or what is wrong.
"""

import json
import os
import signal
import sys
import time


def onnxruntime(spec, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = spec["threads"]
    options.inter_op_num_threads = 1
    # some models declare output shapes that they do not keep, and it warns each time
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(spec["model"], options,
                                           providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)

    def run():
        # those kept must have the rank that the model declares, which may be wrong
        binding.clear_binding_outputs()
        for output in session.get_outputs():
            binding.bind_output(output.name)
        begin = time.perf_counter()
        session.run_with_iobinding(binding)
        return time.perf_counter() - begin

    return "onnxruntime " + onnxruntime.__version__, run


def openvino(spec, feeds):
    import openvino

    core = openvino.Core()
    model = core.read_model(spec["model"])
    # weir's plans are for the shapes of these inputs, too
    model.reshape({name: list(value.shape) for name, value in feeds.items()})
    # it multiplies in bf16 by itself where the processor does
    precision = "f32" if spec["precision"] == "fp32" else "bf16"
    compiled = core.compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": spec["threads"], "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision})
    request = compiled.create_infer_request()
    for name, value in feeds.items():
        request.set_tensor(name, openvino.Tensor(value, shared_memory=True))

    def run():
        begin = time.perf_counter()
        request.infer()
        return time.perf_counter() - begin

    version = openvino.__version__.split("-")[0]
    return f"openvino {version} in {precision}", run


def prepare(spec):
    import numpy as np

    feeds = {name: np.load(file) for name, file in zip(spec["inputs"], spec["files"])}
    name, run = {"onnxruntime": onnxruntime, "openvino": openvino}[spec["runtime"]](spec, feeds)
    return name, run, feeds


def main():
    # Ctrl-C is for weir, which ends this by closing its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries write to standard output what is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(what):
        print(json.dumps(what), file=answers, flush=True)

    try:
        # the runtimes read the inputs where they are, and do not keep them
        name, run, _feeds = prepare(json.loads(sys.stdin.readline()))
        answer({"name": name})
        for line in sys.stdin:
            asked = json.loads(line)
            for _ in range(asked["warmup"]):
                run()
            answer({"ms": [run() * 1e3 for _ in range(asked["runs"])]})
    except ImportError as error:
        answer({"missing": True, "error": str(error)})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})


main()
