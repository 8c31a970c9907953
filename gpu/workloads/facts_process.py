"""How the driver is found, what it allows in which state, and how programs end.

device       the devices that a program sees
entries      addresses that cuGetProcAddress and cuGetExportTable give
capture      what other threads may do beside a capture
exchange     the capture mode of a thread without a context
green        green contexts
forked       a child of a process that uses CUDA
fork-first   a child that is forked before
fork-hold    a child that only lives
fork-exec    a child that becomes another program
order        which exit handlers may call the driver
storm        processes that exit while a thread calls the driver
exits        processes that exit with work in flight
fault        an illegal address
hold         memory, and a kernel
inside       a process in a namespace of its own
"""

import argparse
import contextlib
import ctypes
import os
import re
import resource
import signal
import sys
import threading
import time

import libcuda
import meter

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import outside

MIB = 1 << 20
byref = ctypes.byref


def devices(lib):
    count = lib.new(ctypes.c_int, "cuDeviceGetCount").value
    found = []
    for n in range(count):
        device, uuid = lib.new(ctypes.c_int, "cuDeviceGet", n).value, (ctypes.c_ubyte * 16)()
        lib.call("cuDeviceGetUuid_v2", uuid, device)
        h = bytes(uuid).hex()
        found.append({
            "uuid": f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}",
            "total": lib.new(ctypes.c_size_t, "cuDeviceTotalMem_v2", device).value
        })
    return found


def device(options):
    lib = libcuda.Library()
    lib.call("cuInit", 0)
    found = devices(lib)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    meter.result(devices=found, later=lib.new(ctypes.c_int, "cuDeviceGetCount").value)


# Tables that NVIDIA's runtime is known to ask for, by their bytes.
TABLES = {
    "runtime": "6bd5fb6c5bf4e74a8987d93912fd9df9",
    "context storage": "c693336e1121df11a8c368f355d89593",
    "tools' callbacks": "a094798c2e742e7493f20800200c0a66",
    "tools' thread storage": "42d85a8123f6cb478298f6e78a3aecdc",
}
PER_THREAD = ("cuLaunchKernel", "cuEventRecord", "cuStreamSynchronize", "cuStreamWaitValue32_v2",
              "cuMemcpyHtoDAsync_v2", "cuMemAllocAsync", "cuGraphLaunch")


def address(lib, symbol):
    try:
        return ctypes.cast(getattr(lib.lib, symbol), ctypes.c_void_p).value
    except AttributeError:
        return None


def entries(options):
    lib = libcuda.Library()
    lib.call("cuInit", 0)
    version = lib.new(ctypes.c_int, "cuDriverGetVersion").value

    def ask(name, at, flags):
        found, status = ctypes.c_void_p(), ctypes.c_int()
        code = lib.code("cuGetProcAddress_v2", name.encode(), byref(found), at, flags,
                        byref(status))
        return found.value if code == 0 else None

    same, other, newer = 0, [], []
    for symbol in libcuda.SIGNATURES:
        base = re.sub(r"_v\d+$", "", symbol)
        symbols = [base] + [f"{base}_v{n}" for n in range(2, 6)]
        found = ask(base, version, 1)
        known = {a for a in (address(lib, s) for s in symbols) if a}
        if not found and not known:
            continue
        if found in known:
            same += 1
        else:
            other.append(symbol)
        if ask(base, version + 10000, 1) != found:
            newer.append(symbol)
    flavours = {s: ask(re.sub(r"_v\d+$", "", s), version, 2) == address(lib, s + "_ptsz")
                for s in PER_THREAD}
    tables = {}
    for name, text in TABLES.items():
        at = ctypes.c_void_p()
        tables[name] = lib.code("cuGetExportTable", byref(at), bytes.fromhex(text))
    meter.result(same=same, other=other, newer=newer, flavours=flavours, tables=tables)


RELAXED = 2


def relaxed(d, run):
    mode = ctypes.c_int(RELAXED)
    d.call("cuThreadExchangeStreamCaptureMode", byref(mode))
    found = run()
    d.call("cuThreadExchangeStreamCaptureMode", byref(mode))
    return found


