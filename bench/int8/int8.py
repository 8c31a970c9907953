#!/usr/bin/env python3
"""Measure quantised models in weir, in ONNX Runtime, and in weir as float32, interleaved in one
run.

README.md describes the method. Exit codes: 0 everything was measured and every bound holds; 1 a
model failed, its outputs disagree or a bound is missed; 2 the command line is wrong or weir does
not build; 3 the peer or a model cannot be fetched.
"""

import argparse
import dataclasses
import logging
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "bench" / "latency"))

import common  # noqa: E402
import environment  # noqa: E402
import latency  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402

EXIT_MISSED = 1

# The most that a quantised model may take, over ONNX Runtime on the same file and over weir on the
# model in float32.
OVER_ORT = 0.9
OVER_F32 = 1.0

# How far outputs may lie from ONNX Runtime's: rounding to bytes turns differences of the last digit
# into whole steps, which layers multiply (quantized.py beside compare.py tells more, and compares
# operator by operator).
TOLERANCE = 0.2


@dataclasses.dataclass(frozen=True)
class Subject:
    """A quantised model: a variant of the peers' quantized.py or a model that is published
    quantised.

    f32 names the model in float32, None where none is published; bound whether OVER_ORT is asked of
    it. tokens, if given, is how many tokens of the inputs are kept, and file the model's name less
    that.
    """

    name: str
    f32: str | None
    bound: bool = False
    tokens: int | None = None
    file: str | None = None


SUBJECTS = {s.name: s for s in [
    Subject("resnet50-qdq", "resnet50", True),
    Subject("bert-base-dynamic", "bert-base", True),
    Subject("minilm-dynamic", "minilm", True),
    Subject("mobilenetv2-qdq", "mobilenetv2", True),
    Subject("ddddocr-common-old", None, True),
    Subject("moonshine-encoder", None, True),
    Subject("resnet50-dynamic", "resnet50"),
    Subject("mobilenetv2-qdq-channel", "mobilenetv2"),
    Subject("mobilenetv2-qdq-s8s8", "mobilenetv2"),
    Subject("ddddocr-common-dynamic", "ddddocr-common"),
    Subject("minilm-4bit", "minilm"),
    Subject("minilm-4bit-int8", "minilm"),
    Subject("minilm-4bit-token", "minilm", tokens=1, file="minilm-4bit"),
    Subject("minilm-4bit-int8-token", "minilm", tokens=1, file="minilm-4bit-int8"),
    # What tools make of five models: see by_tools of quantized.py.
    *(Subject(f"{model}-{more}", model.removesuffix("-folded"))
      for model in ("ppocr-rec", "ppocr-det", "ddddocr-common", "mobilenetv2-folded",
                    "resnet50-folded")
      for more in ("qdq", "qdq-channel", "qdq-products", "a16", "nncf")),
]}


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to measure (default: all)")
    parser.add_argument("--bound",
                        action="store_true",
                        help="only the models that a bound over ONNX Runtime is set for")
    parser.add_argument("--threads", type=common.thread_counts, metavar="N,N",
                        help="threads to measure with (default: 1,2, with --quick 1)")
    parser.add_argument("--rounds",
                        type=common.positive,
                        help=f"rounds (default: {latency.FULL.rounds})")
    parser.add_argument("--runs",
                        type=common.positive,
                        help="timed runs in each measurement (default: what takes 1.5 s)")
    parser.add_argument("--quick",
                        action="store_true",
                        help="two short rounds: shows that all works, measures roughly")
    common.add_options(parser)
    common.add_openvino(parser)
    return parser


def sides(subject, openvino=False):
    """The sides of a round; the quantised model in weir stands between those that it is held to."""
    return [*(["openvino"] if openvino else []), "ort", "weir", *(["f32"] if subject.f32 else [])]


def compared(ours, theirs):
    """The ratio of two lists of measurements, by rounds.ratios."""
    return rounds.ratios([m["median_ms"] for m in ours], [m["median_ms"] for m in theirs])


