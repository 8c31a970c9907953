"""Workloads that call the CUDA driver and nothing else: they run wherever a driver is.

memory      what the program is told of the device's memory, and what happens at its end
calibrate   how many rounds of the kernel take a microsecond
loop        kernels one after another, eagerly or as a graph
client      what the program may use of the device as a client of MPS
"""

import argparse
import itertools
import os
import time

import libcuda
import meter

MULTIPROCESSORS, MPS_ENABLED = 16, 133  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _MPS_ENABLED
STEP_US = 2000  # one step of a loop is about that much work, so that waiting for it costs little


def memory(options):
    d = libcuda.Driver()
    free, total = d.memory()
    chunk = max(total // 64, 1 << 20)
    held, code = [], 0
    while len(held) < 4096:
        try:
            held.append(d.alloc(chunk))
        except libcuda.Error as e:
            code = e.code
            break
    reached = len(held) * chunk
    left, _ = d.memory()
    meter.stage("full")
    for p in held[::2]:
        d.free(p)
    again = d.alloc(chunk)  # out of memory must not outlast the cause
    d.free(again)
    for p in held[1::2]:
        d.free(p)
    smi = libcuda.nvml_memory()
    meter.result(
        total_bytes=total,
        free_bytes=free,
        device_total_bytes=d.total(),
        reached_bytes=reached,
        left_bytes=left,
        error=code,
        free_after_bytes=d.memory()[0],
        nvml_total_bytes=smi and smi[0],
    )


def calibrate(options):
    d = libcuda.Driver()
    d.load()
    rounds, took = 1000, 0.0
    while took < 0.05:
        rounds *= 2
        p = d.parameters(rounds)
        d.synchronize()
        before = time.monotonic()
        d.launch(p)
        d.synchronize()
        took = time.monotonic() - before
    meter.result(rounds_per_us=rounds / (took * 1e6))


def client(options):
    d = libcuda.Driver()
    meter.result(mps_enabled=d.attribute(MPS_ENABLED), multiprocessors=d.attribute(MULTIPROCESSORS))


def loop(options):
    d = libcuda.Driver()
    d.load()
    if options.blocks:
        d.blocks, d.threads = options.blocks, 256
    p = d.parameters(max(1, round(options.kernel_us * options.rounds_per_us)))
    batch = options.batch or max(1, round(STEP_US / options.kernel_us))
    if options.graph:
        ready, stream = d.graph(p, batch)

        def launch():
            d.launch_graph(ready, stream)
    else:
        stream = d.stream()

        def launch():
            for _ in range(batch):
                d.launch(p, stream)

    marks, count = [d.event() for _ in range(options.ahead + 1)], itertools.count()

    def step():
        launch()
        n = next(count)
        d.call("cuEventRecord", marks[n % len(marks)], stream)
        if n >= options.ahead:
            d.call("cuEventSynchronize", marks[(n - options.ahead) % len(marks)])

    for _ in range(3):
        step()
    meter.loop(step,
               options.seconds,
               options.pause_ms / 1e3,
               batch=batch,
               kernel_us=options.kernel_us,
               pid=os.getpid())


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("what", choices=("memory", "calibrate", "loop", "client"))
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--kernel-us", type=float, default=250, help="duration of one kernel")
    a.add_argument("--rounds-per-us", type=float, default=1, help="as calibrate says")
    a.add_argument("--blocks",
                   type=int,
                   default=0,
                   help="thread blocks of a kernel, of 256 threads, in place of one of 32")
    a.add_argument("--batch", type=int, default=0, help="kernels in one step")
    a.add_argument("--ahead",
                   type=int,
                   default=0,
                   help="steps launched before the end of one is waited for")
    a.add_argument("--pause-ms", type=float, default=0, help="time between two steps")
    a.add_argument("--graph", action="store_true", help="launch the kernels of a step as one graph")
    options = a.parse_args()
    {
        "memory": memory,
        "calibrate": calibrate,
        "loop": loop,
        "client": client
    }[options.what](options)


if __name__ == "__main__":
    main()
