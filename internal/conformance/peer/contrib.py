#!/usr/bin/env python3
"""Compare weir with ONNX Runtime on the operators that ONNX Runtime adds to ONNX's (domain
com.microsoft).

Random models of one node each, with varied attributes, shapes and optional operands, run in both:
in weir by the operators' definitions (weir verify --reference) and as jobs run them, with passes
and kernels (weir run). Floats must agree within the recipe's tolerance, integers exactly, or within
one step where the contract leaves rounding open.

--golden FILE writes the first cases of each operator as an archive of ONNX's backend test layout,
so that Go tests hold the operators to ONNX Runtime's results without Python.

Exit codes: 0 all agree; 1 some do not; 2 the command line is wrong or weir cannot be built; 3 the
peer cannot be installed.
"""

import argparse
import collections
import io
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zlib

import environment

if __name__ == "__main__":
    environment.enter_or_exit()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

import compare  # noqa: E402
from contrib_cases import MICROSOFT, RECIPES  # noqa: E402

OPSET = 17


def build(operator, call):
    """The model of a call, and what it is fed."""
    names = ["" if v is None else f"x{i}" for i, v in enumerate(call.inputs)]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(operator,
                            names,
                            call.outputs,
                            name=operator,
                            domain=call.domain,
                            **call.attributes)
    values = {n: np.asarray(v) for n, v in zip(names, call.inputs) if n}
    constants = {f"x{i}" for i in call.constant}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in values.items() if n not in constants
    ]
    initial = [numpy_helper.from_array(v, n) for n, v in values.items() if n in constants]
    outputs = [helper.make_empty_tensor_value_info(n) for n in call.outputs if n]
    graph = helper.make_graph([node], operator, infos, outputs, initial)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET),
                       helper.make_opsetid(MICROSOFT, 1)],
        ir_version=8)
    return model, {n: v for n, v in values.items() if n not in constants}


class Refused(Exception):
    """The peer does not run a model."""


def isolated(function, *arguments):
    """Call a function in a process of its own, since some calls end the peer's process."""
    reader, writer = multiprocessing.Pipe(duplex=False)

    def child():
        try:
            writer.send((function(*arguments), ""))
        except Exception as error:  # the peer's exceptions share no base class
            writer.send((None, str(error).splitlines()[0]))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    writer.close()
    try:
        result, problem = reader.recv()
    except EOFError:
        raise Refused("the peer's process ended") from None
    finally:
        process.join()
    if problem:
        raise Refused(problem)
    return result


def expected(model, call, feeds):
    """What ONNX Runtime computes, or the recipe's own reference."""
    if call.reference:
        return call.reference(*(v for v in call.inputs if v is not None))
    return isolated(run_peer, model, feeds)


def run_peer(model, feeds):
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return compare.peer_session(model.SerializeToString(), level).run(None, feeds)


def declared(model, want):
    """The model with the types and shapes of its outputs."""
    del model.graph.output[:]
    names = [n for n in model.graph.node[0].output if n]
    model.graph.output.extend(
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), None)
        for n, v in zip(names, want))
    return model


def write_case(directory, model, call, feeds, want):
    """Write a case in the layout of ONNX's backend tests."""
    data = directory / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, directory / "model.onnx")
    for prefix, values in ("input", feeds.values()), ("output", want):
        for i, value in enumerate(values):
            (data / f"{prefix}_{i}.pb").write_bytes(
                numpy_helper.from_array(np.asarray(value), f"{prefix}_{i}").SerializeToString())
    (directory / "data.json").write_text(
        json.dumps({"rtol": call.tolerance, "atol": call.tolerance}))


def difference(call, got, want):
    """What is wrong with the outputs, empty when they agree."""
    for i, (g, w) in enumerate(zip(got, want)):
        w = np.asarray(w)
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"output {i} is {g.dtype}{list(g.shape)}, want {w.dtype}{list(w.shape)}"
        if i == 0 and call.valid is not None:
            g, w = g[call.valid], w[call.valid]
        if np.issubdtype(w.dtype, np.floating):
            ok = np.isclose(g, w, call.tolerance, call.tolerance, equal_nan=True)
        else:
            ok = np.abs(g.astype(np.int64) -
                        w.astype(np.int64)) <= (call.steps if w.dtype.itemsize <= 2 else 0)
        if not ok.all():
            at = np.argwhere(~ok)[0]
            return (f"output {i}: {(~ok).sum()} of {ok.size} differ, first at {at.tolist()}: "
                    f"{g[tuple(at)]}, want {w[tuple(at)]}")
    return ""


def describe(call):
    inputs = ", ".join("-" if v is None else f"{np.asarray(v).dtype}{list(np.asarray(v).shape)}"
                       for v in call.inputs)
    return f"({inputs}) {call.attributes} -> {call.outputs}"


