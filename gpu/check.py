"""The matrix of checks on a machine with a GPU, or on the fake driver; see check.sh."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile

import matrix
from harness import Book, Failed, Host, Share

GIB = 1 << 30


def fake_environment(host):
    """What weir exec --fake-gpu gives a program, without the share: for programs that run beside
    weir."""
    out = subprocess.run(host.under(Share("1GiB")) + ["env", "-0"],
                         env=host.env,
                         capture_output=True,
                         timeout=120,
                         check=False)
    if out.returncode:
        raise Failed(f"weir exec --fake-gpu: {out.stderr.decode(errors='replace').strip()}")
    given = dict(e.split("=", 1) for e in out.stdout.decode().split("\0") if "=" in e)
    return {k: v for k, v in given.items() if k == "LD_LIBRARY_PATH" or k.startswith("WEIR_FAKE")}


def prepare(host, options):
    """Start the agent and measure the kernel of the driver workloads."""
    if not options.no_agent:
        host.start_agent()
    if host.fake:
        host.env.update(fake_environment(host))
        host.rounds_per_us = 1000.0
        return
    host.rounds_per_us = host.one(host.workload("driver", "calibrate"))["rounds_per_us"]


def driver_checks(book, host, bounds, cap):
    s = ["--seconds", bounds.seconds]
    memory = str(cap)
    whole = Share(memory, **matrix.WHOLE)
    busy = [*s, "--ahead", 2]  # the device always has work of such a program
    short, long, graph = host.kernels(100, *busy), host.kernels(250, *busy), host.kernels(
        100, "--graph", *busy)
    small = host.kernels(500, "--batch", 2, "--pause-ms", 5, *s)
    book.check("driver: memory cap", matrix.memory_cap, host, cap)
    book.check("driver: static executable refused", matrix.static_executable, host)
    book.check("driver: overhead alone, eager", matrix.overhead, host, bounds, short, whole)
    book.check("driver: overhead alone, graph", matrix.overhead, host, bounds, graph, whole)
    book.check("driver: 30/70, eager", matrix.shares, host, bounds, short, long, memory)
    book.check("driver: 30/70, graph", matrix.shares, host, bounds, graph, long, memory)
    book.check("driver: limit", matrix.limit, host, bounds, long, memory)
    book.check("driver: p99 beside a flood", matrix.latency, host, bounds, small, long, memory)
    book.check("driver: kill -9 of a program", matrix.killed, host, bounds, long, memory)
    book.check("driver: kill -9 of the agent", matrix.agent_dies, host, bounds, long,
               host.kernels(250, "--ahead", 2, "--seconds", 9), memory)
    book.check("driver: mps, a quarter and the rest", matrix.mps, host, bounds,
               host.kernels(500, "--blocks", 8192, "--batch", 1, *busy), memory)


def framework_checks(book, host, bounds, cap):
    memory, whole = str(cap), Share(str(cap), **matrix.WHOLE)

    def torch(what, *arguments):
        return host.workload("torch_loop", what, "--seconds", bounds.seconds, *arguments)

    def with_torch(check, *arguments):
        def run():
            host.needs("torch")
            return check(host, bounds, *arguments)

        return run

    train, product = torch("train", "--ahead", 2), torch("matmul", "--ahead", 2)
    graph = torch("infer", "--mode", "graph", "--ahead", 2)
    small = torch("infer", "--batch", 1, "--length", 64, "--depth", 12, "--pause-ms", 2)
    book.check("torch: memory cap", matrix.torch_cap, host, cap)
    book.check("torch: p99 of inference beside training",
               with_torch(matrix.latency, small, train, memory))
    book.check("torch: 30/70, matmul and training", with_torch(matrix.shares, product, train,
                                                               memory))
    for mode in ("eager", "graph", "compile"):
        book.check(f"torch: overhead alone, {mode}",
                   with_torch(matrix.overhead, torch("infer", "--mode", mode), whole))
    book.check("torch: 30/70, graphs", with_torch(matrix.shares, graph, product, memory))
    book.check("torch: forked data workers", matrix.loader, host, cap)
    book.check("nvcc: static CUDA runtime", matrix.static_runtime, host, cap)
    book.check("triton", matrix.framework, host, cap, "triton", "triton_loop")
    book.check("cupy", matrix.framework, host, cap, "cupy", "cupy_loop")
    book.check("jax", matrix.framework, host, cap, "jax", "jax_loop")
    book.check("torch: overhead alone, matmul", with_torch(matrix.overhead, product, whole))


def parse():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--weir", required=True, help="the weir binary")
    a.add_argument("--shim",
                   default="",
                   help="the compiled library for preloading; weir's own by default")
    a.add_argument("--python", default=sys.executable, help="the Python of the workloads")
    a.add_argument("--out", default="", help="file for the result; standard output by default")
    a.add_argument("--budget", type=float, default=570, help="seconds in all")
    a.add_argument("--only", action="append", help="only checks whose name contains this")
    a.add_argument("--fake",
                   action="store_true",
                   help="the fake driver: checks the logic, not a GPU")
    a.add_argument("--no-agent", action="store_true", help="let weir exec start the agent")
    options = a.parse_args()
    options.weir = os.path.abspath(options.weir)
    options.shim = options.shim and os.path.abspath(options.shim)
    return options


def main():
    options = parse()
    book, bounds = Book(options), matrix.Bounds(options.fake)
    book.gpus = []
    book.about = {
        "fake": options.fake,
        "label": "fake driver: no statement about any GPU" if options.fake else "measured",
        "gpu": None,
        "driver": None,
        "host": platform.platform(),
        "python": platform.python_version(),
    }
    with tempfile.TemporaryDirectory(prefix="weir-check-") as scratch:
        host = Host(options, scratch)
        try:
            prepare(host, options)
            book.check("device list", matrix.devices, host, book)
            gpu = book.gpus[0] if book.gpus else {}
            book.about.update(gpu=gpu.get("name"), driver=gpu.get("driver"))
            total = min((g["memory_bytes"] for g in book.gpus), default=16 * GIB)
            cap = (4 if options.fake else max(1, min(8, total // GIB // 3))) * GIB
            driver_checks(book, host, bounds, cap)
            if not options.fake:
                framework_checks(book, host, bounds, cap)
        except Failed as e:
            book.items.append(
                {"name": "start", "status": "FAIL", "detail": str(e), "values": {}, "seconds": 0})
            print(f"FAIL  start: {e}", file=sys.stderr)
        finally:
            host.stop_agent()
    report = book.report()
    if options.out:
        book.write()
    else:
        print(json.dumps(report, indent=2))
    print(
        f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped in "
        f"{report['seconds']:.0f} s"
        + (" (fake driver)" if options.fake else ""),
        file=sys.stderr)
    return 1 if report["failed"] or not report["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