def part_of(subject, threads, measured):
    """The report's entry for one number of threads: medians, both ratios, and the bounds that are
    missed."""
    part = {
        "threads": threads, "over_ort": compared(measured["weir"], measured["ort"]),
        **{side: rounds.median_by_field(ms, report.FIELDS)
           for side, ms in measured.items()}, "rounds": measured
    }
    for side in "f32", "openvino":
        if side in measured:
            part[f"over_{side}"] = compared(measured["weir"], measured[side])
    part["missed"] = missed(subject, part)
    return part


def missed(subject, part):
    """The bounds that a part misses, as words."""
    found = []
    if subject.bound and part["over_ort"]["ratio"] > OVER_ORT:
        found.append(f"{part['over_ort']['ratio']:.2f} of ONNX Runtime's time, at most {OVER_ORT}")
    if "over_f32" in part and part["over_f32"]["ratio"] > OVER_F32:
        found.append(
            f"{part['over_f32']['ratio']:.2f} of the time in float32, at most {OVER_F32:g}")
    return found


def cosine(a, b):
    """The cosine of two outputs as vectors of float64; 1 when both are zero."""
    import numpy as np

    a, b = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm > 0 else float(not a.any() and not b.any())


def base_of(subject):
    """The model whose inputs a subject takes."""
    return subject.f32 or subject.name


def inputs_of(subject, session):
    """The inputs that a subject is measured with; those of models of text are batch × tokens."""
    import workloads

    feeds = workloads.first_inference(base_of(subject), session)
    return {k: v[:, :subject.tokens] for k, v in feeds.items()} if subject.tokens else feeds


def checked(subject, files, feeds, weir, session):
    """How far the outputs lie from ONNX Runtime's, and their cosine with those in float32, by
    output."""
    import compare

    names = [o.name for o in session.get_outputs()]
    want, got = dict(zip(names, session.run(None, feeds))), weir.run(files["weir"], feeds)
    plain = weir.run(files["f32"], feeds) if subject.f32 else {}
    outputs = []
    for name, value in want.items():
        error, _ = compare.relative_l2(got[name], value)
        entry = {
            "name": name, "relative_l2": error if error < float("inf") else None,
            "cosine_ort": cosine(got[name], value)
        }
        if name in plain and plain[name].shape == value.shape:
            entry |= {
                "cosine_f32": cosine(got[name], plain[name]),
                "ort_cosine_f32": cosine(value, plain[name])
            }
        outputs.append(entry)
    return outputs


def disagreement(outputs):
    return "; ".join(f"{o['name']}: relative L2 error {o['relative_l2']}, allowed {TOLERANCE}"
                     for o in outputs if o["relative_l2"] is None or o["relative_l2"] > TOLERANCE)


def files_of(subject, weir, directory):
    """The model files of the sides; variants are written into directory unless they are there."""
    import quantized

    file = quantized.source(subject.file or subject.name, directory, weir)
    return {"weir": file, "ort": file, "openvino": file
            } | ({"f32": quantized.source(subject.f32, directory, weir)} if subject.f32 else {})


def measure_subject(subject, weir, options, scratch):
    import compare
    import workloads

    files = files_of(subject, weir, environment.cache_directory() / "quantized")
    session = compare.peer_session(files["ort"])
    feeds = inputs_of(subject, session)
    entry = {
        "model": subject.name, "f32": subject.f32, "bound": subject.bound,
        "inputs": [{"name": k, "dtype": str(v.dtype), "shape": list(v.shape)}
                   for k, v in feeds.items()]
    }
    entry["outputs"] = checked(subject, files, feeds, weir, session)
    del session
    if wrong := disagreement(entry["outputs"]):
        return entry | {"status": "failed", "error": wrong}
    saved, effort = workloads.save(feeds, scratch), latency.effort_of(options)
    subjects = {side: measure.Subject(file, saved) for side, file in files.items()}

    def command(side, threads, runs):
        return measure.command("weir" if side == "f32" else side, weir.binary, subjects[side],
                               runs, threads)

    beside = options.openvino
    if beside and (why := common.refusal(weir.binary, subjects["openvino"], effort.threads[0])):
        entry["openvino"], beside = why, False
    order = sides(subject, beside)
    slowest = max(
        measure.launch(command(side, effort.threads[0], measure.Runs(2, 1)))["median_ms"]
        for side in order)
    timed = options.runs or rounds.runs_within(slowest, effort.budget_ms, effort.least, effort.most)
    runs = measure.Runs(timed, effort.warmup)
    taken = measure.interleaved(lambda side, threads: command(side, threads, runs),
                                effort.threads, effort.rounds, order)
    return entry | {
        "status": "measured", "runs": timed,
        "threads": [part_of(subject, t, m) for t, m in taken.items()]
    }