class Trial:
    """One random call, run in both."""

    def __init__(self, operator, number, seed):
        self.name = f"{operator.lower()}_{number}"
        rng = np.random.default_rng([seed, number, zlib.crc32(operator.encode())])
        self.operator, self.call = operator, RECIPES[operator](rng)
        self.model, self.feeds = build(operator, self.call)
        self.refused, self.problems = "", []
        try:
            self.want = [np.asarray(v) for v in expected(self.model, self.call, self.feeds)]
            self.model = declared(self.model, self.want)
        except Refused as error:
            self.refused = str(error)

    def run(self, weir, folder):
        """Compare with weir run, and leave the case for weir verify."""
        write_case(folder / self.name, self.model, self.call, self.feeds, self.want)
        try:
            got = weir.run(folder / self.name / "model.onnx", self.feeds)
            problem = difference(self.call, [got[n] for n in self.call.outputs if n], self.want)
        except compare.WeirFailed as error:
            problem = str(error)
        if problem:
            self.problems.append(f"run: {problem}")


def references(weir, folder, trials):
    """Compare with the operators' definitions: cases that a strict comparison fails may still be
    within the steps allowed."""
    done = subprocess.run([weir.binary, "verify", "--reference", "--json", folder],
                          capture_output=True,
                          text=True)
    for case in json.loads(done.stdout)["cases"]:
        trial = trials[case["name"]]
        open_ended = trial.call.steps or trial.call.valid is not None
        trial.exact = case["status"] == "passed"
        if not trial.exact and not (open_ended and "elements differ" in case["detail"]):
            trial.problems.append(f"definition: {case['detail']}")


def golden(file, trials, count):
    """Write the first cases of each operator that agree exactly."""
    kept = collections.Counter()
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:xz", preset=9) as archive:
        for trial in trials.values():
            valid = trial.call.valid
            if (kept[trial.operator] == count or trial.problems or not trial.exact
                    or valid is not None and not valid.all()):
                continue
            kept[trial.operator] += 1
            with tempfile.TemporaryDirectory() as scratch:
                directory = pathlib.Path(scratch) / trial.name
                write_case(directory, trial.model, trial.call, trial.feeds, trial.want)
                for path in sorted(p for p in directory.rglob("*") if p.is_file()):
                    info = tarfile.TarInfo(f"{trial.name}/{path.relative_to(directory).as_posix()}")
                    content = path.read_bytes()
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    return kept


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names",
                        nargs="*",
                        metavar="OPERATOR",
                        help="operators to compare (default: all)")
    compare.add_weir_option(parser)
    parser.add_argument("--count",
                        type=int,
                        default=20,
                        help="random models of each operator (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="say what each failing call was")
    parser.add_argument("--golden",
                        type=pathlib.Path,
                        metavar="FILE.tar.xz",
                        help="write cases for Go's tests")
    parser.add_argument("--golden-count",
                        type=int,
                        default=2,
                        help="cases of each operator in FILE (default: %(default)s)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(RECIPES):
        parser.error(
            f"no operator named {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(RECIPES))}"
        )
    return options


def report(operator, trials, verbose):
    ran = [t for t in trials if not t.refused]
    failed = [t for t in ran if t.problems]
    refused = len(trials) - len(ran)
    print(f"{operator:34} {len(ran) - len(failed):3} agree, {len(failed):3} do not" +
          (f", {refused} refused by the peer" if refused else ""))
    for trial in failed if verbose else failed[:1]:
        print(f"    {trial.name}: {'; '.join(trial.problems)}\n        {describe(trial.call)}")
    for trial in [t for t in trials if t.refused][:12 if verbose else 0]:
        print(f"    {trial.name} refused: {trial.refused}\n        {describe(trial.call)}")
    return len(failed)


def main():
    options = parse_arguments()
    binary = compare.weir_binary(options.weir)
    if binary is None:
        return compare.EXIT_USAGE
    weir, operators = compare.Weir(binary, ["--threads=1"]), options.names or list(RECIPES)
    trials = [Trial(o, i, options.seed) for o in operators for i in range(options.count)]
    runnable = {t.name: t for t in trials if not t.refused}
    with tempfile.TemporaryDirectory() as scratch:
        for trial in runnable.values():
            trial.run(weir, pathlib.Path(scratch))
        if runnable:
            references(weir, scratch, runnable)
    failures = sum(
        report(o, [t for t in trials if t.operator == o], options.verbose) for o in operators)
    print(f"{len(runnable)} models compared, {failures} disagree")
    if options.golden:
        print(
            f"{sum(golden(options.golden, runnable, options.golden_count).values())} cases written")
    return compare.EXIT_DISAGREE if failures else 0


if __name__ == "__main__":
    sys.exit(main())
