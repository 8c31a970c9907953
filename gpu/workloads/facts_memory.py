"""What the driver takes for what a program asks for, in stages at which the harness looks from
outside.

start        cuInit, contexts and their end
allocation   linear memory, managed memory, arrays
pools        stream-ordered memory
ordered      frees on a stream that waits
virtual      handles and mappings
limits       modules, stacks, heaps
graphs       what graphs take
share        exports memory, and holds it
open         opens memory of another process: its handle is on standard input
"""

import argparse
import ctypes
import os
import sys
import time

import libcuda
import meter

MIB = 1 << 20
byref = ctypes.byref


class ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t),
                ("format", ctypes.c_int), ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]


class PoolProps(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int),
                ("location", libcuda.Location), ("win32", ctypes.c_void_p),
                ("max_size", ctypes.c_size_t), ("usage", ctypes.c_ushort),
                ("reserved", ctypes.c_ubyte * 54)]


class AllocNode(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = [("props", PoolProps), ("access", ctypes.c_void_p),
                ("access_count", ctypes.c_size_t), ("bytes", ctypes.c_size_t),
                ("address", ctypes.c_uint64)]


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def pid():
    return os.getpid()


def start():
    lib = libcuda.Library()
    meter.stage("before", pid=pid())
    lib.call("cuInit", 0)
    device = lib.new(ctypes.c_int, "cuDeviceGet", 0).value
    meter.stage("initialised")
    began = time.monotonic()
    context = lib.new(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", device)
    took = time.monotonic() - began
    lib.call("cuCtxSetCurrent", context)
    meter.stage("context")
    lib.new(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", device)
    flags, active = ctypes.c_uint(), ctypes.c_int()
    lib.call("cuDevicePrimaryCtxGetState", device, byref(flags), byref(active))
    meter.stage("again", active=active.value)
    second = lib.new(ctypes.c_void_p, "cuCtxCreate_v2", 0, device)
    meter.stage("second")
    pointer = lib.new(ctypes.c_uint64, "cuMemAlloc_v2", 64 * MIB)
    shape = ArrayDescriptor(4096, 4096, 0, 0x20, 1, 0)  # 64 MiB of floats
    lib.new(ctypes.c_void_p, "cuArray3DCreate_v2", byref(shape))
    lib.code("cuCtxSetLimit", 0, 4096)
    meter.stage("filled")
    lib.call("cuCtxDestroy_v2", second)
    meter.stage("emptied")
    owner = ctypes.c_void_p()
    gone = lib.code("cuPointerGetAttribute", byref(owner), 1, pointer)
    for _ in range(2):
        lib.call("cuDevicePrimaryCtxRelease_v2", device)
    meter.stage("released")
    meter.result(context_s=took, gone=gone)


def allocation():
    d = libcuda.Driver()
    meter.stage("base", pid=pid(), free=d.memory()[0])

    def look(name, **fields):
        meter.stage(name, free=d.memory()[0], **fields)

    one = d.alloc(1)
    look("one byte", address=one.value)
    small = [d.alloc(512) for _ in range(1000)]
    look("small", address=max(p.value % 512 for p in small))
    exact = d.alloc(8 * MIB)
    look("exact", address=exact.value)
    over = d.alloc(2 * MIB + 1)
    look("over", address=over.value)
    for p in (one, exact, over, *small):
        d.free(p)
    look("freed")
    blocks = {}
    for size, count in ((512, 3000), (65536, 48), (768 << 10, 8), (1536 << 10, 8)):
        held = [d.alloc(size) for _ in range(count)]
        blocks[size] = len({p.value // (2 * MIB) for p in held})
        look(f"of {size}")
        for p in held:
            d.free(p)
        look(f"of {size} freed")
    managed = d.new(ctypes.c_uint64, "cuMemAllocManaged", 64 * MIB, 1)
    look("managed")
    d.call("cuMemsetD8_v2", managed, 1, 64 * MIB)
    d.synchronize()
    look("touched")
    d.free(managed)
    look("managed freed")
    pitches, pointer, pitch = {}, ctypes.c_uint64(), ctypes.c_size_t()
    for width in (1, 513, 1000, 4096):
        d.call("cuMemAllocPitch_v2", byref(pointer), byref(pitch), width, 16, 4)
        pitches[width] = pitch.value
        d.free(pointer)
    shape = ArrayDescriptor(4096, 4096, 0, 0x20, 1, 0)  # 64 MiB of floats
    array = d.new(ctypes.c_void_p, "cuArray3DCreate_v2", byref(shape))
    look("array")
    d.call("cuArrayDestroy", array)
    meter.result(pitches=pitches, blocks=blocks, zero=d.code("cuMemAlloc_v2", byref(pointer), 0))


def attribute(d, pool, number):
    value = ctypes.c_uint64()
    d.call("cuMemPoolGetAttribute", pool, number, byref(value))
    return value.value


RESERVED = 5  # CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT


def pools():
    d = libcuda.Driver()
    pool = d.new(ctypes.c_void_p, "cuDeviceGetDefaultMemPool", d.device)
    stream = d.stream()

    def look(name, of=pool, **fields):
        meter.stage(name, free=d.memory()[0], reserved=of and attribute(d, of, RESERVED), **fields)

    def take(size):
        return d.new(ctypes.c_uint64, "cuMemAllocAsync", size, stream)

    meter.stage("base", pid=pid())
    held = [take(MIB)]
    d.call("cuStreamSynchronize", stream)
    look("one")
    held += [take(64 * MIB) for _ in range(4)]
    d.call("cuStreamSynchronize", stream)
    look("five")
    for p in held[1:]:
        d.call("cuMemFreeAsync", p, stream)
    look("freed")
    d.call("cuStreamSynchronize", stream)
    look("synchronised")
    d.call("cuMemPoolTrimTo", pool, 0)
    look("trimmed")
    d.synchronize()
    crossed = [d.code("cuMemFree_v2", held[0])]
    plain = d.alloc(4 * MIB)
    crossed.append(d.code("cuMemFreeAsync", plain, stream))
    d.synchronize()
    look("crossed")
    props = PoolProps(type=1, location=libcuda.Location(1, d.device))
    own = d.new(ctypes.c_void_p, "cuMemPoolCreate", byref(props))
    p = d.new(ctypes.c_uint64, "cuMemAllocFromPoolAsync", 64 * MIB, own, stream)
    d.call("cuStreamSynchronize", stream)
    look("own", own)
    d.call("cuMemPoolDestroy", own)
    look("destroyed", None)
    d.call("cuMemFreeAsync", p, stream)
    d.synchronize()
    look("emptied", None)
    undestroyed = [d.code("cuMemPoolDestroy", pool)]
    p = take(MIB)
    undestroyed.append(d.code("cuMemFreeAsync", p, stream))
    d.synchronize()
    meter.result(crossed=crossed, undestroyed=undestroyed)


def ordered():
    """Frees behind a wait for a word of the host: of a pool, and of cuMemAlloc. Nothing here waits
    for the stream before the word is written."""
    d = libcuda.Driver()
    pool = d.new(ctypes.c_void_p, "cuDeviceGetDefaultMemPool", d.device)
    waits, other = d.stream(), d.stream()
    word = d.new(ctypes.c_void_p, "cuMemHostAlloc", 4, 0)
    ctypes.memset(word.value, 0, 4)
    event = d.new(ctypes.c_void_p, "cuEventCreate", 2)
    codes = []

    def look(name):
        d.call("cuMemPoolTrimTo", pool, 0)
        codes.append(d.code("cuEventQuery", event))
        meter.stage(name, free=d.memory()[0], reserved=attribute(d, pool, RESERVED))

    def take(size, stream):
        return d.new(ctypes.c_uint64, "cuMemAllocAsync", size, stream)

    meter.stage("base", pid=pid())
    pooled, plain = take(64 * MIB, waits), d.alloc(64 * MIB)
    d.call("cuStreamSynchronize", waits)
    look("taken")
    codes.append(d.code("cuStreamWaitValue32_v2", waits, word.value, 1, 0))
    d.call("cuMemFreeAsync", pooled, waits)
    d.call("cuMemFreeAsync", plain, waits)
    d.call("cuEventRecord", event, waits)
    look("freed")
    same = take(64 * MIB, waits)
    look("same")
    another = take(64 * MIB, other)
    look("another")
    ctypes.c_uint32.from_address(word.value).value = 1
    d.call("cuEventSynchronize", event)
    d.call("cuMemFreeAsync", same, waits)
    d.call("cuMemFreeAsync", another, other)
    d.synchronize()
    look("reached")
    meter.result(codes=codes)


def moved(d, prop, access):
    """What a graph that was made before, and a copy, find at an address whose memory was taken away
    and replaced; and the result of asking for an IPC handle."""
    size, word = 4 * MIB, ctypes.c_uint32()
    at = d.new(ctypes.c_uint64, "cuMemAddressReserve", size, 0, 0, 0).value

    def put():
        handle = d.new(ctypes.c_uint64, "cuMemCreate", size, byref(prop), 0)
        d.call("cuMemMap", at, size, 0, handle, 0)
        d.call("cuMemSetAccess", ctypes.c_uint64(at), ctypes.c_size_t(size), byref(access),
               ctypes.c_size_t(1))
        d.call("cuMemRelease", handle)

    def read(offset):
        d.call("cuMemcpyDtoH_v2", byref(word), ctypes.c_uint64(at + offset), ctypes.c_size_t(4))
        return word.value

    put()
    stream, graph, ready = d.stream(), ctypes.c_void_p(), ctypes.c_void_p()
    d.call("cuStreamBeginCapture_v2", stream, 1)
    d.call("cuMemsetD32Async", ctypes.c_uint64(at), 7, ctypes.c_size_t(4), stream)
    d.call("cuStreamEndCapture", stream, byref(graph))
    d.call("cuGraphInstantiateWithFlags", byref(ready), graph, ctypes.c_ulonglong(0))
    handle = ctypes.create_string_buffer(64)
    shared = d.code("cuIpcGetMemHandle", handle, ctypes.c_uint64(at))
    d.synchronize()
    d.call("cuMemUnmap", at, size)
    put()
    d.call("cuMemcpyHtoD_v2", ctypes.c_uint64(at + 64), byref(ctypes.c_uint32(9)),
           ctypes.c_size_t(4))
    d.launch_graph(ready, stream)
    d.synchronize()
    found = [read(0), read(64)]
    d.call("cuMemUnmap", at, size)
    return {"moved": found, "shared": shared}


def virtual():
    d = libcuda.Driver()
    prop = libcuda.AllocationProp(type=1, handle_types=1, location=libcuda.Location(1, d.device))
    granules = [d.new(ctypes.c_size_t, "cuMemGetAllocationGranularity", byref(prop), o).value
                for o in (0, 1)]
    size = 32 * MIB
    meter.stage("base", pid=pid())
    handle = d.new(ctypes.c_uint64, "cuMemCreate", size, byref(prop), 0)
    meter.stage("created")
    at = d.new(ctypes.c_uint64, "cuMemAddressReserve", 2 * size, 0, 0, 0)
    d.call("cuMemMap", at.value, size, 0, handle, 0)
    d.call("cuMemMap", at.value + size, size, 0, handle, 0)
    offset = d.code("cuMemMap", at.value, size // 2, size // 2, handle, 0)
    access = libcuda.AccessDesc(libcuda.Location(1, d.device), 3)
    d.call("cuMemSetAccess", ctypes.c_uint64(at.value), ctypes.c_size_t(2 * size), byref(access),
           ctypes.c_size_t(1))
    meter.stage("mapped")
    retained = d.new(ctypes.c_uint64, "cuMemRetainAllocationHandle", ctypes.c_void_p(at.value))
    d.call("cuMemRelease", retained)
    fd = d.new(ctypes.c_int, "cuMemExportToShareableHandle", handle, 1, 0)
    own = d.new(ctypes.c_uint64, "cuMemImportFromShareableHandle", ctypes.c_void_p(fd.value), 1)
    once = d.code("cuMemRelease", own)
    d.call("cuMemRelease", handle)
    meter.stage("released")
    unmapped = d.code("cuMemUnmap", at.value, 2 * size)
    meter.stage("unmapped")
    os.close(fd.value)
    time.sleep(0.1)  # whoever has the memory need not be told at once
    meter.stage("closed")
    plain = libcuda.AllocationProp(type=1, location=libcuda.Location(1, d.device))
    meter.result(**moved(d, plain, access), granules=granules, offset=offset, unmapped=unmapped,
                 import_released=once,
                 retained_same=retained.value == handle.value, own_same=own.value == handle.value)


BIG = 64 * MIB
ARRAY_PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .b8 big[67108864];
.visible .entry touch()
{
  .reg .u64 %r;
  .reg .u32 %v;
  mov.u64 %r, big;
  mov.u32 %v, 1;
  st.global.u32 [%r], %v;
  ret;
}
"""


def limits():
    d = libcuda.Driver()
    d.load()
    d.launch(d.parameters(1))
    d.synchronize()
    meter.stage("base", pid=pid())
    module = d.module_of(ARRAY_PTX)
    meter.stage("module")
    d.call("cuLaunchKernel", d.function_of(module, b"touch"), 1, 1, 1, 1, 1, 1, 0, None, None, None)
    d.synchronize()
    meter.stage("touched")
    d.call("cuModuleUnload", module)
    meter.stage("unloaded")
    threads = d.attribute(16) * d.attribute(39)  # multiprocessors, threads of one at most
    codes = {}
    for name, number, value, back in (("stack", 0, 16 << 10, 1 << 10), ("fifo", 1, 64 * MIB, MIB),
                                      ("heap", 2, 256 * MIB, 8 * MIB)):
        codes[name] = d.code("cuCtxSetLimit", number, value)
        meter.stage(name)
        d.launch(d.parameters(1))
        d.synchronize()
        meter.stage(name + " launched")
        d.code("cuCtxSetLimit", number, back)
        d.synchronize()
        meter.stage(name + " back")
    meter.result(threads=threads, codes=codes)


def graph_memory(d):
    """A graph that allocates and frees; its exec and the device's figure of its memory."""
    graph = d.new(ctypes.c_void_p, "cuGraphCreate", 0)
    props = PoolProps(type=1, location=libcuda.Location(1, d.device))
    params = AllocNode(props=props, bytes=64 * MIB)
    node = d.new(ctypes.c_void_p, "cuGraphAddMemAllocNode", graph, None, 0, byref(params))
    d.new(ctypes.c_void_p, "cuGraphAddMemFreeNode", graph, byref(node), 1, params.address)
    return d.new(ctypes.c_void_p, "cuGraphInstantiateWithFlags", graph, 0)


def graphs():
    d = libcuda.Driver()
    d.load()
    stream = d.stream()

    def reserved():
        value = ctypes.c_uint64()
        d.call("cuDeviceGetGraphMemAttribute", d.device, 2, byref(value))
        return value.value

    def look(name):
        meter.stage(name, reserved=reserved())

    meter.stage("base", pid=pid())
    ready = graph_memory(d)
    look("instantiated")
    d.launch_graph(ready, stream)
    d.call("cuStreamSynchronize", stream)
    look("launched")
    d.call("cuGraphExecDestroy", ready)
    d.call("cuDeviceGraphMemTrim", d.device)
    look("trimmed")
    p = d.parameters(1)
    many = [d.graph(p, 1000)[0] for _ in range(10)]
    look("many")
    for g in many:
        d.call("cuGraphUpload", g, stream)
        d.launch_graph(g, stream)
    d.synchronize()
    look("many launched")
    meter.result(nodes=10000)


def share():
    d = libcuda.Driver()
    meter.stage("base", pid=pid())
    p = d.alloc(256 * MIB)
    handle = d.new(IpcHandle, "cuIpcGetMemHandle", p)
    meter.stage("exported", handle=bytes(handle.bytes).hex())
    meter.result()


def opened():
    d = libcuda.Driver()
    meter.stage("base", pid=pid())
    handle = IpcHandle((ctypes.c_ubyte * 64).from_buffer_copy(bytes.fromhex(sys.stdin.readline())))
    at, base, size = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_size_t()
    f = d.lib.cuIpcOpenMemHandle_v2
    f.argtypes = [ctypes.c_void_p, IpcHandle, ctypes.c_uint]
    code = f(byref(at), handle, 1)
    if code:
        raise libcuda.Error("cuIpcOpenMemHandle_v2", code)
    code = d.code("cuMemGetAddressRange_v2", byref(base), byref(size), at)
    meter.stage("opened", range=[code, size.value, base.value == at.value])
    d.call("cuIpcCloseMemHandle", at)
    meter.stage("closed")
    meter.result()


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    what = {
        "start": start, "allocation": allocation, "pools": pools, "ordered": ordered,
        "virtual": virtual,
        "limits": limits, "graphs": graphs, "share": share, "open": opened
    }
    a.add_argument("what", choices=what)
    what[a.parse_args().what]()


if __name__ == "__main__":
    main()
