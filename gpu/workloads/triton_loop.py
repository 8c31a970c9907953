"""A Triton kernel, which is launched through the driver API by code that Triton compiles itself."""

import argparse

import torch
import triton
import triton.language as tl

import meter


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, v * 2 + 1, mask=at < n)


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--seconds", type=float, default=3)
    options = a.parse_args()
    n = 1 << 24
    x = torch.randn(n, device="cuda")
    y = torch.empty_like(x)

    def step():
        for _ in range(20):
            scale[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
        torch.cuda.synchronize()

    step()
    correct = bool(torch.allclose(y, x * 2 + 1))
    meter.loop(step,
               options.seconds,
               triton=triton.__version__,
               correct=correct,
               total_bytes=torch.cuda.mem_get_info()[1])


if __name__ == "__main__":
    main()
