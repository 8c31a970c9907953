#!/usr/bin/env python3
"""Measure weir's latency against ONNX Runtime's, interleaved in one run.

README.md describes the method. Exit codes: 0 everything was measured; 1 a
model failed or its outputs disagree; 2 the command line is wrong or weir does
not build; 3 the peer or a model cannot be fetched, and nothing else failed.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "conformance" / "peer"))

import environment  # noqa: E402
import fetch  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3


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


FULL = Effort(threads=(1, 2), rounds=8, budget_ms=1500, least=5, most=2000, warmup=3)
QUICK = Effort(threads=(1,), rounds=2, budget_ms=150, least=3, most=200, warmup=1)


def say(text):
    print(text, file=sys.stderr, flush=True)


def available_cores():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_counts(text):
    """argparse type: "1,2" -> (1, 2)."""
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: want numbers separated by commas, for instance 1,2") from None
    if min(counts) < 1 or len(set(counts)) != len(counts):
        raise argparse.ArgumentTypeError(f"{text!r}: want different numbers, each at least 1")
    return counts


def positive(text):
    """argparse type: a whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: want a whole number of at least 1")
    return int(text)


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to measure (default: all)")
    parser.add_argument("--threads", type=thread_counts, metavar="N,N",
                        help="threads to measure with (default: 1,2, with --quick 1)")
    parser.add_argument("--rounds",
                        type=positive,
                        help=f"rounds (default: {FULL.rounds}); an even number is balanced")
    parser.add_argument(
        "--runs",
        type=positive,
        help=f"timed runs in each measurement (default: what takes {FULL.budget_ms:g} ms)")
    parser.add_argument("--quick",
                        action="store_true",
                        help="two short rounds: shows that all works, measures roughly")
    parser.add_argument("--json",
                        action="store_true",
                        help="print the report as JSON; the table goes to stderr")
    parser.add_argument("--no-check",
                        dest="check",
                        action="store_false",
                        help="do not compare the outputs")
    parser.add_argument("--tolerance",
                        type=float,
                        default=1e-3,
                        help="relative L2 error allowed (default: %(default)s)")
    parser.add_argument("--weir", help="weir binary (default: built from ./cmd/weir)")
    parser.add_argument("--models",
                        type=pathlib.Path,
                        default=fetch.default_directory(),
                        metavar="DIR",
                        help="folder of the fetched models (default: %(default)s)")
    parser.add_argument("--no-fetch",
                        action="store_true",
                        help="measure only models that are there already")
    return parser


def effort_of(options):
    effort = QUICK if options.quick else FULL
    return dataclasses.replace(effort,
                               rounds=options.rounds or effort.rounds,
                               threads=options.threads or effort.threads)


def machine_model():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
                platform.machine())


def processor(binary):
    """The kind of processor as weir tells it: model, instructions, caches and measured peaks; None
    from a weir that does not."""
    try:
        done = subprocess.run([binary, "device", "list", "--json"], capture_output=True, text=True)
        return json.loads(done.stdout).get("processor")
    except (OSError, json.JSONDecodeError):
        return None


def load_average():
    """Of 1, 5 and 15 minutes; None where the system does not tell."""
    try:
        return list(os.getloadavg())
    except OSError:
        return None


def build_facts(binary):
    """(compiler, commit) that Go wrote into the binary; a commit with + was built with uncommitted
    changes."""
    try:
        done = subprocess.run(["go", "version", "-m", binary], capture_output=True, text=True)
    except OSError:
        return "", ""
    first, *lines = done.stdout.splitlines() or [""]
    settings = dict(
        line.split("\t")[-1].split("=", 1) for line in lines if "\tbuild\t" in line and "=" in line)
    commit = settings.get("vcs.revision", "")[:12]
    return first.rpartition(" ")[2], commit + ("+" if commit
                                               and settings.get("vcs.modified") == "true" else "")


