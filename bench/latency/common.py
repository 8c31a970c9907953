"""What the benchmarks that measure weir beside other runtimes share: options, facts of the machine
and of what is measured, and the course of a run."""

import argparse
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "internal" / "conformance" / "peer"))

import environment  # noqa: E402
import fetch  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402

OPENVINO = pathlib.Path(__file__).resolve().parent / "requirements-openvino.txt"

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3


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


def add_options(parser):
    """The options of the report, the binary and the models."""
    parser.add_argument("--json",
                        action="store_true",
                        help="print the report as JSON; the table goes to stderr")
    parser.add_argument("--weir", help="weir binary (default: built from ./cmd/weir)")
    fetch.add_models_option(parser)
    parser.add_argument("--no-fetch",
                        action="store_true",
                        help="measure only models that are there already")


def add_checks(parser):
    """The options of comparing outputs."""
    parser.add_argument("--no-check",
                        dest="check",
                        action="store_false",
                        help="do not compare the outputs")
    parser.add_argument("--tolerance",
                        type=float,
                        default=1e-3,
                        help="relative L2 error allowed (default: %(default)s)")


def add_openvino(parser):
    """The option of a second peer."""
    parser.add_argument("--openvino",
                        action="store_true",
                        help="measure OpenVINO, too, in the same rounds")


def refusal(binary, subject, threads):
    """Why OpenVINO does not run a model; None if it does."""
    try:
        measure.launch(measure.command("openvino", binary, subject, measure.Runs(1, 0), threads))
    except measure.Failed as error:
        return str(error)
    return None


def machine_model():
    """The name of the processor; on arm64, whose Linux knows none, the numbers of who made it and
    of the part."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {}
    for key, _, value in (line.partition(":") for line in lines):
        facts.setdefault(key.strip(), value.strip())
    numbers = [f"{key} {facts[key]}" for key in ("CPU implementer", "CPU part") if key in facts]
    return facts.get("model name") or ", ".join([platform.machine(), *numbers])


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


def versions(options, binary):
    """What was measured, as words for people."""
    import numpy
    import onnxruntime

    compiler, commit = build_facts(binary)
    if not commit and options.weir is None:
        commit = checkout_commit()
    peers = {"ort": f"ONNX Runtime {onnxruntime.__version__}"}
    if getattr(options, "openvino", False):
        import openvino

        peers["openvino"] = f"OpenVINO {openvino.__version__.partition('-')[0]}"
    return {
        "weir": f"weir {commit or 'of unknown commit'}", "go": compiler or "Go of unknown version",
        **peers, "numpy": f"numpy {numpy.__version__}",
        "python": f"Python {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}"
    }


def surroundings(options, binary, load_before):
    """The part of a report that tells where it was measured, and what."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "machine": machine_model(),
        "processor": processor(binary),
        "cores": available_cores(),
        "load_average_before": load_before,
        "load_average_after": load_average(),
        "versions": versions(options, binary),
    }


def begin(name, weir, options, scratch):
    """(prepared, entry): a model made ready, and the report's entry so far, with the status failed
    where its outputs disagree with the peer's."""
    import workloads

    prepared = workloads.prepare(name, weir, options, scratch)
    entry = {"model": name, "inputs": prepared.inputs}
    if prepared.check is not None:
        entry["check"] = report.check_entry(prepared.check)
        if wrong := report.disagreement(prepared.check):
            entry |= {"status": "failed", "error": wrong}
    return prepared, entry


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


def command(parser, run):
    """Run a benchmark's command line inside the peer's environment; return the exit code."""
    options = parser.parse_args()
    # As an exception, so that the measurement under way is ended and the scratch folders are
    # removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        environment.enter(OPENVINO if getattr(options, "openvino", False)
                          else environment.REQUIREMENTS)
    except environment.NotInstallable as error:
        say(f"skipped: the peers cannot be installed: {error}")
        return EXIT_UNREACHABLE
    return run(options, parser)
