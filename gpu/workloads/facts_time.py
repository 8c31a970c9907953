"""What calls cost, how long waits take, and how processes share device time.

events   what events cost and resolve, how fast copies are
waits    what waits for what within a process
stack    event calls on a small stack
lazy     first launches of functions
busy     kernels, one after another, as one of several programs
timed    kernels with an event before and behind each
copies   copies to the device
"""

import argparse
import ctypes
import statistics
import threading
import time

import libcuda
import meter

MIB = 1 << 20
NOT_READY, NOT_SUPPORTED = 600, 801
TIMED, BLOCKING = 0, 1


def function(d, name):
    """A call of the driver, looked up once, with its parameters declared."""
    f = getattr(d.lib, name)
    f.argtypes = [libcuda.KINDS[k] for k in libcuda.SIGNATURES[name]]
    return f


def each_us(call, times, every=None, between=None):
    """What a call takes, in microseconds."""
    total = 0.0
    for n in range(times):
        before = time.perf_counter()
        call()
        total += time.perf_counter() - before
        if every and n % every == every - 1:
            between()
    return 1e6 * total / times


def spin_us(d, us, options):
    return d.parameters(max(1, round(us * options.rounds_per_us)))


def call_costs(d, stream, options):
    version, event = ctypes.c_int(), d.event(TIMED)
    where = ctypes.byref(version)
    calls = {
        "nothing": lambda: function_version(where),
        "record": lambda: record(event, stream),
        "query": lambda: query(event),
        "launch": lambda: launch(d.function, 1, 1, 1, 32, 1, 1, 0, stream, p[0], None),
    }
    p = spin_us(d, 1, options)
    function_version, record, query, launch = (function(d, n) for n in (
        "cuDriverGetVersion", "cuEventRecord", "cuEventQuery", "cuLaunchKernel"))
    return {n: each_us(c, 2000, 100, d.synchronize) for n, c in calls.items()}


def resolution(d, stream, options):
    """The smallest difference between two measured times, in microseconds."""
    begin, end, seen = d.event(TIMED), d.event(TIMED), set()
    for n in range(300):
        p = spin_us(d, 5 + n / 100, options)
        d.call("cuEventRecord", begin, stream)
        d.launch(p, stream)
        d.call("cuEventRecord", end, stream)
        d.call("cuEventSynchronize", end)
        seen.add(1e3 * d.elapsed_ms(begin, end))
    ordered = sorted(seen)
    return min((b - a for a, b in zip(ordered, ordered[1:])), default=None), len(seen)


def run_s(d, stream, p, launches, events):
    """Wall time of launches, with an event behind each."""
    began = time.monotonic()
    for n in range(launches):
        d.launch(p, stream)
        if events:
            d.call("cuEventRecord", events[n % len(events)], stream)
    d.call("cuStreamSynchronize", stream)
    return time.monotonic() - began


def events(options):
    d = libcuda.Driver()
    d.load()
    stream = d.stream()
    run_s(d, stream, spin_us(d, 10, options), 10, None)
    costs = call_costs(d, stream, options)
    smallest, distinct = resolution(d, stream, options)
    p, marks = spin_us(d, 100, options), [d.event(TIMED) for _ in range(64)]
    run_s(d, stream, p, 100, None)
    without = min(run_s(d, stream, p, 400, None) for _ in range(3))
    with_them = min(run_s(d, stream, p, 400, marks) for _ in range(3))
    begin, end = d.event(TIMED), d.event(TIMED)
    long = spin_us(d, 100000, options)
    began = time.monotonic()
    d.call("cuEventRecord", begin, stream)
    for _ in range(5):
        d.launch(long, stream)
    d.call("cuEventRecord", end, stream)
    d.call("cuEventSynchronize", end)
    wall = time.monotonic() - began
    bandwidth, _ = copied(d, stream, 64 * MIB, 4)
    meter.result(costs_us=costs, smallest_us=smallest, distinct=distinct,
                 event_device_us=1e6 * (with_them - without) / 400, wall_s=wall,
                 elapsed_s=d.elapsed_ms(begin, end) / 1e3, copy_gb_s=bandwidth)


def copied(d, stream, size, times):
    """GB/s of copies from page-locked memory, and the buffers."""
    host = d.new(ctypes.c_void_p, "cuMemHostAlloc", size, 0)
    device = d.alloc(size)
    d.call("cuMemcpyHtoDAsync_v2", device, host, size, stream)
    d.call("cuStreamSynchronize", stream)
    began = time.monotonic()
    for _ in range(times):
        d.call("cuMemcpyHtoDAsync_v2", device, host, size, stream)
    d.call("cuStreamSynchronize", stream)
    return times * size / (time.monotonic() - began) / 1e9, (device, host)


