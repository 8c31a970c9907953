#!/usr/bin/env python3
"""Check that ONNX Runtime runs what `weir optimize` writes, with the same results.

Every model is optimised by weir, and ONNX Runtime runs the original and the
optimised one on the same inputs: the ONNX project's backend test cases, the
fetched models and those of `weir model new`. Floats of the cases may differ by
that project's own tolerances, floats of whole models by a relative L2 error of
1e-3, everything else must be equal. Of models that have the same operators,
names of attributes and types the smallest runs, and all where WEIR_LONG is set
or --only names some. ONNX's own checker must pass everything that weir writes,
also what ONNX Runtime does not run even as it is.

Exit codes: 0 all agree; 1 some do not; 2 the command line is wrong or weir
cannot be built; 3 the peer or a model cannot be fetched because a registry does
not answer, and nothing else failed.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

import environment
import fetch

if __name__ == "__main__":
    environment.enter_or_exit()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

import compare  # noqa: E402
import inputs  # noqa: E402
from compare import say  # noqa: E402

CASE_RTOL, CASE_ATOL = 1e-3, 1e-7  # onnx/backend/test/loader
NORM = 1e-3
ARCHIVE = "onnx-backend-tests.tar.xz"


@dataclasses.dataclass
class Subject:
    """A model file, and its inputs one run after another (a function of the peer's session)."""

    name: str
    file: pathlib.Path
    make_feeds: object
    agree: object


class Unusable(Exception):
    """ONNX Runtime does not run the model as it is."""


def backend_tests(scratch):
    """The folder of the ONNX project's backend tests, None when they are not on this machine."""
    for place in [os.environ.get("WEIR_ONNX_TESTDATA"), compare.ROOT.parent / "shared" / "data"]:
        if place and (pathlib.Path(place) / "node").is_dir():
            return pathlib.Path(place)
        if place and (pathlib.Path(place) / ARCHIVE).is_file():
            with tarfile.open(pathlib.Path(place) / ARCHIVE) as packed:
                packed.extractall(scratch, filter="data")
            return pathlib.Path(scratch)
    return None


def number(path):
    return int(path.stem.rsplit("_", 1)[1])


def read_value(file, declared):
    """A tensor, sequence or optional of a .pb file as ONNX Runtime takes it."""
    kind = declared.WhichOneof("value")
    if kind == "sequence_type":
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(file.read_bytes()))
    if kind == "optional_type":
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(file.read_bytes()))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes()))


def case_feeds(directory, model):
    """The inputs of each data set of a case."""
    declared = onnx.load(model, load_external_data=False).graph.input
    for data in sorted(directory.glob("test_data_set_*"), key=number):
        files = sorted(data.glob("input_*.pb"), key=number)
        yield {value.name: read_value(file, value.type) for value, file in zip(declared, files)}


def ramp(session):
    """The input of a light case, as the ONNX project makes it."""
    shapes = {
        i.name: [d if isinstance(d, int) else 1 for d in i.shape]
        for i in session.get_inputs()
    }
    yield {
        name: (np.arange(np.prod(s)) / np.prod(s)).astype(np.float32).reshape(s)
        for name, s in shapes.items()
    }


def close_elements(got, want):
    """What is wrong with got by the tolerances of the ONNX project's runner, "" if nothing."""
    if isinstance(want, list):
        if len(got) != len(want):
            return f"{len(got)} elements, want {len(want)}"
        return next(filter(None, map(close_elements, got, want)), "")
    if not isinstance(want, np.ndarray):
        return "" if got == want else f"{got}, want {want}"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
    if not np.issubdtype(want.dtype, np.floating):
        return "" if np.array_equal(
            got, want) else f"{int((got != want).sum())} of {want.size} elements differ"
    close = np.isclose(got, want, rtol=CASE_RTOL, atol=CASE_ATOL, equal_nan=True)
    return "" if close.all() else f"{int((~close).sum())} of {want.size} elements differ"


def close_norm(got, want):
    """What is wrong with got by its relative L2 error and its largest local one, "" if nothing."""
    result = compare.OutputResult("", str(want.dtype), list(want.shape))
    compare.compare_output(result, got, want, NORM, compare.LOCAL * NORM)
    return result.problem


def cases(directory, scratch):
    """The backend test cases as subjects."""
    for model in sorted(directory.glob("*/*/model.onnx")):
        name = str(model.parent.relative_to(directory))
        yield Subject(name,
                      model,
                      lambda _, model=model: case_feeds(model.parent, model),
                      close_elements)
    for model in sorted((directory / "light").glob("*.onnx")):
        yield Subject(f"light/{model.stem}", model, ramp, close_elements)


