#!/usr/bin/env python3
"""Measure weir's latency against ONNX Runtime's and OpenVINO's, interleaved in one run.

README.md describes the method. Exit codes: 0 everything was measured; 1 a
model failed or its outputs disagree; 2 the command line is wrong or weir does
not build; 3 the peer or a model cannot be fetched, and nothing else failed.
"""

import argparse
import dataclasses
import sys
import tempfile
import time

import common  # first: it makes the peer's modules known
import environment
import measure
import report
import rounds

@dataclasses.dataclass(frozen=True)
class Effort:
    """How much is measured: thread counts, rounds, and the time and the least and most runs of one
    measurement."""

    threads: tuple
    rounds: int
    budget_ms: float
    least: int
    most: int
    warmup: int


# How far outputs may lie from ONNX Runtime's at least, in relative L2 error, where operands are
# rounded to the 8 bits of bfloat16.
HALF_TOLERANCE = 5e-2

FULL = Effort(threads=(1, 2), rounds=8, budget_ms=1500, least=5, most=2000, warmup=3)
QUICK = Effort(threads=(1,), rounds=2, budget_ms=150, least=3, most=200, warmup=1)


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to measure (default: all)")
    parser.add_argument("--threads", type=common.thread_counts, metavar="N,N",
                        help="threads to measure with (default: 1,2, with --quick 1)")
    parser.add_argument("--rounds",
                        type=common.positive,
                        help=f"rounds (default: {FULL.rounds}); an even number is balanced")
    parser.add_argument(
        "--runs",
        type=common.positive,
        help=f"timed runs in each measurement (default: what takes {FULL.budget_ms:g} ms)")
    parser.add_argument("--quick",
                        action="store_true",
                        help="two short rounds: shows that all works, measures roughly")
    parser.add_argument("--precision",
                        choices=["fp32", "bf16", "auto"],
                        default="fp32",
                        help="how weir multiplies (default: fp32); else OpenVINO is told bf16, "
                        "and ONNX Runtime stays at float32")
    common.add_options(parser)
    common.add_openvino(parser)
    common.add_checks(parser)
    return parser


def effort_of(options):
    effort = QUICK if options.quick else FULL
    return dataclasses.replace(effort,
                               rounds=options.rounds or effort.rounds,
                               threads=options.threads or effort.threads)


def measure_model(name, weir, options, scratch):
    """One model's entry of the report."""
    effort = effort_of(options)
    prepared, entry = common.begin(name, weir, options, scratch)
    if "status" in entry:
        return entry
    sides = rounds.SIDES
    if options.openvino:
        if why := common.refusal(weir.binary, prepared.subject, effort.threads[0]):
            entry["openvino"] = why
        else:
            sides = rounds.THREE_SIDES
    timed = options.runs
    if timed is None:
        latency = measure.trial(weir.binary, prepared.subject, effort.threads[0], sides)
        timed = rounds.runs_within(latency, effort.budget_ms, effort.least, effort.most)
    runs = measure.Runs(timed, effort.warmup, options.precision)
    taken = measure.interleaved(
        lambda side, t: measure.command(side, weir.binary, prepared.subject, runs, t),
        effort.threads, effort.rounds, sides)
    return entry | {"status": "measured", "threads": report.by_threads(taken, runs)}


def measure_all(options, names, binary):
    import compare

    before, begin = common.load_average(), time.monotonic()
    weir = compare.Weir(binary, ["--threads=1", f"--precision={options.precision}"])
    if options.precision != "fp32":
        options.tolerance = max(options.tolerance, HALF_TOLERANCE)
    entries = [
        common.attempt(name, lambda scratch, name=name: measure_model(name, weir, options, scratch))
        for name in names
    ]
    effort = effort_of(options)
    return {
        **common.surroundings(options, binary, before),
        "wall_s": time.monotonic() - begin,
        "settings": {
            **dataclasses.asdict(effort), "quick": options.quick, "runs": options.runs,
            "precision": options.precision, "check": options.check,
            "tolerance": options.tolerance
        },
        "geometric_means": report.geometric_means(entries),
        "models": entries,
    }


def run(options, parser):
    """Measure inside the peer's environment; return the exit code."""
    import compare
    import workloads

    options.names = options.names or workloads.MODELS
    if unknown := set(options.names) - set(workloads.MODELS):
        parser.error(
            f"no model named {', '.join(sorted(unknown))}; there are {', '.join(workloads.MODELS)}")
    if max(effort_of(options).threads) > common.available_cores():
        common.say(f"more threads than the {common.available_cores()} cores: those measurements "
                   f"tell little")
    code = compare.fetch_models(options)
    names = common.available(options.names, options)
    with tempfile.TemporaryDirectory(dir=environment.cache_directory()) as scratch:
        binary = common.find_binary(options, scratch)
        if binary is None:
            return common.EXIT_USAGE
        result = measure_all(options, names, binary)
    common.show(result, report.table(result), options)
    return common.EXIT_FAILED if len(report.measured(result["models"])) < len(names) else code


if __name__ == "__main__":
    sys.exit(common.command(make_parser(), run))
