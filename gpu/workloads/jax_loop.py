"""A matrix product in JAX, with its own allocator, which takes most of the memory that it is told
of at the start."""

import argparse

import jax
import jax.numpy as jnp

import meter


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--seconds", type=float, default=3)
    options = a.parse_args()
    gpu = [d for d in jax.devices() if d.platform == "gpu"]
    if not gpu:
        raise SystemExit("this JAX sees no GPU")
    x = jnp.ones((2048, 2048), dtype=jnp.float32)
    product = jax.jit(lambda v: v @ v)

    def step():
        for _ in range(10):
            y = product(x)
        return y.block_until_ready()

    correct = float(step()[0, 0]) == 2048.0
    limit = (gpu[0].memory_stats() or {}).get("bytes_limit")
    meter.loop(step, options.seconds, jax=jax.__version__, total_bytes=limit, correct=correct)


if __name__ == "__main__":
    main()