def beside_capture(d, mode, flags, other):
    """What other comes to, in a thread of its own, beside a capture; and how the capture ends."""
    stream, ready, begun, found = d.new(ctypes.c_void_p, "cuStreamCreate",
                                        flags), threading.Event(), threading.Event(), []

    def body():
        d.call("cuCtxSetCurrent", d.context)
        ready.set()
        begun.wait(30)
        found.append(other(stream))

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    ready.wait(30)
    d.call("cuStreamBeginCapture_v2", stream, mode)
    d.launch(d.parameters(1), stream)
    begun.set()
    thread.join(30)
    graph = ctypes.c_void_p()
    end = d.code("cuStreamEndCapture", stream, byref(graph))
    return {"codes": found[0] if found else None, "end": end}


def made_while_captured(d):
    """What calls come to that make and map memory, by the thread that captures, in mode GLOBAL."""
    stream, size = d.new(ctypes.c_void_p, "cuStreamCreate", 1), 2 * MIB
    prop = libcuda.AllocationProp(type=1, location=libcuda.Location(1, d.device))
    access = libcuda.AccessDesc(libcuda.Location(1, d.device), 3)
    handle, at, graph = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_void_p()
    d.call("cuStreamBeginCapture_v2", stream, 0)
    d.launch(d.parameters(1), stream)
    codes = [d.code("cuMemCreate", byref(handle), size, byref(prop), 0),
             d.code("cuMemAddressReserve", byref(at), size, 0, 0, 0)]
    codes += [d.code("cuMemMap", at.value, size, 0, handle.value, 0),
              d.code("cuMemSetAccess", at.value, size, byref(access), 1),
              d.code("cuMemUnmap", at.value, size), d.code("cuMemRelease", handle.value)]
    return {"codes": codes, "end": d.code("cuStreamEndCapture", stream, byref(graph))}


def capture(options):
    d = libcuda.Driver()
    d.load()
    other, done = d.stream(), d.event(0)
    d.launch(d.parameters(1), other)  # loads the kernel, which a capture may not allow
    d.call("cuEventRecord", done, other)
    d.synchronize()

    def query(_):
        return [d.code("cuEventQuery", done)]

    def several():
        made = ctypes.c_void_p()
        return [d.code("cuEventQuery", done), d.code("cuEventCreate", byref(made), 0),
                d.code("cuEventRecord", done, other), d.code("cuEventSynchronize", done)]

    def legacy(_):
        status = ctypes.c_int()
        return [d.code("cuStreamIsCapturing", None, byref(status))]

    def record(_):
        return [d.code("cuEventRecord", done, None)]

    def captured(stream):
        inside = d.event(0)
        return [d.code("cuEventRecord", inside, stream), d.code("cuEventQuery", inside)]

    memory = made_while_captured(d)
    begin, lap = time.perf_counter(), 1000
    for _ in range(lap):
        relaxed(d, lambda: None)
    meter.result(
        exchange_us=1e6 * (time.perf_counter() - begin) / lap / 2,
        global_query=beside_capture(d, 0, 1, query),
        relaxed=beside_capture(d, 0, 1, lambda _: relaxed(d, several)),
        local=beside_capture(d, 1, 1, query),
        asked=beside_capture(d, 0, 0, lambda s: relaxed(d, lambda: legacy(s))),
        recorded=beside_capture(d, 0, 0, lambda s: relaxed(d, lambda: record(s))),
        captured=beside_capture(d, RELAXED, 1, lambda s: relaxed(d, lambda: captured(s))),
        memory=memory,
    )


def exchange(options):
    lib = libcuda.Library()
    lib.call("cuInit", 0)
    meter.stage("before", pid=os.getpid())
    mode, codes = ctypes.c_int(RELAXED), []
    for _ in range(2):
        codes.append(lib.code("cuThreadExchangeStreamCaptureMode", byref(mode)))
    current = ctypes.c_void_p()
    codes.append(lib.code("cuCtxGetCurrent", byref(current)))
    meter.stage("after")
    meter.result(codes=codes, current=bool(current.value))


