"""Numba's CUDA target: compiled by NVVM and ptxas, launched with arrays, streams and events."""

import numpy as np
from numba import cuda

from say import attempt, memory, show


@cuda.jit("void(float32[:], float32[:], float32[:])")
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def shared(out):
    tile = cuda.shared.array(64, dtype=np.float32)
    i = cuda.threadIdx.x
    tile[i] = i
    cuda.syncthreads()
    out[i] = tile[63 - i]


show("available", cuda.is_available())
show("devices", len(cuda.gpus))
free, total = cuda.current_context().get_memory_info()
memory("total", total)
host = np.arange(1 << 14, dtype=np.float32)
a = cuda.to_device(host)
b = cuda.device_array_like(host)
b.copy_to_device(a)
show("copied", bool((b.copy_to_host() == host).all()))
c = cuda.device_array(host.shape, dtype=np.float32)
stream = cuda.stream()
begin, end = cuda.event(), cuda.event()
begin.record(stream)
add[64, 256, stream](a, b, c)
end.record(stream)
stream.synchronize()
show("time passed", begin.elapsed_time(end) > 0)
shared[1, 64](c)
cuda.synchronize()
pinned = cuda.pinned_array(4096, dtype=np.uint8)
pinned[:] = 9
there = cuda.to_device(pinned, stream=stream)
back = np.zeros_like(pinned)
there.copy_to_host(back, stream=stream)
stream.synchronize()
show("through pinned memory", bool((back == 9).all()))
mapped = cuda.managed_array(1024, dtype=np.int32)
mapped[:] = 4
show("managed", int(mapped.sum()))
attempt("too much", cuda.device_array, 1 << 50, np.uint8)
del a, b, c, there
cuda.synchronize()
