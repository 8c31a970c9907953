#!/usr/bin/env python3
"""Measure weir beside ONNX Runtime while another process keeps a core busy.

README.md describes the method. Exit codes: 0 the bound holds; 1 it does not, a
model failed or its outputs disagree; 2 the command line is wrong or weir does
not build; 3 the peer or a model cannot be fetched.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "bench" / "latency"))

import common  # noqa: E402
import environment  # noqa: E402
import latency  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
from burner import Burners  # noqa: E402

STATES = ("alone", "busy")


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names",
                        nargs="*",
                        metavar="NAME",
                        help="models to measure (default: resnet50)")
    parser.add_argument("--threads",
                        type=common.positive,
                        default=2,
                        help="threads of both sides (default: %(default)s)")
    parser.add_argument("--burners",
                        type=common.positive,
                        default=1,
                        help="processes that keep a core busy (default: %(default)s)")
    parser.add_argument("--pin",
                        action="store_true",
                        help="tie each of them to a core of its own, from the last one down")
    parser.add_argument("--rounds",
                        type=common.positive,
                        default=8,
                        help="rounds, an even number (default: %(default)s)")
    parser.add_argument("--runs",
                        type=common.positive,
                        help="timed runs in each measurement (default: what takes 1500 ms)")
    parser.add_argument(
        "--bound",
        type=float,
        default=0.75,
        metavar="RATIO",
        help="most that weir/ORT may be in the busy state, over all models (default: %(default)s)")
    common.add_options(parser)
    common.add_checks(parser)
    return parser


def take(binary, subject, runs, options):
    """Measure in all rounds; return {state: {side: [measurement]}}, each with what the burners got
    of the machine meanwhile.

    A pair of rounds measures both states, one after the other, each in the order A B, B A.
    """
    taken = {state: {side: [] for side in rounds.SIDES} for state in STATES}
    for _ in range(options.rounds // 2):
        for state in STATES:
            with Burners(options.burners if state == "busy" else 0, options.pin) as burners:
                for _, threads, side in rounds.order(2, [options.threads]):
                    with burners.metered() as got:
                        measurement = measure.launch(
                            measure.command(side, binary, subject, runs, threads))
                    taken[state][side].append(measurement | {"burner_cores": got.cores})
    return taken


def summary(taken, runs, threads):
    """The report's entries by state, from take's result."""
    entries = {}
    for state, sides in taken.items():
        (entry,) = report.by_threads({threads: sides}, runs)
        cores = {
            side: statistics.median(m["burner_cores"] for m in ms)
            for side, ms in sides.items()
        }
        entries[state] = entry | {"burner_cores": cores}
    return entries


def measure_model(name, weir, options, scratch):
    """One model's entry of the report."""
    prepared, entry = common.begin(name, weir, options, scratch)
    if "status" in entry:
        return entry
    timed = options.runs
    if timed is None:
        trial = measure.trial(weir.binary, prepared.subject, options.threads)
        timed = rounds.runs_within(trial, latency.FULL.budget_ms, latency.FULL.least,
                                   latency.FULL.most)
    runs = measure.Runs(timed, latency.FULL.warmup)
    taken = take(weir.binary, prepared.subject, runs, options)
    return entry | {"status": "measured", "states": summary(taken, runs, options.threads)}


def measure_all(options, names, binary):
    import compare

    before = common.load_average()
    weir = compare.Weir(binary, ["--threads=1", "--precision=fp32"])
    entries = [
        common.attempt(name,
                        lambda scratch, name=name: measure_model(name, weir, options, scratch))
        for name in names
    ]
    ratios = [e["states"]["busy"]["ratio"] for e in report.measured(entries)]
    mean = rounds.geometric_mean(ratios) if ratios else None
    return {
        **common.surroundings(options, binary, before),
        "settings": {
            "threads": options.threads, "burners": options.burners, "pinned": options.pin,
            "rounds": options.rounds, "runs": options.runs, "precision": "fp32",
            "check": options.check, "tolerance": options.tolerance
        },
        "ratio": mean,
        "bound": options.bound,
        "held": len(ratios) == len(names) and mean <= options.bound,
        "models": entries,
    }


def table(result):
    """The report as lines for people."""
    settings = result["settings"]
    yield (f"{result['date']}, {result['machine']}, {result['cores']} cores, "
           f"{', '.join(result['versions'].values())}")
    yield (
        f"load average {report.load_text(result['load_average_before'])} before, "
        f"{report.load_text(result['load_average_after'])} "
        f"after; {settings['rounds']} rounds, threads: {settings['threads']}, busy processes: "
        f"{settings['burners']}"
        f"{', pinned' if settings['pinned'] else ''}")
    yield ""
    yield (f"{'model':15} {'state':6} {'weir ms':>10} {'ORT ms':>10} {'weir/ORT':>8}  "
           f"{'quartiles':13} {'cores of the busy process beside':>33}")
    for entry in result["models"]:
        if entry["status"] != "measured":
            yield f"{entry['model']:15} {entry['status']}: {entry['error']}"
            continue
        for state, part in entry["states"].items():
            cores = part["burner_cores"]
            beside = f"weir {cores['weir']:.2f}, ORT {cores['ort']:.2f}" if state == "busy" else ""
            yield (
                f"{entry['model']:15} {state:6} {part['weir']['median_ms']:10.3f} "
                f"{part['ort']['median_ms']:10.3f} {part['ratio']:8.2f}  "
                f"{part['q1']:.2f} to {part['q3']:.2f}  {beside:>33}")
    if result["ratio"] is not None:
        yield (f"busy: weir/ORT {result['ratio']:.3f}, bound {result['bound']:g}: "
               f"{'held' if result['held'] else 'MISSED'}")


def run(options, parser):
    """Measure inside the peer's environment; return the exit code."""
    import compare
    import workloads

    options.names = options.names or ["resnet50"]
    if unknown := set(options.names) - set(workloads.MODELS):
        parser.error(
            f"no model named {', '.join(sorted(unknown))}; there are {', '.join(workloads.MODELS)}")
    if options.rounds % 2:
        parser.error(
            f"--rounds {options.rounds}: want an even number, since every other round has the "
            f"sides in reverse"
        )
    code = compare.fetch_models(options)
    names = common.available(options.names, options)
    with tempfile.TemporaryDirectory(dir=environment.cache_directory()) as scratch:
        binary = common.find_binary(options, scratch)
        if binary is None:
            return common.EXIT_USAGE
        result = measure_all(options, names, binary)
    common.show(result, table(result), options)
    return code if result["held"] else common.EXIT_FAILED


if __name__ == "__main__":
    sys.exit(common.command(make_parser(), run))