def kind(model):
    """The operators of a model with the names of their attributes, and the types of its operands:
    what weir writes differently of it than of others."""
    graph = onnx.load(model, load_external_data=False).graph
    nodes = {(n.domain, n.op_type, *sorted(a.name for a in n.attribute)) for n in graph.node}
    types = [v.type.WhichOneof("value") + str(v.type.tensor_type.elem_type)
             for v in [*graph.input, *graph.output]]
    return frozenset(nodes), tuple(types)


def one_of_each(subjects):
    """The smallest subject of each kind."""
    seen = set()
    for subject in sorted(subjects, key=lambda s: s.file.stat().st_size):
        if (k := kind(subject.file)) not in seen:
            seen.add(k)
            yield subject


def models(options, weir, scratch):
    """The fetched and the standard models as subjects."""
    found = [compare.Model("digits", compare.DIGITS, lambda _: inputs.digits_case())]
    found += compare.fetched_models(options.models, [])
    for architecture in compare.STANDARD:
        if options.only.search(architecture):
            file = pathlib.Path(scratch) / f"{architecture}.onnx"
            weir.new_model(architecture, file)
            found.append(compare.standard_model(architecture, file))
    for model in found:
        yield Subject(model.name,
                      model.file,
                      lambda session, m=model: first_steps(m, session),
                      close_norm)


def first_steps(model, session):
    """The steps of a case that need no state of the step before."""
    return model.make_case(session).steps[:1]


def optimise(weir, subject, out):
    """Have weir write the optimised model; return why it could not, or ""."""
    done = subprocess.run([weir.binary, "optimize", subject.file, out, "--json"],
                          capture_output=True,
                          text=True,
                          timeout=compare.RUN_TIMEOUT_S)
    said = done.stderr.strip().splitlines()
    if done.returncode == 0:
        return ""
    return f"exit {done.returncode}: {said[-1] if said else 'no message'}"


def original_results(subject):
    """What ONNX Runtime makes of the model as it is: the inputs and outputs of every run."""
    try:
        session = compare.peer_session(subject.file)
        feeds = list(subject.make_feeds(session))
        return [(feed, session.run(None, feed)) for feed in feeds]
    except Exception as error:  # the peer's exceptions share no base class
        raise Unusable(f"{type(error).__name__}: {error}") from None


def check(subject, weir, scratch):
    """(outcome, detail) of one model."""
    out = pathlib.Path(scratch) / (re.sub(r"\W", "_", subject.name) + ".optimised.onnx")
    try:
        if refusal := optimise(weir, subject, out):
            return ("unsupported" if "unsupported" in refusal else "failed"), refusal
        onnx.checker.check_model(out)
        want = original_results(subject)
        try:
            session = compare.peer_session(out)
            for feed, outputs in want:
                names = [o.name for o in session.get_outputs()]
                got = session.run(None, feed)
                for name, problem in zip(names, map(subject.agree, got, outputs)):
                    if problem:
                        return "failed", f"{name}: {problem}"
        except Exception as error:
            return "failed", f"{type(error).__name__}: {error}"
        return "passed", ""
    except onnx.checker.ValidationError as error:
        return "failed", f"ONNX's checker: {error}"
    except Unusable as error:
        return "checked", str(error)
    finally:
        for part in out.parent.glob(out.name + "*"):
            part.unlink()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only",
                        type=re.compile,
                        default=re.compile(""),
                        metavar="REGEXP",
                        help="only models whose name matches")
    compare.add_weir_option(parser)
    fetch.add_models_option(parser)
    parser.add_argument("--verbose",
                        action="store_true",
                        help="name also what says nothing, and why")
    return parser.parse_args()


def main():
    options = parse_arguments()
    onnxruntime.set_default_logger_severity(4)  # what it refuses is an exception, too
    binary = compare.weir_binary(options.weir)
    if binary is None:
        return compare.EXIT_USAGE
    weir = compare.Weir(binary, [])
    code = fetch.fetch(options.models)
    count = collections.Counter()
    with tempfile.TemporaryDirectory(dir=environment.cache_directory()) as scratch:
        data = backend_tests(pathlib.Path(scratch) / "data")
        if data is None:
            say("skipped: no ONNX test data")
        subjects = [*(cases(data, scratch) if data else ()), *models(options, weir, scratch)]
        subjects = [s for s in subjects if options.only.search(s.name)]
        if not os.environ.get("WEIR_LONG") and not options.only.pattern:
            subjects = list(one_of_each(subjects))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for subject, (outcome, detail) in zip(
                    subjects, pool.map(lambda s: check(s, weir, scratch), subjects)):
                count[outcome] += 1
                if outcome == "failed" or options.verbose and outcome != "passed":
                    print(f"{outcome}  {subject.name}: {detail}")
    print(
        f"{count['passed']} optimised models give ONNX Runtime's own results, {count['failed']} do "
        f"not; "
        f"{count['checked']} it does not run as they are; {count['unsupported']} weir does not read"
    )
    return compare.EXIT_DISAGREE if count["failed"] else code


if __name__ == "__main__":
    sys.exit(main())
