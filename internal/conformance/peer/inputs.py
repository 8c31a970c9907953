"""Realistic test inputs, the same at every call for one seed.

Images are composed of real handwritten digits (examples/digits), sounds of
tones and noise, texts of token numbers in range: a network whose activations
all saturate or vanish would hide mistakes.
"""

import dataclasses
import gzip
import pathlib

import numpy as np

DIGITS = pathlib.Path(__file__).resolve().parents[3] / "examples" / "digits"

# Vocabulary sizes: WordPiece of BERT (also MiniLM's) and byte-pair encoding of GPT-2.
BERT_VOCABULARY = 30522
GPT2_VOCABULARY = 50257

# Mean and deviation of ImageNet's channels, with which image classifiers are usually fed.
IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
IMAGENET_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]


@dataclasses.dataclass
class Case:
    """Inputs for one model: one inference after another.

    carry maps an input to the output of the step before that feeds it, for
    models that hand their state on, and keep one to the output of the first
    step; the first step has a value for every input.
    """

    steps: list
    carry: dict = dataclasses.field(default_factory=dict)
    keep: dict = dataclasses.field(default_factory=dict)


def paste(rng, canvas, glyph, scale, top, left):
    """Darken canvas [h, w] (1 is paper) by a digit enlarged by a whole number."""
    ink = np.kron(glyph, np.ones((scale, scale))) / 16
    height = min(ink.shape[0], canvas.shape[0] - top)
    width = min(ink.shape[1], canvas.shape[1] - left)
    canvas[top : top + height, left : left + width] -= rng.uniform(0.6, 0.9) * ink[:height, :width]


def paper(rng, height, width):
    """An unevenly lit, grainy sheet [h, w] in 0..1."""
    slope = np.linspace(0, 0.1, height)[:, None] + np.linspace(0, 0.05, width)[None, :]
    return 0.95 - slope + rng.normal(0, 0.02, (height, width))


def images():
    """The handwritten digits, uint8 [1797, 8, 8]."""
    with gzip.open(DIGITS / "images.npy.gz") as packed:
        return np.load(packed)


def page(rng, height, width):
    """A grey picture [h, w] in 0..1 of a sheet with about a dozen digits of several sizes."""
    glyphs = images()
    canvas = paper(rng, height, width)
    for _ in range(12):
        scale = int(rng.integers(2, 7))
        top = int(rng.integers(0, max(1, height - 8 * scale)))
        left = int(rng.integers(0, max(1, width - 8 * scale)))
        paste(rng, canvas, glyphs[rng.integers(len(glyphs))], scale, top, left)
    return canvas.clip(0, 1).astype(np.float32)


