"""CuPy: its memory pool, kernels of its own and raw ones, streams, events and graphs."""

import cupy as cp
import numpy as np

from say import attempt, memory, show

RAW = r"""
extern "C" __global__ void scale(float *p, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= by;
}
"""

show("devices", cp.cuda.runtime.getDeviceCount())
free, total = cp.cuda.Device().mem_info
memory("total", total)
pool = cp.get_default_memory_pool()
host = np.arange(1 << 14, dtype=np.float32)
a = cp.asarray(host)
show("copied", bool((cp.asnumpy(a) == host).all()))
show("pool holds", pool.used_bytes())
b = a * 2 + 1  # an elementwise kernel, compiled by NVRTC
b.sum()  # a reduction
kernel = cp.RawKernel(RAW, "scale")
kernel((64,), (256,), (a, cp.float32(2), a.size))
show("attributes", sorted(k for k, v in kernel.attributes.items() if v > 0))
module = cp.RawModule(code=RAW, backend="nvcc" if False else "nvrtc")
show("module", module.get_function("scale").max_threads_per_block)
stream = cp.cuda.Stream(non_blocking=True)
with stream:
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    begin.record()
    kernel((64,), (256,), (a, cp.float32(2), a.size))
    end.record()
    stream.begin_capture()
    kernel((64,), (256,), (a, cp.float32(2), a.size))
    cp.cuda.runtime.memsetAsync(b.data.ptr, 5, b.nbytes, stream.ptr)
    graph = stream.end_capture()
    for _ in range(3):
        graph.launch()
    stream.synchronize()
show("time passed", cp.cuda.get_elapsed_time(begin, end) > 0)
show("set by the graph", int(b.view(cp.uint8).get().astype(np.int64).sum()) == 5 * b.nbytes)
pinned = cp.cuda.alloc_pinned_memory(4096)
show("pinned", pinned.mem.size >= 4096)
attempt("too much", cp.zeros, 1 << 50, cp.uint8)
with cp.cuda.using_allocator(cp.cuda.malloc_async):
    c = cp.zeros(1 << 20, cp.uint8)
    show("of the stream's pool", int(c.get().sum()))
    del c
with cp.cuda.using_allocator(cp.cuda.malloc_managed):
    d = cp.ones(1 << 10, cp.uint8)
    del d
pool.set_limit(size=64 << 20)
attempt("beyond the pool's limit", lambda: cp.empty(65 << 20, cp.uint8))
del a, b
cp.cuda.Device().synchronize()
pool.free_all_blocks()
show("pool holds at the end", pool.total_bytes())
