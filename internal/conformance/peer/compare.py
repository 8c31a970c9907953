#!/usr/bin/env python3
"""Compare weir with ONNX Runtime on real trained and on standard models.

Each model runs in both on the same inputs, and every output must agree: the
same dtype and shape, integers and booleans equal, floats within a relative L2
error of 1e-3 (the norm of the difference over the norm of the peer's output),
and no single element further off than half that of its own magnitude and the
root of the output's mean square together: the norm of a large output hides an
element. An element of that mean size is seen when it is 0.1 % off, and one of a
nineteenth of it when it is 1 % off; models have up to 1.6e-4.
Where the model itself rounds numbers to bytes as it runs, the last place of a
number decides now and then on which byte it falls, and layers multiply such
steps. How far that carries is measured: the peer runs on inputs changed by one
part in 100,000 too, and twice what that moves its own outputs is allowed.
Each operator of such models is compared by itself in quantized.py.

Exit codes: 0 all outputs agree; 1 some do not, or weir failed on a model; 2 the
command line is wrong or weir cannot be built; 3 the peer or a model cannot be
fetched because a registry does not answer, and nothing else failed.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import environment
import fetch

EXIT_DISAGREE = 1
EXIT_USAGE = 2

RUN_TIMEOUT_S = 600
QUANTIZERS = {"QuantizeLinear", "DynamicQuantizeLinear"}
# how much the inputs of models that have them are changed, as long sums may be by their order, and
# how often
NUDGE, NUDGES = 1e-5, 8
NUDGED = 2  # times what the peer's outputs moved at most is allowed
LOCAL = 0.5  # of the relative L2 error that is allowed, allowed of one element
STANDARD = ["resnet50", "mobilenetv2", "yolov8n", "bert-base", "minilm-l6", "gpt2"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"

if __name__ == "__main__":
    environment.enter_or_exit()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

import census  # noqa: E402
import inputs  # noqa: E402


class WeirFailed(Exception):
    """weir ended with an error or left something else than the contract says."""


@dataclasses.dataclass
class Model:
    """A model to compare, and what makes its inputs (a function of the peer's session).

    A local error is allowed as far as LOCAL says, and as far as local_tolerance does.
    """

    name: str
    file: pathlib.Path
    make_case: object
    local_tolerance: float = 0.0


@dataclasses.dataclass
class OutputResult:
    """How one output compares, over all steps of a case.

    The three numbers are the worst over all steps, None where no floats were
    compared. problem says what was wrong first, and is empty if nothing was.
    """

    name: str
    dtype: str
    shape: list
    relative_l2: float | None = None
    local: float | None = None
    max_difference: float | None = None
    problem: str = ""


def say(text):
    print(text, file=sys.stderr, flush=True)


def relative_l2(got, want):
    """(relative L2 error, largest difference) of two float arrays of one shape.

    NaN agrees with NaN and an infinity with the same infinity; where only one
    side is not finite, the error is infinite. If want is all zero the error is
    the norm of got.
    """
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if not np.array_equal(np.where(np.isfinite(got), 0, got),
                          np.where(np.isfinite(want), 0, want),
                          equal_nan=True):
        return float("inf"), float("inf")
    finite = np.isfinite(want)
    difference = got[finite] - want[finite]
    if difference.size == 0:
        return 0.0, 0.0
    norm = np.linalg.norm(want[finite])
    error = np.linalg.norm(difference) / norm if norm > 0 else np.linalg.norm(difference)
    return float(error), float(np.abs(difference).max())


def local_error(got, want):
    """The largest difference of two elements, over the peer's magnitude there and the root of its
    mean square together.

    The mean square belongs to it because sums of terms of that size cancel where an element is
    small. Elements that are not finite are for relative_l2 to compare.
    """
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    finite = np.isfinite(want) & np.isfinite(got)
    got, want = got[finite], want[finite]
    if want.size == 0:
        return 0.0
    scale = np.abs(want) + np.sqrt(np.mean(np.square(want)))
    return float((np.abs(got - want) / np.where(scale > 0, scale, 1)).max())


def compare_output(result, got, want, tolerance, local_tolerance):
    """Fold one step's output into result."""
    if got.dtype != want.dtype:
        result.problem = result.problem or f"dtype {got.dtype}, want {want.dtype}"
    elif got.shape != want.shape:
        result.problem = result.problem or f"shape {list(got.shape)}, want {list(want.shape)}"
    elif np.issubdtype(want.dtype, np.floating):
        error, difference = relative_l2(got, want)
        result.relative_l2 = max(result.relative_l2 or 0.0, error)
        result.max_difference = max(result.max_difference or 0.0, difference)
        if not error <= tolerance:
            found = f"relative L2 error {error:.3g}, allowed {tolerance:g}"
            result.problem = result.problem or found
        local = local_error(got, want)
        result.local = max(result.local or 0.0, local)
        if not local <= local_tolerance:
            found = f"local error {local:.3g}, allowed {local_tolerance:g}"
            result.problem = result.problem or found
    elif not np.array_equal(got, want):
        found = f"{int((got != want).sum())} of {want.size} elements differ"
        result.problem = result.problem or found


def peer_session(model, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    """A model, a file or its bytes, in ONNX Runtime on one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # some models declare output shapes that they do not keep, and it warns each time
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_steps(case, run):
    """Run a case's steps with run(feeds) -> {output: array}, handing on what it carries."""
    results = []
    for step in case.steps:
        carried = {to: results[-1][source] for to, source in case.carry.items() if results}
        kept = {to: results[0][source] for to, source in case.keep.items() if results}
        results.append(run({**carried, **kept, **step}))
    return results


def nudged(feeds, rng):
    """The feeds with every float changed in its last places."""
    return {name: (value * (1 + NUDGE * rng.standard_normal(value.shape))).astype(value.dtype)
            if np.issubdtype(value.dtype, np.floating) else value for name, value in feeds.items()}


def allowed(file, case, run_peer, want, tolerance):
    """The relative L2 and local errors allowed of a model's floats: tolerance and LOCAL of it, or,
    where the model rounds numbers to bytes as it runs, as much more as the peer's own outputs move
    when the last places of its inputs do."""
    nodes = onnx.load(file, load_external_data=False).graph.node
    if not any(n.op_type in QUANTIZERS for n in nodes):
        return tolerance, LOCAL * tolerance
    rng, moved, local = np.random.default_rng(0), 0.0, 0.0
    for _ in range(NUDGES):
        for got_step, want_step in zip(run_steps(case, lambda feeds: run_peer(nudged(feeds, rng))),
                                       want):
            for name, value in want_step.items():
                if np.issubdtype(value.dtype, np.floating):
                    moved = max(moved, relative_l2(got_step[name], value)[0])
                    local = max(local, local_error(got_step[name], value))
    return max(tolerance, NUDGED * moved), max(LOCAL * tolerance, NUDGED * local)


# Every model is run once, so that there is nothing to keep compiled plans for.
ENVIRONMENT = {**os.environ, "WEIR_CACHE": "off"}


def weir_json(command):
    """Run weir and return the JSON object that it prints."""
    try:
        done = subprocess.run(command,
                              capture_output=True,
                              text=True,
                              timeout=RUN_TIMEOUT_S,
                              env=ENVIRONMENT)
    except subprocess.TimeoutExpired:
        raise WeirFailed(f"no result within {RUN_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise WeirFailed(f"exit {done.returncode}: {said[-1] if said else 'no message'}")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise WeirFailed(f"--json printed no JSON object: {error}") from None


DEFAULT_DEVICE = "cpu:0"


class Weir:
    """weir's command line, as the contract describes it, on one device."""

    def __init__(self, binary, flags, device=DEFAULT_DEVICE):
        self.binary = binary
        self.flags = [f"--device={device}", *flags]
        self.device = device
        self.run_ms = []

    def run(self, file, feeds):
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            command = [self.binary, "run", file, "--json", "--output", scratch / "out", *self.flags]
            for k, (name, value) in enumerate(feeds.items()):
                np.save(scratch / f"in{k}.npy", value)
                command += ["--input", f"{name}={scratch / f'in{k}.npy'}"]
            answer = weir_json(command)
            self.run_ms.append(answer["run_ms"])
            return {o["name"]: self._load(o, scratch / "out") for o in answer["outputs"]}

    def _load(self, output, directory):
        path = pathlib.Path(output["file"])
        value = np.load(path if path.is_absolute() or path.exists() else directory / path)
        if list(value.shape) != list(output["shape"]):
            raise WeirFailed(
                f"{output['name']}: file has shape {list(value.shape)}, --json says "
                f"{output['shape']}"
            )
        return value

    def new_model(self, architecture, file):
        weir_json([self.binary, "model", "new", architecture, file, "--seed", "1", "--json"])


@dataclasses.dataclass
class Expected:
    """What the peer makes of a model: its outputs of each step of a case, the milliseconds of each,
    and how far others may be off, in the norm and locally."""

    case: object
    want: list
    peer_ms: list
    tolerances: tuple


def expect(model, tolerance):
    """Run one model in the peer."""
    session = peer_session(model.file)
    case = model.make_case(session)
    names = [output.name for output in session.get_outputs()]
    peer_ms = []

    def run_peer(feeds):
        start = time.perf_counter()
        values = session.run(None, feeds)
        peer_ms.append((time.perf_counter() - start) * 1e3)
        return dict(zip(names, values))

    want = run_steps(case, run_peer)
    norm, local = allowed(model.file, case, run_peer, want, tolerance)
    return Expected(case, want, peer_ms[:len(want)], (norm, max(local, model.local_tolerance)))


def compare(model, weir, options, expected=None):
    """Run one model in both and return its entry of the report. Where the peer has run the model
    already, expected is what it made of it."""
    expected = expected or expect(model, options.tolerance)
    want = expected.want
    results = [OutputResult(n, str(v.dtype), list(v.shape)) for n, v in want[0].items()]
    entry = {"model": model.name, "steps": len(want), "peer_ms": expected.peer_ms}
    if weir is not None:
        weir.run_ms = []
        got = run_steps(expected.case, lambda feeds: weir.run(model.file, feeds))
        for result in results:
            for got_step, want_step in zip(got, want):
                if result.name not in got_step:
                    raise WeirFailed(f"no output {result.name!r}, only {sorted(got_step)}")
                compare_output(result, got_step[result.name], want_step[result.name],
                               *expected.tolerances)
        entry |= {"device": weir.device, "weir_ms": weir.run_ms}
    entry["outputs"] = [dataclasses.asdict(r) for r in results]
    agreed = "passed" if weir is not None else "ran"
    entry["status"] = "failed" if any(r.problem for r in results) else agreed
    return entry


def fetched_models(directory, names):
    """The models of models.json whose files are there."""
    index = json.loads((directory / "models.json").read_text())["models"]
    for entry in index:
        if names and entry["name"] not in names:
            continue
        spec = {i["name"]: (i["dtype"], i["shape"]) for i in entry["inputs"]}
        yield Model(entry["name"],
                    directory / entry["file"],
                    lambda _, recipe=entry["recipe"], spec=spec: inputs.fetched_case(
                        np.random.default_rng(0), recipe, spec))


def standard_model(architecture, file):
    def make_case(session):
        declared = [(i.name, i.shape) for i in session.get_inputs()]
        return inputs.standard_case(np.random.default_rng(0), architecture, declared)

    return Model(architecture, file, make_case)


def guarded(name, work, device=DEFAULT_DEVICE):
    """A report entry from work(), or a failed one that says why there is none."""
    say(f"{on_device(name, device)}: running")
    failed = {"model": name, "device": device, "status": "failed"}
    try:
        return work()
    except WeirFailed as error:
        return {**failed, "error": str(error)}
    except Exception as error:  # the peer's exceptions share no base class
        return {**failed, "error": f"peer: {type(error).__name__}: {error}"}


def on_device(name, device):
    return name if device == DEFAULT_DEVICE else f"{name} {device}"


def compare_on_each(model, weirs, options):
    """Yield the entries of a model, one a device; of the peer alone where there is no weir. The
    peer runs once."""
    expected = functools.cache(lambda: expect(model, options.tolerance))
    for weir in weirs or [None]:
        yield guarded(model.name,
                      lambda: compare(model, weir, options, expected()),
                      weir.device if weir else DEFAULT_DEVICE)


def compare_standard(architecture, weirs, options, scratch):
    """Have weir write a standard model, compare, and remove it again: some take half a gigabyte."""
    file = pathlib.Path(scratch) / f"{architecture}.onnx"
    try:
        weirs[0].new_model(architecture, file)
        yield from compare_on_each(standard_model(architecture, file), weirs, options)
    except WeirFailed as error:
        yield {"model": architecture, "status": "failed", "error": str(error)}
    finally:
        for part in pathlib.Path(scratch).iterdir():
            part.unlink()


def report_entries(options, weirs):
    """Compare all wanted models, one after another."""
    def wanted(name):
        return not options.names or name in options.names

    if wanted("digits"):
        digits = Model("digits", DIGITS, lambda _: inputs.digits_case())
        yield from compare_on_each(digits, weirs, options)
    for model in fetched_models(options.models, options.names):
        yield from compare_on_each(model, weirs, options)
    if not weirs:
        return
    with tempfile.TemporaryDirectory(dir=environment.cache_directory()) as scratch:
        for architecture in filter(wanted, STANDARD):
            yield from compare_standard(architecture, weirs, options, scratch)


def number(value):
    return f"{value:.2e}" if value is not None else "-"


def table(entries):
    """The report as lines for people."""
    yield (f"{'model':24} {'output':22} {'dtype':8} {'shape':18} {'rel. L2':>9} {'local':>9} "
           f"{'max diff':>9}  result")
    for entry in entries:
        name = on_device(entry["model"], entry.get("device", DEFAULT_DEVICE))
        if "error" in entry:
            yield f"{name:24} {entry['status']}: {entry['error']}"
        for output in entry.get("outputs", []):
            shape = "x".join(map(str, output["shape"])) or "scalar"
            ok = "ok" if entry["status"] != "ran" else "ran"
            steps = f" ({entry['steps']} steps)" if entry["steps"] > 1 else ""
            yield (f"{name:24} {output['name'][:22]:22} {output['dtype']:8} {shape:18} "
                   f"{number(output['relative_l2']):>9} {number(output['local']):>9} "
                   f"{number(output['max_difference']):>9}  "
                   f"{output['problem'] or ok}{steps}")


def build_weir():
    """Build ./cmd/weir into the cache; return the binary, or None with the compiler's words said.
    """
    binary = environment.cache_directory() / "weir"
    done = subprocess.run(["go", "build", "-o", binary, "./cmd/weir"],
                          cwd=ROOT,
                          capture_output=True,
                          text=True)
    if done.returncode != 0:
        say(f"weir does not build:\n{done.stderr.strip()}")
        return None
    return binary


def add_weir_option(parser):
    parser.add_argument("--weir", help="weir binary (default: built from ./cmd/weir)")


def weir_binary(given):
    """The binary that option --weir gives, or a new one; None, with the reason said, if there is
    none."""
    if given is None:
        return build_weir()
    if (found := shutil.which(given)) is None:
        say(f"no weir to run: {given} is no executable")
    return found


def write_census(options):
    """Write the operator census of digits and the fetched models."""
    files = [("digits", DIGITS, "image float32 [16, 1, 8, 8]")]
    for entry in json.loads((options.models / "models.json").read_text())["models"]:
        tested = ", ".join(f"{i['name']} {i['dtype']} {i['shape']}" for i in entry["inputs"])
        files.append((entry["name"], options.models / entry["file"], tested))
    models = [(name, onnx.load(file), tested) for name, file, tested in files
              if not options.names or name in options.names]
    sections = ["# Operator census\n", census.union([(name, model) for name, model, _ in models])]
    sections += [census.markdown(name, model, tested) for name, model, tested in models]
    options.census.write_text("\n".join(sections))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to compare (default: all)")
    add_weir_option(parser)
    parser.add_argument("--device", action="append", metavar="DEVICE",
                        help=f"device for weir to run on, repeatable (default: {DEFAULT_DEVICE})")
    parser.add_argument("--weir-flag", action="append", default=[], metavar="FLAG",
                        help="flag handed to weir run, for instance --weir-flag=--threads=1")
    fetch.add_models_option(parser)
    parser.add_argument("--no-fetch",
                        action="store_true",
                        help="compare only models that are there already")
    parser.add_argument("--tolerance",
                        type=float,
                        default=1e-3,
                        help="relative L2 error allowed (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--peer-only",
                        action="store_true",
                        help="run ONNX Runtime alone, to check models and inputs")
    parser.add_argument("--census", type=pathlib.Path, metavar="OUT.md",
                        help="write which operators the models use, and compare nothing")
    options = parser.parse_args()
    known = {"digits", *STANDARD, *(m.name for m in fetch.MODELS)}
    if unknown := set(options.names) - known:
        parser.error(
            f"no model named {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    return options


def fetch_models(options):
    """Fetch what is wanted and missing; return the exit code of that."""
    if options.no_fetch:
        options.models.mkdir(parents=True, exist_ok=True)
        fetch.write_index(options.models)
        return 0
    names = {m.name for m in fetch.MODELS if not options.names or m.name in options.names}
    with contextlib.redirect_stdout(sys.stderr):
        return fetch.fetch(options.models, names)


def main():
    options = parse_arguments()
    code = fetch_models(options)
    if options.census:
        write_census(options)
        return code
    weirs = []
    if not options.peer_only:
        binary = weir_binary(options.weir)
        if binary is None:
            return EXIT_USAGE
        weirs = [Weir(binary, options.weir_flag, d) for d in options.device or [DEFAULT_DEVICE]]
    entries = list(report_entries(options, weirs))
    count = {
        status: sum(e["status"] == status for e in entries)
        for status in ("passed", "failed", "ran")
    }
    if options.json:
        print(json.dumps({**count, "models": entries}, indent=2))
    else:
        print("\n".join(table(entries)))
        if options.peer_only:
            print(f"{count['ran']} models run in the peer, {count['failed']} do not")
        else:
            print(f"{count['passed']} models agree, {count['failed']} do not")
    return EXIT_DISAGREE if count["failed"] else code


if __name__ == "__main__":
    sys.exit(main())
