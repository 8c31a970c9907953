"""The models that are measured, their files and inputs: those of the peers, at the shapes of
use.

Needs the peer's Python environment.
"""

import dataclasses
import pathlib

import numpy as np

import compare
import fetch
import inputs
import light
from measure import Subject

TRAINED = [
    "digits", "ppocr-det", "ppocr-rec", "ppocr-cls", "silero-vad-v5", "ddddocr-common",
    "ddddocr-det", "moonshine-encoder", "minilm", "magika"
]
MODELS = [*compare.STANDARD, *TRAINED, *light.LIGHT]
# Those whose files are there or are written for the occasion.
UNFETCHED = {"digits", *compare.STANDARD, *light.LIGHT}

# [batch, length] of token inputs.
TEXTS = (1, 128)

# Where a model is used at other shapes than those that internal/conformance/peer checks.
SHAPES = {
    "ppocr-det": {"x": [1, 3, 640, 640]},
    "ppocr-rec": {"x": [1, 3, 48, 320]},
    "minilm": dict.fromkeys(["input_ids", "attention_mask", "token_type_ids"], TEXTS),
}


def fetched_case(name):
    (model,) = (m for m in fetch.MODELS if m.name == name)
    spec = {
        i: (dtype, SHAPES.get(name, {}).get(i, shape))
        for i, (dtype, shape) in model.inputs.items()
    }
    return inputs.fetched_case(np.random.default_rng(0), model.recipe, spec)


def standard_case(name, session):
    declared = [(i.name, i.shape) for i in session.get_inputs()]
    return inputs.standard_case(np.random.default_rng(0), name, declared, texts=TEXTS)


def first_inference(name, session):
    """The inputs of one inference at batch 1, and nothing carried on from one before it."""
    if name == "digits":
        case = inputs.digits_case()
        return {k: v[:1] for k, v in case.steps[0].items()}
    if name in UNFETCHED:
        return standard_case(name, session).steps[0]
    return fetched_case(name).steps[0]


def model_file(name, weir, options, scratch):
    """The model's file; a standard model is written by weir into scratch, a light one by light."""
    if name == "digits":
        return compare.DIGITS
    if name not in UNFETCHED:
        return options.models / f"{name}.onnx"
    file = pathlib.Path(scratch) / f"{name}.onnx"
    if name in light.LIGHT:
        light.write(name, file)
    else:
        weir.new_model(name, file)
    return file


def save(feeds, scratch):
    """Write each input as .npy; return {input: file}."""
    files = {}
    for k, (name, value) in enumerate(feeds.items()):
        files[name] = pathlib.Path(scratch) / f"in{k}.npy"
        np.save(files[name], value)
    return files


@dataclasses.dataclass
class Prepared:
    """A model ready to be measured; check is the comparison's report entry, None if that was not
    wanted."""

    subject: Subject
    inputs: list
    check: dict | None


def prepare(name, weir, options, scratch):
    """Get one model and its inputs, and have both sides' outputs compared unless options say
    otherwise."""
    file = model_file(name, weir, options, scratch)
    feeds = {}

    def make_case(session):
        feeds.update(first_inference(name, session))
        return inputs.Case([feeds])

    check = None
    if options.check:
        check = compare.compare(compare.Model(name, file, make_case), weir, options)
    else:
        make_case(compare.peer_session(file))
    described = [{"name": k, "dtype": str(v.dtype), "shape": list(v.shape)}
                 for k, v in feeds.items()]
    return Prepared(Subject(file, save(feeds, scratch)), described, check)