def looking(d, stream, options):
    """Waits that look at the event and sleep in between, as the library does."""
    end = d.event(TIMED)

    def wait():
        began = time.monotonic()
        while d.code("cuEventQuery", end) == NOT_READY:
            time.sleep(max(20e-6, (time.monotonic() - began) / 256))

    return waiting(d, stream, options, end, wait)


def blocking(d, stream, options):
    """Waits in the driver, which are to block."""
    end = d.event(BLOCKING)
    return waiting(d, stream, options, end, lambda: d.call("cuEventSynchronize", end))


def waiting(d, stream, options, end, wait):
    """Processor time of a wait of 0.3 s, and how much later than the event short ones return."""
    begin = d.event(TIMED)
    d.launch(spin_us(d, 300000, options), stream)
    d.call("cuEventRecord", end, stream)
    busy = time.thread_time()
    wait()
    busy = time.thread_time() - busy
    p, late = spin_us(d, 2000, options), []
    for _ in range(50):
        began = time.monotonic()
        d.call("cuEventRecord", begin, stream)
        d.launch(p, stream)
        d.call("cuEventRecord", end, stream)
        wait()
        late.append(1e6 * (time.monotonic() - began) - 1e3 * d.elapsed_ms(begin, end))
    return {"cpu_s": busy, "late_us": statistics.median(late)}


def freeing_s(d, stream, options):
    """How long a free takes beside a kernel of 0.3 s that does not use the memory."""
    p = d.alloc(MIB)
    d.launch(spin_us(d, 300000, options), stream)
    began = time.monotonic()
    d.free(p)
    took = time.monotonic() - began
    d.synchronize()
    return took


def copying_s(d, stream, options):
    """How long two copies take the calling thread that are queued behind a kernel of 0.3 s: an
    asynchronous one to memory that is not pinned, and a synchronous one within the device."""
    first, second = d.alloc(MIB), d.alloc(MIB)
    host, p, took = ctypes.create_string_buffer(MIB), spin_us(d, 300000, options), {}
    for name, on, copy in (
            ("pageable", stream, ("cuMemcpyDtoHAsync_v2", host, first, MIB, stream)),
            ("within", None, ("cuMemcpyDtoD_v2", second, first, MIB))):
        d.launch(p, on)
        began = time.monotonic()
        d.call(*copy)
        took[name] = time.monotonic() - began
        d.synchronize()
    d.free(first)
    d.free(second)
    return took


def in_thread(d, run):
    def body():
        d.call("cuCtxSetCurrent", d.context)
        run()

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


def asked(d, event, times=200):
    """The longest of some queries, in milliseconds."""
    longest = 0.0
    for _ in range(times):
        before = time.monotonic()
        d.code("cuEventQuery", event)
        longest = max(longest, time.monotonic() - before)
        time.sleep(0.001)
    return 1e3 * longest


def beside_synchronise(d, stream, options):
    event = d.event(TIMED)
    d.launch(spin_us(d, 800000, options), stream)
    d.call("cuEventRecord", event, stream)
    waiter = in_thread(d, d.synchronize)
    time.sleep(0.05)
    longest = asked(d, event)
    still = d.code("cuEventQuery", event) == NOT_READY
    waiter.join(30)
    return {"longest_ms": longest, "busy_all_the_time": still}


def beside_full_queue(d, stream, options):
    """How many launches fit behind a long kernel, and what queries take while one more waits."""
    event, count, most = d.event(TIMED), [0], 8192
    short = spin_us(d, 1, options)
    d.launch(spin_us(d, 1500000, options), stream)
    d.call("cuEventRecord", event, stream)

    def fill():
        while count[0] < most:
            d.launch(short, stream)
            count[0] += 1

    began, filler, last = time.monotonic(), in_thread(d, fill), -1
    while count[0] != last and count[0] < most and time.monotonic() - began < 1:
        last = count[0]
        time.sleep(0.1)
    depth = count[0]
    busy = d.code("cuEventQuery", event) == NOT_READY
    longest = asked(d, event, 100) if busy and depth < most else None
    filler.join(60)
    d.synchronize()
    return {"depth": depth, "longest_ms": longest}


