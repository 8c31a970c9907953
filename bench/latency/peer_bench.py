"""Measure one model in another runtime, alone in this process, as `weir bench` measures it in weir.

    python peer_bench.py {ort,openvino} MODEL RUNS WARMUP THREADS {fp32,bf16} [NAME=FILE.npy ...]

Prints one JSON object with the fields of `weir bench --json`, and besides
first_output_without_import_ms, which leaves out the start of Python and the
import of its packages. Nothing is imported that this does not need, since that
would count as the peer's.
"""

import time

BEGIN = time.perf_counter()

import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402

import numpy as np  # noqa: E402

if sys.argv[1:2] == ["openvino"]:
    import openvino  # noqa: E402
else:
    import onnxruntime  # noqa: E402

IMPORTED = time.perf_counter()


def milliseconds_since(begin):
    return (time.perf_counter() - begin) * 1e3


def since_process_start_ms():
    """Since the system started this process, measured as weir does it, in clock ticks of 10 ms
    (proc_pid_stat(5))."""
    here = milliseconds_since(BEGIN)
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return here
    started = int(fields[22 - 3]) / os.sysconf("SC_CLK_TCK")
    return max(here, (time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1e3)


def quantile(ordered, q):
    """The value of rank floor(q n) among n ordered values, as weir bench takes it: no
    interpolation."""
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def peak_rss_bytes():
    # getrusage(2): bytes on macOS, kilobytes on Linux
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def open_ort(file, threads, precision, feeds):
    """ONNX Runtime multiplies float32 as it is, whatever the precision that is asked for.

    Inputs are bound once: weir bench does not time their copying either. Outputs are bound anew for
    each run: those kept from the run before must have the rank that the model declares, and some
    models, which run well otherwise, declare a wrong one.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # some models declare output shapes that they do not keep, and it warns each time
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)

    def unbind_outputs():
        binding.clear_binding_outputs()
        for output in session.get_outputs():
            binding.bind_output(output.name)

    return unbind_outputs, lambda: session.run_with_iobinding(binding)


def open_openvino(file, threads, precision, feeds):
    """OpenVINO compiles for the shapes of these inputs, as weir does, and reads them where they
    are. Where the processor multiplies bf16 it would do so unasked."""
    core = openvino.Core()
    model = core.read_model(file)
    model.reshape({name: list(value.shape) for name, value in feeds.items()})
    compiled = core.compile_model(
        model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32" if precision == "fp32" else "bf16"
        })
    request = compiled.create_infer_request()
    for name, value in feeds.items():
        request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
    return lambda: None, request.infer


OPEN = {"ort": open_ort, "openvino": open_openvino}


def bench(runtime, file, runs, warmup, threads, precision, files):
    begin = time.perf_counter()
    feeds = {name: np.load(path) for name, path in files.items()}
    before, run = OPEN[runtime](file, threads, precision, feeds)
    result = {"load_ms": milliseconds_since(begin)}

    def time_run():
        before()
        begin = time.perf_counter()
        run()
        return milliseconds_since(begin)

    time_run()
    result["first_output_without_import_ms"] = milliseconds_since(IMPORTED)
    result["first_output_ms"] = since_process_start_ms()
    gc.disable()
    times = sorted([time_run() for _ in range(warmup + runs)][warmup:])
    result |= {
        "median_ms": quantile(times, 0.5), "min_ms": times[0], "p90_ms": quantile(times, 0.9),
        "p99_ms": quantile(times, 0.99), "runs": runs, "threads": threads,
        "peak_rss_bytes": peak_rss_bytes()
    }
    return result


def main():
    runtime, file, runs, warmup, threads, precision, *pairs = sys.argv[1:]
    files = dict(pair.split("=", 1) for pair in pairs)
    print(json.dumps(bench(runtime, file, int(runs), int(warmup), int(threads), precision, files)))


if __name__ == "__main__":
    main()
