"""The matrix of checks on a machine with a GPU, or on the fake driver; see check.sh."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile

import matrix
import probe
import probes_memory  # noqa: F401 (their probes add themselves)
import probes_process  # noqa: F401
import probes_time  # noqa: F401
import probes_limit  # noqa: F401
import probes_libraries  # noqa: F401, I001 (these are the least valuable)
from harness import FAULTS, Book, Failed, Host, Share

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
    host.rounds_per_us = host.one(host.workload("driver", "calibrate"))["rounds_per_us"]
    if host.fake:
        # there a round is a nanosecond
        if not 500 <= host.rounds_per_us <= 1100:
            raise Failed(f"the fake driver does {host.rounds_per_us:.1f} rounds of the kernel in a "
                         "microsecond, not 1000: it does not go by the kernel's own time")
        host.rounds_per_us = 1000.0


def holds(passed, values):
    """A fact that is confirmed where its check holds."""
    return passed


def told(*names):
    """A fact that values of its check tell of: all of them hold, or one is not known."""

    def of(passed, values):
        found = [values.get(n) for n in names]
        return None if None in found else all(found)

    return of


def driver_checks(book, host, bounds, cap):
    s = ["--seconds", bounds.seconds]
    memory = f"{cap}B"
    whole = Share(memory, **matrix.WHOLE)
    busy = [*s, "--ahead", 2]  # the device always has work of such a program
    short, long, graph = host.kernels(100, *busy), host.kernels(250, *busy), host.kernels(
        100, "--graph", *busy)
    small = host.kernels(500, "--batch", 2, "--pause-ms", 5, *s)
    book.check("driver: memory cap", matrix.memory_cap, host, cap,
               settles={"out-of-memory": holds})
    book.check("driver: memory cap, in a namespace", matrix.namespace, host, cap)
    book.check("driver: exit 1,000 times", matrix.exits, host, memory,
               settles={"exit-clean": holds}, needs=15 if host.fake else 40)
    book.check("driver: static executable refused", matrix.static_executable, host)
    book.check("driver: 30/70, eager", matrix.shares, host, bounds, short, long, memory, needs=30)
    book.check("driver: limit", matrix.limit, host, bounds, long, memory)
    book.check("driver: p99 beside a flood", matrix.latency, host, bounds, small, long, memory,
               needs=40)
    book.check("driver: kill -9 of a program", matrix.killed, host, bounds, long, memory)
    book.check("driver: kill -9 of the agent", matrix.agent_dies, host, bounds, long,
               host.kernels(250, "--ahead", 2, "--seconds", 9), memory)
    book.check("driver: long kernels", matrix.long_kernels, host, bounds, memory,
               settles={"long-kernels": holds}, needs=35)
    book.check("driver: overhead alone, eager", matrix.overhead, host, bounds, short, whole,
               needs=25)
    book.check("driver: overhead alone, graph", matrix.overhead, host, bounds, graph, whole,
               needs=25)
    book.check("driver: 30/70, graph", matrix.shares, host, bounds, graph, long, memory, needs=25)
    book.check("driver: mps, a quarter and the rest", matrix.mps, host, bounds,
               host.kernels(500, "--blocks", 8192, "--batch", 1, *busy), memory,
               settles={
                   "mps-answers": told("clients_of_MPS"),
                   "mps-at-init": told("held_by_the_library"),
                   "mps-attribute": told("clients_of_MPS", "refused_without_MPS"),
                   "mps-multiprocessors": told("told_of_a_quarter"),
                   "mps-proportion": told("fast_as_their_parts"),
               }, needs=40)


def framework_checks(book, host, bounds, cap):
    """Those that say whether a framework works at all come before those that say how well."""
    memory = f"{cap}B"
    whole = Share(memory, **matrix.WHOLE)

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
    book.check("torch: expandable segments", matrix.torch_cap, host, cap, True,
               settles={"expandable": holds})
    book.check("nccl: two ranks on one GPU", matrix.nccl, host, memory,
               settles={"nccl-one-device": told("one_device"), "nccl-in-job": told("in_job")},
               needs=30)
    book.check("nvcc: static CUDA runtime", matrix.static_runtime, host, cap)
    book.check("torch: forked data workers", matrix.loader, host, cap, needs=25)
    for module in ("triton", "cupy", "jax"):
        book.check(module, matrix.framework, host, cap, module, module + "_loop")
    book.check("torch: p99 of inference beside training",
               with_torch(matrix.latency, small, train, memory), needs=60)
    book.check("vllm: a small model", matrix.vllm, host, cap, settles={"vllm-starts": holds},
               needs=60)
    book.check("torch: 30/70, matmul and training", with_torch(matrix.shares, product, train,
                                                               memory), needs=50)
    for mode in ("graph", "eager", "compile"):
        book.check(f"torch: overhead alone, {mode}",
                   with_torch(matrix.overhead, torch("infer", "--mode", mode), whole), needs=40)
    book.check("torch: 30/70, graphs", with_torch(matrix.shares, graph, product, memory), needs=50)
    book.check("torch: overhead alone, matmul", with_torch(matrix.overhead, product, whole),
               needs=40)


def parse():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--weir", default="", help="the weir binary")
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
    a.add_argument("--list",
                   action="store_true",
                   help="print the checks and the facts that they settle, and run none")
    options = a.parse_args()
    if not options.weir and not options.list:
        a.error("the following arguments are required: --weir")
    options.weir = os.path.abspath(options.weir)
    options.shim = options.shim and os.path.abspath(options.shim)
    return options


def list_checks(options):
    """Print each check with the facts that it settles."""
    book, bounds = Book(options), matrix.Bounds(options.fake)
    run_checks(book, Host(options, ""), bounds, GIB, all_of_them=True)
    print(json.dumps(book.names, indent=2))


def run_checks(book, host, bounds, cap, all_of_them=False):
    """The facts come first: they take little time, and everything else rests on them."""
    for one in probe.PROBES:
        book.probe(one, host)
    driver_checks(book, host, bounds, cap)
    if all_of_them or not host.fake:
        framework_checks(book, host, bounds, cap)


def summarise(report, fake):
    """What a person wants to know, on standard error."""
    say = [f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped in "
           f"{report['seconds']:.0f} s" + (" (fake driver)" if fake else "")]
    whose = "the fake driver" if fake else report["gpu"]
    say.append(f"beliefs about the driver, on {whose}: {report['confirmed']} confirmed, "
               f"{report['refuted']} refuted, {report['unknown']} unknown")
    for state in (probe.REFUTED, probe.UNKNOWN):
        for name, fact in report["facts"].items():
            if fact["state"] == state:
                say.append(f"  {state}  {name}: {fact['detail']}")
    print("\n".join(say), file=sys.stderr)


def main():
    options = parse()
    if options.list:
        list_checks(options)
        return 0
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
        host.end = book.begin + options.budget
        try:
            prepare(host, options)
            book.check("device list", matrix.devices, host, book)
            gpu = book.gpus[0] if book.gpus else {}
            book.about.update(gpu=gpu.get("name"), driver=gpu.get("driver"))
            total = min((g["memory_bytes"] for g in book.gpus), default=16 * GIB)
            cap = (4 if options.fake else max(1, min(8, total // GIB // 3))) * GIB
            run_checks(book, host, bounds, cap)
        except FAULTS as e:
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
    summarise(report, options.fake)
    return 1 if report["failed"] or not report["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