def measure_all(options, names, binary):
    import compare

    before, begin = common.load_average(), time.monotonic()
    weir = compare.Weir(binary, ["--threads=1", "--precision=fp32"])
    entries = [
        common.attempt(
            name,
            lambda scratch, name=name: measure_subject(SUBJECTS[name], weir, options, scratch))
        for name in names
    ]
    return {
        **common.surroundings(options, binary, before),
        "wall_s": time.monotonic() - begin,
        "settings": {
            **dataclasses.asdict(latency.effort_of(options)), "quick": options.quick,
            "runs": options.runs
        },
        "bounds": {"over_ort": OVER_ORT, "over_f32": OVER_F32},
        "models": entries,
    }


def openvino_columns(entry, part):
    """OpenVINO's time and the ratio, why there is none, or nothing."""
    if "over_openvino" in part:
        return f" {part['openvino']['median_ms']:9.3f} {part['over_openvino']['ratio']:8.2f}"
    return f"  {entry['openvino']}" if "openvino" in entry else ""


def table(result):
    """The report as lines for people."""
    load = " and ".join(
        report.load_text(result[k]) for k in ("load_average_before", "load_average_after"))
    yield (f"{result['date']}, {result['machine']}, {result['cores']} cores, "
           f"{', '.join(result['versions'].values())}")
    yield f"load average {load}; {result['settings']['rounds']} rounds"
    yield ""
    beside = any("over_openvino" in p for e in result["models"] for p in e.get("threads", []))
    yield (
        f"{'model':24} {'threads':>7} {'weir ms':>9} {'ORT ms':>9} {'f32 ms':>9} {'weir/ORT':>8}  "
        f"{'quartiles':12} "
        f"{'int8/f32':>8} {'cos f32':>8}"
        + (f" {'OpenVINO':>9} {'weir/OV':>8}" if beside else ""))
    for entry in result["models"]:
        if entry["status"] != "measured":
            yield f"{entry['model']:24} {entry['status']}: {entry['error']}"
            continue
        cosines = [o["cosine_f32"] for o in entry["outputs"] if "cosine_f32" in o]
        for part in entry["threads"]:
            over = part["over_ort"]
            f32 = f"{part['f32']['median_ms']:9.3f}" if "f32" in part else f"{'':9}"
            ratio = f"{part['over_f32']['ratio']:8.2f}" if "f32" in part else f"{'':8}"
            yield (
                f"{entry['model']:24} {part['threads']:7} {part['weir']['median_ms']:9.3f} "
                f"{part['ort']['median_ms']:9.3f} {f32} "
                f"{over['ratio']:8.2f}  {over['q1']:.2f} to {over['q3']:.2f} {ratio} "
                f"{f'{min(cosines):8.4f}' if cosines else ' ' * 8 if beside else ''}"
                f"{openvino_columns(entry, part)}"
                f"{'  MISSED: ' + '; '.join(part['missed']) if part['missed'] else ''}"
            )


def chosen(options, parser):
    """The models to measure whose files are there or can be made."""
    import compare

    names = options.names or [n for n, s in SUBJECTS.items() if s.bound or not options.bound]
    if unknown := set(names) - set(SUBJECTS):
        parser.error(
            f"no model named {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    options.names = {base_of(SUBJECTS[n]) for n in names}
    return names, compare.fetch_models(options)


def run(options, parser):
    """Measure inside the peer's environment; return the exit code."""
    names, code = chosen(options, parser)
    logging.disable(logging.WARNING)
    (environment.cache_directory() / "quantized").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=environment.cache_directory()) as scratch:
        binary = common.find_binary(options, scratch)
        if binary is None:
            return common.EXIT_USAGE
        result = measure_all(options, names, binary)
    common.show(result, table(result), options)
    good = all(e["status"] == "measured" and not any(p["missed"] for p in e["threads"])
               for e in result["models"])
    return code if good else EXIT_MISSED


if __name__ == "__main__":
    sys.exit(common.command(make_parser(), run))