def text_line(rng, height, width):
    """A grey picture [h, w] in 0..1 of one line of digits that fills the height."""
    glyphs = images()
    canvas = paper(rng, height, width)
    scale = max(1, (height - 8) // 8)
    for left in range(4, width - 8 * scale, 9 * scale):
        paste(rng, canvas, glyphs[rng.integers(len(glyphs))], scale, (height - 8 * scale) // 2,
              left)
    return canvas.clip(0, 1).astype(np.float32)


def coloured(rng, grey, channels):
    """[h, w] -> [channels, h, w] with a slight tint."""
    tint = rng.uniform(0.9, 1, (channels, 1, 1)).astype(np.float32)
    return grey[None] * tint


def speech_like(rng, samples, start, rate):
    """Sound in -1..1: a harmonic tone of wandering pitch that comes and goes, with noise."""
    t = (start + np.arange(samples)) / rate
    pitch = 140 + 20 * np.sin(2 * np.pi * 3 * t)
    tone = sum(np.sin(2 * np.pi * k * pitch * t) / k for k in range(1, 9))
    loudness = 0.25 * (1 + np.sin(2 * np.pi * 4 * t))
    return (loudness * tone * 0.3 + rng.normal(0, 0.01, samples)).astype(np.float32)


def photos(rng, shape, mean=IMAGENET_MEAN, deviation=IMAGENET_DEVIATION):
    n, channels, height, width = shape
    pictures = [coloured(rng, page(rng, height, width), channels) for _ in range(n)]
    return ((np.stack(pictures) - mean) / deviation).astype(np.float32)


def lines(rng, shape):
    n, channels, height, width = shape
    pictures = [coloured(rng, text_line(rng, height, width), channels) for _ in range(n)]
    return ((np.stack(pictures) - 0.5) / 0.5).astype(np.float32)


def token_inputs(rng, names, shape, vocabulary):
    """Token inputs by their usual names; every second text ends in padding."""
    batch, length = shape
    mask = np.ones(shape, np.int64)
    mask[1::2, length * 2 // 3 :] = 0
    ids = rng.integers(1000, vocabulary, shape) * mask
    segments = np.zeros(shape, np.int64)
    segments[:, length // 2 :] = mask[:, length // 2 :]
    positions = np.broadcast_to(np.arange(length), shape).copy()
    by_name = {
        "input_ids": ids, "attention_mask": mask, "token_type_ids": segments,
        "position_ids": positions
    }
    return {name: by_name[name].astype(np.int64) for name in names}


def audio_case(rng, spec):
    """A recording chunk by chunk, the recurrent state handed on: eight chunks at 16 kHz, then four
    at 8 kHz.

    The sampling rate selects a branch of the model's outermost If, and a chunk
    at 8 kHz is half as long.
    """
    carry = {"state": "stateN"} if "state" in spec else {"h": "hn", "c": "cn"}
    steps = []
    for rate, chunks in ((16000, 8), (8000, 4)):
        samples = spec["input"][1][1] * rate // 16000
        for k in range(chunks):
            steps.append({
                "input": speech_like(rng, samples, k * samples, rate)[None],
                "sr": np.array(rate, np.int64)
            })
    steps[0] |= {name: np.zeros(spec[name][1], np.float32) for name in carry}
    return Case(steps, carry)


def cached_text(rng, spec):
    """Four tokens of a text about a sound, one by one: the first by the branch without a cache,
    which also makes the keys and values of the sound that the others use.
    """
    states = rng.normal(0, 1, spec["encoder_hidden_states"][1]).astype(np.float32)
    past = {
        name: np.zeros(shape, dtype)
        for name, (dtype, shape) in spec.items() if name.startswith("past_key_values")
    }
    steps = []
    for k, token in enumerate([1, *rng.integers(3, 32768, 3)]):
        steps.append({"input_ids": np.array([[token]], np.int64), "encoder_hidden_states": states,
                      "use_cache_branch": np.array([k > 0]), **({} if k else past)})
    present = {name: name.replace("past_key_values", "present") for name in past}
    return Case(steps, {to: source for to, source in present.items() if ".decoder." in to},
                {to: source for to, source in present.items() if ".encoder." in to})


def file_bytes(rng, shape):
    """The beginning of a text file and its end, padded with 256 between, as magika wants them."""
    words = [b"package", b"func", b"return", b"if err != nil {", b"}", b"// comment", b"import"]
    text = b"\n".join(words[i] for i in rng.integers(0, len(words), 150))
    values = np.full(shape, 256, np.int32)
    half = shape[1] // 2
    head = np.frombuffer(text[:half], np.uint8)
    values[:, : len(head)] = head
    values[:, shape[1] - len(head) :] = head
    return values


def fetched_case(rng, recipe, spec):
    """Inputs for a fetched model; spec maps input names to (dtype, shape)."""
    if recipe == "audio-stream":
        return audio_case(rng, spec)
    if recipe == "text-with-cache":
        return cached_text(rng, spec)
    if recipe == "tokens":
        return Case([token_inputs(rng, spec, next(iter(spec.values()))[1], BERT_VOCABULARY)])
    ((name, (_, shape)),) = spec.items()
    if recipe == "page":
        value = photos(rng, shape)
    elif recipe == "page-bytes":
        value = np.round(photos(rng, shape, mean=0, deviation=1) * 255).astype(np.float32)
    elif recipe in ("text-line", "grey-text-line"):
        value = lines(rng, shape)
    elif recipe == "sound":
        value = np.stack([speech_like(rng, shape[1], 0, 16000) for _ in range(shape[0])])
    elif recipe == "features":
        value = rng.normal(0, 3, shape).astype(np.float32)
    elif recipe == "file-bytes":
        value = file_bytes(rng, shape)
    else:
        raise ValueError(f"no recipe {recipe!r}")
    return Case([{name: value}])


def digits_case():
    """A batch of 16 held-out digits."""
    rows = np.load(DIGITS / "heldout.npy")[:16]
    glyphs = images()[rows]
    return Case([{"image": (glyphs[:, None] / np.float32(16)).astype(np.float32)}])


def standard_case(rng, architecture, declared, texts=(2, 32)):
    """Inputs for a model of `weir model new`.

    declared lists (name, shape) with symbols as strings or None; texts is
    [batch, length] of token inputs.
    """
    names = [name for name, _ in declared]
    if "input_ids" in names:
        vocabulary = GPT2_VOCABULARY if architecture == "gpt2" else BERT_VOCABULARY
        return Case([token_inputs(rng, names, texts, vocabulary)])
    ((name, shape),) = declared
    side = 640 if architecture.startswith("yolo") else 224
    concrete = [
        d if isinstance(d, int) else fallback for d, fallback in zip(shape, (1, 3, side, side))
    ]
    if architecture.startswith("yolo"):
        return Case([{name: photos(rng, concrete, mean=0, deviation=1)}])
    return Case([{name: photos(rng, concrete)}])
