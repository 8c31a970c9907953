"""JAX as programs use it, one case a run: python with_jax.py CASE.

JAX looks for a device file of NVIDIA's kernel module before
it loads its plugin, and the simulated device has none: this program names one that is there.
"""

import os
import sys

from jax._src import hardware_utils

hardware_utils._NVIDIA_GPU_DEVICES = [os.devnull]
os.environ["JAX_PLATFORMS"] = "cuda"

import jax
import numpy as np

from say import memory as size, show

MIB = 1 << 20


def same(what, *values):
    """A line, and the end of the program where it says that something does not hold."""
    show(what, " ".join(str(v) for v in values))
    if any(v is False for v in values):
        sys.exit(f"{what}: does not hold")


def devices():
    """What a program asks before it does anything, and what was put aside by then."""
    found = jax.devices()
    same("devices", [str(d) for d in found], jax.default_backend(), jax.__version__)
    same("kind", found[0].device_kind, found[0].compute_capability)
    jax.device_put(np.zeros(1)).block_until_ready()
    stats = found[0].memory_stats()
    size("threequarters", stats["pool_bytes"])
    size("threequarters", stats["bytes_limit"])



def contents():
    """Bytes to the device and back, and a copy on it."""
    x = np.random.default_rng(1).integers(0, 256, 3 * MIB + 5, dtype=np.uint8)
    y = jax.device_put(x)
    same("round trip", np.array_equal(np.asarray(y), x))
    z = jax.device_put(y, jax.devices()[0], may_alias=False)
    same("copy", np.array_equal(np.asarray(z), x))


def limit():
    """Arrays to the end of what was put aside, the error, and going on after it."""
    def fill():
        held = []
        try:
            while True:
                held.append(jax.numpy.zeros(64 * MIB, np.uint8).block_until_ready())
        except jax.errors.JaxRuntimeError as e:
            return held, str(e)

    held, error = fill()
    all_of_it = jax.devices()[0].memory_stats()["bytes_limit"]
    same("filled", sum(x.nbytes for x in held) >= all_of_it - 128 * MIB)
    same("error", error.split(":")[0])
    again = len(held)
    del held
    held, error = fill()
    same("again", len(held) == again)


def compiled():
    """A program that XLA compiles, loads and launches. Its values are not looked at."""
    f = jax.jit(lambda x, y: (x @ y + 1).sum(axis=0))
    x = jax.numpy.ones((256, 256), dtype=np.float32)
    for _ in range(20):
        y = f(x, x)
    y.block_until_ready()
    same("shape", y.shape, y.dtype)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