def gone_stream(d, options):
    stream, event = d.stream(), d.event(TIMED)
    d.launch(spin_us(d, 300000, options), stream)
    d.call("cuEventRecord", event, stream)
    began = time.monotonic()
    d.call("cuStreamDestroy_v2", stream)
    destroyed = time.monotonic() - began
    asked_at_once = d.code("cuEventQuery", event)
    waited = d.code("cuEventSynchronize", event)
    return {"destroy_s": destroyed, "query": asked_at_once, "wait": waited,
            "wait_s": time.monotonic() - began}


def gone_event(d, stream, options):
    """An event that is destroyed before a kernel of 0.3 s in front of it has ended."""
    event = d.event(TIMED)
    d.launch(spin_us(d, 300000, options), stream)
    d.call("cuEventRecord", event, stream)
    began = time.monotonic()
    code = d.code("cuEventDestroy_v2", event)
    destroyed = time.monotonic() - began
    after = d.code("cuStreamSynchronize", stream)
    return {"code": code, "destroy_s": destroyed, "after": after,
            "wait_s": time.monotonic() - began}


def value_waits(d, options):
    """How many streams may wait for a value before a kernel of another stream waits too."""
    host = d.new(ctypes.c_void_p, "cuMemHostAlloc", 4096, 2)
    flag = ctypes.cast(host, ctypes.POINTER(ctypes.c_uint32))
    free, p = d.stream(), spin_us(d, 10, options)
    done, behind, most, found = d.event(TIMED), d.event(TIMED), 0, {}
    for streams in (1, 2, 4, 8, 16, 32, 64):
        flag[0] = 0
        waiting = [d.stream() for _ in range(streams)]
        codes = {d.code("cuStreamWaitValue32_v2", s, host.value, 1, 0) for s in waiting}
        if codes != {0}:
            return {"code": max(codes)}
        d.call("cuEventRecord", behind, waiting[0])
        d.launch(p, free)
        d.call("cuEventRecord", done, free)
        until = time.monotonic() + 0.3
        while d.code("cuEventQuery", done) and time.monotonic() < until:
            time.sleep(0.001)
        through = d.code("cuEventQuery", done) == 0
        if streams == 1:
            found["before"] = d.code("cuEventQuery", behind)
        flag[0] = 1  # whatever was found, nothing waits from here on
        began = time.monotonic()
        d.call("cuEventSynchronize", behind)
        found["release_s"] = time.monotonic() - began
        d.synchronize()
        for s in waiting:
            d.call("cuStreamDestroy_v2", s)
        if not through:
            break
        most = streams
    return {"code": 0, "streams": most, **found}


def overlap_s(d, options):
    """Wall time of two kernels of 0.2 s in two streams."""
    p, streams = spin_us(d, 200000, options), [d.stream(), d.stream()]
    began = time.monotonic()
    for s in streams:
        d.launch(p, s)
    d.synchronize()
    return time.monotonic() - began


def waits(options):
    d = libcuda.Driver()
    d.load()
    stream = d.stream()
    run_s(d, stream, spin_us(d, 10, options), 10, None)
    meter.result(looking=looking(d, stream, options), blocking=blocking(d, stream, options),
                 free_s=freeing_s(d, stream, options), copying_s=copying_s(d, stream, options),
                 synchronise=beside_synchronise(d, stream, options),
                 queue=beside_full_queue(d, stream, options), gone=gone_stream(d, options),
                 event=gone_event(d, stream, options),
                 overlap_s=overlap_s(d, options), values=value_waits(d, options))


def stack(options):
    d = libcuda.Driver()
    d.load()
    stream, p, done = d.stream(), spin_us(d, 1000, options), []

    def look():
        d.call("cuCtxSetCurrent", d.context)
        for _ in range(50):
            begin, end = d.event(TIMED), d.event(BLOCKING)
            d.call("cuEventRecord", begin, stream)
            d.launch(p, stream)
            d.call("cuEventRecord", end, stream)
            d.code("cuEventQuery", end)
            d.call("cuEventSynchronize", end)
            d.elapsed_ms(begin, end)
        done.append(True)

    threading.stack_size(256 << 10)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    meter.result(done=bool(done))


