"""Time ONNX Runtime from the creation of a session to the end of the first run.

    python peer.py plain MODEL               with the optimiser, as by default
    python peer.py optimised MODEL           a model that it has optimised and saved before
    python peer.py save MODEL OPTIMISED      optimise and save
    python peer.py version

Prints {"ms": ...}. The start of Python and its imports are not in it.
"""

import json
import sys
import time

import numpy as np
import onnxruntime as ort


def options(level):
    made = ort.SessionOptions()
    made.log_severity_level = 3
    made.graph_optimization_level = level
    return made


def session(file, made):
    return ort.InferenceSession(file, made, providers=["CPUExecutionProvider"])


def inputs(of):
    """A made-up value for each input, symbolic dimensions 1."""
    rng = np.random.default_rng(1)
    for value in of.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in value.shape]
        yield value.name, rng.random(shape, dtype=np.float32)


def first_run(file, level):
    """Milliseconds. The input is made between two stretches of the clock."""
    begin = time.perf_counter()
    opened = session(file, options(level))
    created = time.perf_counter() - begin
    feeds = dict(inputs(opened))
    begin = time.perf_counter()
    opened.run(None, feeds)
    return (created + time.perf_counter() - begin) * 1e3


def main(mode, *files):
    levels = ort.GraphOptimizationLevel
    if mode == "version":
        print(ort.__version__)
    elif mode == "save":
        made = options(levels.ORT_ENABLE_ALL)
        made.optimized_model_filepath = files[1]
        session(files[0], made)
    else:
        level = levels.ORT_ENABLE_ALL if mode == "plain" else levels.ORT_DISABLE_ALL
        print(json.dumps({"ms": first_run(files[0], level)}))


main(*sys.argv[1:])
