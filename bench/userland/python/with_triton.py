"""Triton: kernels compiled by its own ptxas, and launched by its own launcher, without PyTorch."""

import os
import tempfile

os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="triton-")  # compile each time

import triton
import triton.language as tl
from cuda.bindings import runtime

from say import must, show


class Buffer:
    """What the launcher wants of a tensor."""

    dtype = "float32"

    def __init__(self, count):
        self.pointer = must(runtime.cudaMalloc(4 * count))

    def data_ptr(self):
        return self.pointer


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def multiply(a, b, c, K, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        total += tl.dot(tl.load(a + rows[:, None] * K + inner[None, :]),
                        tl.load(b + inner[:, None] * BLOCK + columns[None, :]))
    tl.store(c + rows[:, None] * BLOCK + columns[None, :], total)


N = 1 << 14
target = triton.runtime.driver.active.get_current_target()
show("target", (target.backend, target.arch, target.warp_size))
x, y, z = (Buffer(N) for _ in range(3))
kernel = add[(N // 256, )](x, y, z, N, BLOCK=256)
show("cubin", len(kernel.asm["cubin"]) > 0)
show("registers", kernel.n_regs > 0)
show("shared memory", kernel.metadata.shared)
for _ in range(10):
    add[(N // 256, )](x, y, z, N, BLOCK=256)
kernel = multiply[(1, )](x, y, z, 128, BLOCK=64, num_warps=4, num_stages=3)
show("shared memory of a product", kernel.metadata.shared > 0)
show("at the end", must(runtime.cudaDeviceSynchronize()))
for buffer in (x, y, z):
    must(runtime.cudaFree(buffer.pointer))