def many_kernels(count):
    """A module with kernels large enough that loading one takes time."""
    body = b"  fma.rn.f32 %f0, %f0, %f0, %f1;\n  fma.rn.f32 %f1, %f1, %f0, %f0;\n" * 1000
    text = b"/*\n" + b"".join(b"kernel k%d us=20\n" % n for n in range(count)) + b"*/\n"
    text += b".version 6.0\n.target sm_50\n.address_size 64\n"
    for n in range(count):
        text += (b".visible .entry k%d(.param .u64 out)\n{\n  .reg .f32 %%f<2>;\n  .reg .u64 %%r;\n"
                 b"  mov.f32 %%f0, 0f3f800000;\n  mov.f32 %%f1, 0f3f000000;\n" % n)
        text += body + (b"  ld.param.u64 %r, [out];\n  st.global.f32 [%r], %f0;\n"
                        b"  st.global.f32 [%r+4], %f1;\n  ret;\n}\n")
    return text


def lazy(options):
    d = libcuda.Driver()
    d.load()
    stream, other = d.stream(), d.stream()
    mode = d.new(ctypes.c_int, "cuModuleGetLoadingMode").value
    module = d.module_of(many_kernels(9))
    begin, end = d.event(TIMED), d.event(TIMED)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(d.out))
    run_s(d, stream, spin_us(d, 10, options), 10, None)

    def launch(f, s):
        d.call("cuEventRecord", begin, s)
        before = time.perf_counter()
        d.call("cuLaunchKernel", f, 1, 1, 1, 32, 1, 1, 0, s, pointers, None)
        took = time.perf_counter() - before
        d.call("cuEventRecord", end, s)
        return 1e6 * took

    first, later, hosts = [], [], []
    for n in range(8):
        f = d.function_of(module, b"k%d" % n)
        for times in (first, later, later):
            took = launch(f, stream)
            d.call("cuEventSynchronize", end)
            times.append(1e3 * d.elapsed_ms(begin, end))
            if times is first:
                hosts.append(took)
    f = d.function_of(module, b"k8")
    d.launch(spin_us(d, 500000, options), other)
    beside = launch(f, stream)
    d.synchronize()
    meter.result(mode=mode, first_us=statistics.median(first), later_us=statistics.median(later),
                 first_launch_us=statistics.median(hosts), beside_us=beside)


def busy(options):
    d = libcuda.Driver()
    d.load()
    if options.blocks:
        d.blocks, d.threads = options.blocks, 256
    p, streams = spin_us(d, options.kernel_us, options), [d.stream()
                                                          for _ in range(options.streams)]
    marks = [[d.event() for _ in streams] for _ in range(options.ahead + 1)]
    turn = [0]

    def step():
        n = turn[0]
        turn[0] += 1
        for s, e in zip(streams, marks[n % len(marks)]):
            d.launch(p, s)
            d.call("cuEventRecord", e, s)
        if n >= options.ahead:
            for e in marks[(n - options.ahead) % len(marks)]:
                d.call("cuEventSynchronize", e)

    for _ in range(2):
        step()
    meter.loop(step, options.seconds, kernels=options.streams)


def timed(options):
    d = libcuda.Driver()
    d.load()
    stream, p, took = d.stream(), spin_us(d, options.kernel_us, options), []
    begin, end = d.event(TIMED), d.event(TIMED)

    def step():
        d.call("cuEventRecord", begin, stream)
        d.launch(p, stream)
        d.call("cuEventRecord", end, stream)
        d.call("cuEventSynchronize", end)
        took.append(d.elapsed_ms(begin, end))

    step()
    took.clear()
    meter.loop(step, options.seconds, measured=took)


def copies(options):
    d = libcuda.Driver()
    stream, size = d.stream(), 16 * MIB
    _, (device, host) = copied(d, stream, size, 1)

    def step():
        d.call("cuMemcpyHtoDAsync_v2", device, host, size, stream)
        d.call("cuStreamSynchronize", stream)

    meter.loop(step, options.seconds, bytes=size)


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    what = {
        "events": events, "waits": waits, "stack": stack, "lazy": lazy, "busy": busy,
        "timed": timed, "copies": copies
    }
    a.add_argument("what", choices=what)
    a.add_argument("--rounds-per-us", type=float, default=1, help="as driver.py calibrate says")
    a.add_argument("--seconds", type=float, default=2)
    a.add_argument("--kernel-us", type=float, default=250)
    a.add_argument("--blocks", type=int, default=0, help="of 256 threads, in place of one of 32")
    a.add_argument("--streams", type=int, default=1)
    a.add_argument("--ahead", type=int, default=0, help="steps launched before one is waited for")
    options = a.parse_args()
    what[options.what](options)


if __name__ == "__main__":
    main()