def green(options):
    lib = libcuda.Library()
    lib.call("cuInit", 0)
    absent = [n for n in libcuda.SIGNATURES if re.search("Green|DevRes|DevSm", n) and
              not address(lib, n)]
    if absent:
        meter.result(absent=", ".join(absent))
        return
    dev = lib.new(ctypes.c_int, "cuDeviceGet", 0).value
    everything, part, rest = ((ctypes.c_ubyte * 4096)() for _ in range(3))
    lib.call("cuDeviceGetDevResource", dev, everything, 1)
    groups = ctypes.c_uint(1)
    lib.call("cuDevSmResourceSplitByCount", part, byref(groups), everything, rest, 0, 8)
    desc = lib.new(ctypes.c_void_p, "cuDevResourceGenerateDesc", part, 1)
    flags, before, after = ctypes.c_uint(), ctypes.c_int(), ctypes.c_int()
    lib.call("cuDevicePrimaryCtxGetState", dev, byref(flags), byref(before))
    made = lib.new(ctypes.c_void_p, "cuGreenCtxCreate", desc, dev, 1)
    lib.call("cuDevicePrimaryCtxGetState", dev, byref(flags), byref(after))
    primary = lib.new(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", dev)
    lib.call("cuCtxSetCurrent", primary)
    event = lib.new(ctypes.c_void_p, "cuEventCreate", 0)
    stream = lib.new(ctypes.c_void_p, "cuGreenCtxStreamCreate", made, 1, 0)
    events = [lib.code("cuEventRecord", event, stream)]
    thread = threading.Thread(
        target=lambda: events.append(lib.code("cuEventRecord", event, stream)))
    thread.start()
    thread.join()
    events.append(lib.code("cuEventSynchronize", event))
    context = lib.new(ctypes.c_void_p, "cuCtxFromGreenCtx", made)
    codes = [lib.code("cuCtxSetCurrent", context)]
    thread = threading.Thread(target=lambda: codes.append(lib.code("cuCtxSetCurrent", context)))
    thread.start()
    thread.join()
    meter.result(before=before.value, after=after.value, codes=codes, events=events)


def forked(options):
    d = libcuda.Driver()
    d.alloc(MIB)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        free, total, count = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
        codes = [d.code("cuInit", 0), d.code("cuMemGetInfo_v2", byref(free), byref(total)),
                 d.code("cuDeviceGetCount", byref(count)),
                 d.code("cuMemAlloc_v2", byref(ctypes.c_uint64()), MIB)]
        os.write(writer, " ".join(map(str, codes)).encode())
        os._exit(0)
    os.close(writer)
    text = os.read(reader, 4096).decode()
    _, status = os.waitpid(child, 0)
    meter.result(codes=[int(c) for c in text.split()], status=status, parent=d.memory()[1] > 0)


def fork_first(options):
    child = os.fork()
    d = libcuda.Driver()
    d.free(d.alloc(MIB))
    if not child:
        os._exit(7)
    _, status = os.waitpid(child, 0)
    meter.result(child=os.waitstatus_to_exitcode(status))


def fork_hold(options):
    hold_beside(options, signal.pause)


def fork_exec(options):
    hold_beside(options, lambda: os.execvp("sleep", ["sleep", "600"]))


def hold_beside(options, live):
    """Hold memory, and have a child that does not touch it."""
    d = libcuda.Driver()
    d.alloc(options.mib * MIB)
    child = os.fork()
    if not child:
        live()
        os._exit(0)
    time.sleep(0.2)  # for the child's exec
    meter.stage("holding", child=child)
    meter.result()


def order(options):
    """The handler that is registered first runs last, and so says what both have seen."""
    libc, codes = ctypes.CDLL(None), {}
    handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def call(name):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        codes[name] = d.code("cuMemGetInfo_v2", byref(free), byref(total))

    def first(_):
        call("before")
        meter.result(codes=codes)

    keep = [handler(first), handler(lambda _: call("after"))]
    libc.__cxa_atexit(keep[0], None, None)
    d = libcuda.Driver()
    libc.__cxa_atexit(keep[1], None, None)
    sys.stdout.flush()
    libc.exit(0)


def call_for_ever(d):
    """A thread that records and queries until the process is gone."""
    stream, event = d.stream(), d.event(0)

    def body():
        d.code("cuCtxSetCurrent", d.context)
        while True:
            d.code("cuEventRecord", event, stream)
            d.code("cuEventQuery", event)

    threading.Thread(target=body, daemon=True).start()


def many(options, code, body):
    """Fork processes that run body and exit, some at a time, until there were enough or the time is
    over; count how they ended, and what those said that could not run. One that takes 10 s hangs,
    and is ended."""
    ends, running, begun, slowest = {}, {}, 0, 0.0
    said, say = os.pipe()
    os.set_blocking(say, False)
    until = time.monotonic() + options.seconds
    while running or (begun < options.count and time.monotonic() < until):
        while begun < options.count and len(running) < 8 and time.monotonic() < until:
            child = os.fork()
            if not child:
                run_and_exit(code, body, say)
            running[child] = time.monotonic()
            begun += 1
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            slowest = max(slowest, time.monotonic() - running.pop(child))
            end = str(os.waitstatus_to_exitcode(status))
            ends[end] = ends.get(end, 0) + 1
            continue
        time.sleep(0.002)
        for child in [c for c, since in running.items() if time.monotonic() - since > 10]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            running.pop(child)
            ends["hung"] = ends.get("hung", 0) + 1
    os.close(say)
    with open(said, encoding="utf-8") as f:
        errors = sorted(set(f.read().splitlines()))
    meter.result(ends=ends, processes=begun, slowest_s=slowest, errors=errors[:8])


NO_MEMORY, FAILED = 99, 98  # how one ends that finds no memory, or fails otherwise


def run_and_exit(code, body, say):
    """A child's whole life: it does not return."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ends = FAILED
    try:
        d = libcuda.Driver()
        body(d)
        ctypes.CDLL(None).exit(code)
    except libcuda.Error as e:
        if e.code == libcuda.OUT_OF_MEMORY:
            ends = NO_MEMORY
        with contextlib.suppress(BlockingIOError):  # so many have said as much
            os.write(say, f"{e}\n".encode())
    finally:
        os._exit(ends)


def storm(options):
    many(options, 0, call_for_ever)


def exits(options):
    def work(d):
        d.load()
        p, stream = d.parameters(max(1, round(200 * options.rounds_per_us))), d.stream()
        for _ in range(20):
            d.launch(p, stream)

    many(options, 7, work)


FAULT_PTX = b"""
/*
kernel fault us=10 fault
*/
.version 6.0
.target sm_50
.address_size 64
.visible .entry fault()
{
  .reg .u64 %r;
  .reg .u32 %v;
  mov.u64 %r, 16;
  mov.u32 %v, 1;
  st.global.u32 [%r], %v;
  ret;
}
"""


def fault(options):
    d = libcuda.Driver()
    stream, event, old = d.stream(), d.event(0), d.event(0)
    d.call("cuEventRecord", old, stream)
    d.synchronize()
    function = d.function_of(d.module_of(FAULT_PTX), b"fault")
    meter.stage("ready", pid=os.getpid())
    d.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
    codes = {"synchronise": d.code("cuCtxSynchronize")}
    codes["record"] = d.code("cuEventRecord", event, stream)
    codes["query"] = d.code("cuEventQuery", event)
    codes["query of an old one"] = d.code("cuEventQuery", old)
    codes["alloc"] = d.code("cuMemAlloc_v2", byref(ctypes.c_uint64()), MIB)
    time.sleep(0.2)
    codes["later"] = d.code("cuCtxSynchronize")
    meter.stage("faulted")
    meter.result(codes=codes)


def hold(options):
    d = libcuda.Driver()
    d.load()
    d.alloc(options.mib * MIB)
    if options.kernel_us:
        d.launch(d.parameters(max(1, round(options.kernel_us * options.rounds_per_us))), d.stream())
    meter.stage("holding", pid=os.getpid())
    d.synchronize()
    meter.result()


def inside(options):
    d = libcuda.Driver()
    d.alloc(options.mib * MIB)
    try:
        nvml = outside.Outside(options.nvml)
        listed = nvml.processes()
    except outside.Unavailable as e:
        meter.result(pid=os.getpid(), unavailable=str(e))
        return
    meter.result(pid=os.getpid(), listed={str(k): v for k, v in listed.items()})


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    what = {
        "device": device, "entries": entries, "capture": capture, "exchange": exchange,
        "green": green, "forked": forked, "fork-first": fork_first, "fork-hold": fork_hold,
        "fork-exec": fork_exec, "order": order, "storm": storm, "exits": exits, "fault": fault,
        "hold": hold, "inside": inside
    }
    a.add_argument("what", choices=what)
    a.add_argument("--rounds-per-us", type=float, default=1, help="as driver.py calibrate says")
    a.add_argument("--seconds", type=float, default=20)
    a.add_argument("--count", type=int, default=1000, help="processes")
    a.add_argument("--mib", type=int, default=512, help="memory to hold")
    a.add_argument("--kernel-us", type=float, default=0, help="a kernel that runs meanwhile")
    a.add_argument("--nvml", default="libnvidia-ml.so.1", help="the management library")
    options = a.parse_args()
    what[options.what](options)


if __name__ == "__main__":
    main()
