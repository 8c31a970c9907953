"""A new process that answers one request by ONNX Runtime.

    python peer.py MODEL

Prints {"version": ..., "ms": ...}, the milliseconds that the creation of the session and the first
run took within it. Whoever starts it knows how long all of it took.
"""

import json
import sys
import time

import numpy as np
import onnxruntime as ort


def inputs(of):
    """A value for each input: a token or a picture, symbolic lengths of texts 128."""
    for value in of.get_inputs():
        shape = [d if isinstance(d, int) else 128 if at else 1 for at, d in enumerate(value.shape)]
        kind = np.int64 if "int64" in value.type else np.float32
        yield value.name, np.ones(shape, dtype=kind)


def main(file):
    made = ort.SessionOptions()
    made.log_severity_level = 3
    begin = time.perf_counter()
    opened = ort.InferenceSession(file, made, providers=["CPUExecutionProvider"])
    created = time.perf_counter() - begin
    feeds = dict(inputs(opened))
    begin = time.perf_counter()
    opened.run(None, feeds)
    took = created + time.perf_counter() - begin
    print(json.dumps({"version": ort.__version__, "ms": took * 1e3}))


main(*sys.argv[1:])