def checkout_commit():
    """The commit of this checkout, for a binary just built from it: GOFLAGS may keep Go from
    writing it into one."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def versions(binary, built_here):
    """What was measured, as words for people."""
    import numpy
    import onnxruntime

    compiler, commit = build_facts(binary)
    if not commit and built_here:
        commit = checkout_commit()
    return {
        "weir": f"weir {commit or 'of unknown commit'}", "go": compiler or "Go of unknown version",
        "ort": f"ONNX Runtime {onnxruntime.__version__}", "numpy": f"numpy {numpy.__version__}",
        "python": f"Python {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}"
    }


def measure_model(name, weir, options, scratch):
    """One model's entry of the report."""
    import workloads

    effort = effort_of(options)
    prepared = workloads.prepare(name, weir, options, scratch)
    entry = {"model": name, "inputs": prepared.inputs}
    if prepared.check is not None:
        entry["check"] = report.check_entry(prepared.check)
        if wrong := report.disagreement(prepared.check):
            return entry | {"status": "failed", "error": wrong}
    timed = options.runs
    if timed is None:
        latency = measure.trial(weir.binary, prepared.subject, effort.threads[0])
        timed = rounds.runs_within(latency, effort.budget_ms, effort.least, effort.most)
    runs = measure.Runs(timed, effort.warmup)
    taken = measure.interleaved(weir.binary, prepared.subject, runs, effort.threads, effort.rounds)
    return entry | {"status": "measured", "threads": report.by_threads(taken, runs)}


def attempt(name, work):
    """The report entry from work(scratch), in a folder that is removed at once, as some models take
    half a gigabyte; or a failed one."""
    import compare

    def guarded():
        with tempfile.TemporaryDirectory(dir=environment.cache_directory()) as scratch:
            try:
                return work(scratch)
            except measure.Failed as error:
                return {"model": name, "status": "failed", "error": str(error)}

    return compare.guarded(name, guarded)


def measure_all(options, names, binary):
    import compare

    before, begin = load_average(), time.monotonic()
    weir = compare.Weir(binary, ["--threads=1", "--precision=fp32"])
    entries = [
        attempt(name, lambda scratch, name=name: measure_model(name, weir, options, scratch))
        for name in names
    ]
    effort = effort_of(options)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "machine": machine_model(),
        "processor": processor(binary),
        "cores": available_cores(),
        "load_average_before": before,
        "load_average_after": load_average(),
        "wall_s": time.monotonic() - begin,
        "versions": versions(binary, options.weir is None),
        "settings": {
            **dataclasses.asdict(effort), "quick": options.quick, "runs": options.runs,
            "precision": "fp32", "check": options.check, "tolerance": options.tolerance
        },
        "geometric_means": report.geometric_means(entries),
        "models": entries,
    }


def find_binary(options, scratch):
    """A copy of the weir to measure, so that a build during the run changes nothing; None if there
    is none."""
    import compare

    binary = compare.build_weir() if options.weir is None else shutil.which(options.weir)
    if binary is None:
        say(f"no weir to run{f': {options.weir} is no executable' if options.weir else ''}")
        return None
    return shutil.copy(binary, pathlib.Path(scratch) / "weir")


def available(names, options):
    """Those of the models whose files are there or will be written; the others are said."""
    import workloads

    there = [
        n for n in names if n in workloads.UNFETCHED or (options.models / f"{n}.onnx").is_file()
    ]
    for name in names:
        if name not in there:
            say(f"{name}: skipped, its file is not there")
    return there


def show(result, table, options):
    """Print the result: its table, or with --json the JSON and the table on standard error."""
    lines = "\n".join(table)
    if options.json:
        say(lines)
        print(json.dumps(result, indent=1))
    else:
        print(lines)


def run(options, parser):
    """Measure inside the peer's environment; return the exit code."""
    import compare
    import workloads

    options.names = options.names or workloads.MODELS
    if unknown := set(options.names) - set(workloads.MODELS):
        parser.error(
            f"no model named {', '.join(sorted(unknown))}; there are {', '.join(workloads.MODELS)}")
    if max(effort_of(options).threads) > available_cores():
        say(f"more threads than the {available_cores()} cores: those measurements tell little")
    code = compare.fetch_models(options)
    names = available(options.names, options)
    with tempfile.TemporaryDirectory(dir=environment.cache_directory()) as scratch:
        binary = find_binary(options, scratch)
        if binary is None:
            return EXIT_USAGE
        result = measure_all(options, names, binary)
    show(result, report.table(result), options)
    return EXIT_FAILED if len(report.measured(result["models"])) < len(names) else code


def command(parser, run):
    """Run a benchmark's command line inside the peer's environment; return the exit code."""
    options = parser.parse_args()
    # As an exception, so that the measurement under way is ended and the scratch folders are
    # removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        environment.enter()
    except environment.NotInstallable as error:
        say(f"skipped: ONNX Runtime cannot be installed: {error}")
        return EXIT_UNREACHABLE
    return run(options, parser)


if __name__ == "__main__":
    sys.exit(command(make_parser(), run))
