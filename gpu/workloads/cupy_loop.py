"""A matrix product in CuPy."""

import argparse

import cupy

import meter


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--seconds", type=float, default=3)
    options = a.parse_args()
    total = cupy.cuda.runtime.memGetInfo()[1]
    x = cupy.ones((2048, 2048), dtype=cupy.float32)

    def step():
        for _ in range(10):
            y = x @ x
        cupy.cuda.Stream.null.synchronize()
        return y

    correct = float(step()[0, 0]) == 2048.0
    meter.loop(step, options.seconds, cupy=cupy.__version__, total_bytes=total, correct=correct)


if __name__ == "__main__":
    main()
