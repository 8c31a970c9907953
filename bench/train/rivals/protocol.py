"""How a rival answers: a request a line on standard input, an answer a line on standard output.

{"model", "threads", "updates", ...} begins a model and makes so many updates; the answer has their
losses. {"time": N} makes N more and answers with the milliseconds of each. What fails is said in
"error", and the process goes on.
"""

import contextlib
import json
import math
import os
import sys
import time


def batches(request, numpy):
    """The samples and labels of the request, whose samples may lie in files of a folder."""
    kind, shape = ("int64" if request.get("tokens") else "float32"), request["shape"]
    if request.get("x"):
        x = [numpy.array(v, dtype=kind) for v in request["x"]]
    else:
        x = [numpy.fromfile(f"{request['folder']}/x{i}", dtype=kind)
             for i in range(len(request["y"]))]
    for v in x:
        assert v.size == math.prod(shape)
    return [v.reshape(shape) for v in x], [numpy.array(y, dtype="int64") for y in request["y"]]


def limit(threads):
    """Keeps the process on so many processors, whatever else its libraries go by. Comes before
    they are loaded, for they count processors then."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"):
        os.environ[name] = str(threads)


@contextlib.contextmanager
def silence():
    """Drops what libraries print meanwhile."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def serve(begin):
    """Answers requests until their end. begin takes a request; it returns what trains, and the
    version of that: a function of the number of an update and its batch that returns the loss."""
    out, train, sets = os.fdopen(os.dup(1), "w"), None, 0
    os.dup2(2, 1)  # for libraries that print
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "time" in request:
                answer = {"ms": [timed(train, i % sets) for i in range(request["time"])]}
            else:
                train, version = begin(request)
                sets = len(request["y"])
                answer = {"version": version,
                          "losses": [train(i % sets) for i in range(request["updates"])]}
        except Exception as e:  # whatever a rival cannot do is part of what is reported
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=out, flush=True)


def timed(train, i):
    began = time.perf_counter()
    train(i)
    return (time.perf_counter() - began) * 1e3
