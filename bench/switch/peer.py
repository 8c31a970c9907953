"""A new process that answers one request by ONNX Runtime.

    python peer.py MODEL

Prints {"version": ..., "created_ms": ..., "ms": ...} as soon as it has answered, the milliseconds
that the creation of the session took, and that and the first run; whoever starts it knows how long
all of it took. And then {"run_ms": ...}, what a run takes once all is there, the least of three.
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


def resident(opened, feeds):
    """How long a run takes, in seconds."""
    begin = time.perf_counter()
    opened.run(None, feeds)
    return time.perf_counter() - begin


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
    told = {"version": ort.__version__, "created_ms": created * 1e3, "ms": took * 1e3}
    print(json.dumps(told), flush=True)
    print(json.dumps({"run_ms": min(resident(opened, feeds) for _ in range(3)) * 1e3}))


main(*sys.argv[1:])
