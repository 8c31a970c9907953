"""How a workload reports: it gets ready, waits for the word, repeats one step for a while, and
prints one JSON object.

Protocol with the harness: the workload prints "READY" on a line of its own once everything is warm,
waits for a line on standard input, runs, and prints its result as the last line. Programs that are
measured together so start together. Times are those of CLOCK_MONOTONIC, which all processes of a
machine share.

A program that is measured from outside while it holds something says so by stages instead, one JSON
object with the field "stage" on a line, and waits for a line after each.
"""

import json
import sys
import time

# seconds; completions are reported per bucket, so that the harness can look at any window
BUCKET = 0.05


def barrier():
    """Say that all is warm, and wait for the word."""
    print("READY", flush=True)
    if not sys.stdin.readline():
        sys.exit("the harness went away")


def stage(name, **fields):
    """Say how far the program has come, and wait for the word: meanwhile the harness measures."""
    print(json.dumps({"stage": name, **fields}), flush=True)
    if not sys.stdin.readline():
        sys.exit("the harness went away")


def result(**fields):
    """Print the result: the last line of the output."""
    print(json.dumps(fields), flush=True)


def percentile(values, q):
    """The value that a fraction q of the values does not exceed; values must be sorted."""
    if not values:
        return None
    return values[min(len(values) - 1, int(q * len(values)))]


def loop(step, seconds, pause=0.0, **fields):
    """Repeat step, which returns when its work is done on the device, for some seconds after the
    barrier.

    With a pause, each step begins that long after the end of the one before: a client that thinks.
    The latency is that of the step alone.
    """
    barrier()
    start = time.monotonic()
    end, now = start + seconds, start
    done, took = [], []
    while now < end:
        before = time.monotonic()
        step()
        now = time.monotonic()
        done.append(now)
        took.append(now - before)
        if pause:
            time.sleep(pause)
            now = time.monotonic()
    first = int(start / BUCKET)
    counts = [0] * (int(done[-1] / BUCKET) - first + 1)
    for t in done:
        counts[int(t / BUCKET) - first] += 1
    took.sort()
    result(
        iterations=len(done),
        start_s=start,
        end_s=done[-1],
        per_s=len(done) / (done[-1] - start),
        bucket_s=BUCKET,
        first_bucket=first,
        counts=counts,
        mean_ms=1e3 * sum(took) / len(took),
        p50_ms=1e3 * percentile(took, 0.50),
        p99_ms=1e3 * percentile(took, 0.99),
        max_ms=1e3 * took[-1],
        **fields,
    )
