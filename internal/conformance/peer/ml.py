#!/usr/bin/env python3
"""Compare weir with ONNX Runtime on the operators of ai.onnx.ml.

Random models of each operator, and models that scikit-learn, LightGBM and
XGBoost train and their converters export, run in ONNX Runtime; models, inputs
and its outputs are written as test cases, and weir verify runs them twice: with
the device's kernels and by the operators' plain evaluations.

Left out, because weir follows ONNX's text where ONNX Runtime does not: TreeEnsemble's numbers for
SOFTMAX and LOGISTIC, which ONNX Runtime has the other way round (its model is given the other
number here); fractions that are looked up in sets of TreeEnsemble, which it cuts to integers; base
values of targets that no leaf of a row speaks of; two weights of a leaf for the only target; labels
of classifiers with two scored classes that are not 0 and 1, or with one class; the last of equal
keys in LabelEncoder 4; NaN keys in LabelEncoder 2; NaN in Binarizer, which it refuses; PROBIT
outside of (0, 1) and of a lone score of two classes.

Exit codes: 0 all agree; 1 some do not; 2 the command line is wrong or weir
cannot be built; 3 the peer cannot be installed.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import warnings

import environment

EXIT_DISAGREE = 1
EXIT_USAGE = 2

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "internal" / "conformance" / "testdata" / "ml.tar.xz"
REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements-ml.txt"

if __name__ == "__main__":
    environment.enter_or_exit(REQUIREMENTS)

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import exported  # noqa: E402

DOMAIN = "ai.onnx.ml"
POSTS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
WORDS = ["", "a", "bb", "Grüße", "\N{SNOWMAN}", "e", "f f", "zz"]


class Draw:
    """Random choices of one case."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def int(self, low, high):
        """An integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def floats(self, *shape, dtype=np.float32, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def features(self, rows, columns, missing=False):
        """An input of any numeric type, halves among it so that thresholds are met."""
        dtype = self.one(np.float32, np.float32, np.float64, np.int64, np.int32)
        x = np.round(self.rng.standard_normal((rows, columns)) * 4) / 2
        if missing and np.issubdtype(dtype, np.floating):
            x[self.rng.random(x.shape) < 0.2] = np.nan
        return x.astype(dtype)

    def rows(self):
        return self.one(1, 2, 3, 7, 33, 130)


def attributes_without_empties(attributes):
    """Lists that are empty have no type, and mean the same as no attribute."""
    return {k: v for k, v in attributes.items() if not (isinstance(v, list) and not v)}


def model(operator, version, inputs, outputs, **attributes):
    """A model of one operator: inputs are arrays, outputs element types (None for what ONNX
    infers)."""
    names = [f"x{i}" for i in range(len(inputs))]
    results = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(operator,
                            names,
                            results,
                            domain=DOMAIN,
                            **attributes_without_empties(attributes))
    graph = helper.make_graph([node], operator, [declared(n, x) for n, x in zip(names, inputs)], [
        helper.make_tensor_value_info(n, t, None)
        if isinstance(t, int) else onnx.ValueInfoProto(name=n, type=t)
        for n, t in zip(results, outputs)
    ])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def declared(name, x):
    if isinstance(x, dict):
        key, value = next(iter(x.items()))
        kind = helper.make_map_type_proto(
            TensorProto.STRING if isinstance(key, str) else TensorProto.INT64,
            helper.make_tensor_type_proto(element_type(np.asarray(value)), []))
        return onnx.ValueInfoProto(name=name, type=kind)
    return helper.make_tensor_value_info(name, element_type(x), [None] * x.ndim)


def element_type(x):
    return TensorProto.STRING if x.dtype.kind in "UO" else helper.np_dtype_to_tensor_dtype(x.dtype)


def tree(draw, number, features, modes, depth):
    """The nodes of one tree, as lists by attribute, and the numbers of its leaves."""
    nodes, leaves = [], []

    def grow(level):
        at = len(nodes)
        nodes.append(None)
        if level == depth or draw.int(0, 4) == 0 and level > 0:
            nodes[at] = ("LEAF", 0, 0.0, 0, 0)
            leaves.append(at)
        else:
            true, false = grow(level + 1), grow(level + 1)
            nodes[at] = (draw.one(*modes), draw.int(0,
                                                    features - 1), draw.int(-4, 4) / 2, true, false)
        return at

    grow(0 if draw.int(0, 9) else depth)
    mode, feature, value, true, false = map(list, zip(*nodes))
    return {
        "nodes_treeids": [number] * len(nodes), "nodes_nodeids": list(range(len(nodes))),
        "nodes_modes": mode, "nodes_featureids": feature, "nodes_values": value,
        "nodes_truenodeids": true, "nodes_falsenodeids": false
    }, leaves


def forest(draw, prefix, targets, per_leaf, signed):
    """Attributes of nodes and weights for a forest, and its number of features. per_leaf(draw) are
    the targets of a leaf."""
    features = draw.int(1, 6)
    modes = draw.one(
        ["BRANCH_LEQ"], ["BRANCH_LT"], ["BRANCH_GTE"], ["BRANCH_GT"], ["BRANCH_EQ"], ["BRANCH_NEQ"],
        ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
    out = {}
    weights = {
        f"{prefix}_treeids": [], f"{prefix}_nodeids": [], f"{prefix}_ids": [],
        f"{prefix}_weights": []
    }
    for number in range(draw.one(1, 2, 5, 20)):
        lists, leaves = tree(draw, number, features, modes, draw.int(1, 5))
        for name, values in lists.items():
            out.setdefault(name, []).extend(values)
        for leaf in leaves:
            for target in per_leaf(draw):
                weights[f"{prefix}_treeids"].append(number)
                weights[f"{prefix}_nodeids"].append(leaf)
                weights[f"{prefix}_ids"].append(target)
                weight = float(draw.floats()) if signed else float(draw.rng.random()) / 4
                weights[f"{prefix}_weights"].append(weight)
    if draw.int(0, 1):
        out["nodes_missing_value_tracks_true"] = [draw.int(0, 1) for _ in out["nodes_treeids"]]
    if draw.int(0, 3) == 0:
        out["nodes_hitrates"] = [1.0] * len(out["nodes_treeids"])
    return {**out, **weights}, features


def tree_regressor(draw):
    targets = draw.one(1, 1, 2, 4)
    everything = lambda _: list(range(targets))  # noqa: E731
    post = draw.one(*POSTS[:4])
    attributes, features = forest(draw, "target", targets, everything, signed=True)
    if draw.int(0, 1):
        attributes["base_values"] = [float(v) for v in draw.floats(targets)]
    x = draw.features(draw.rows(), features + draw.int(0, 2), missing=True)
    if x.dtype.kind == "i":
        x = x.astype(np.float32)  # all that ONNX Runtime has
    if x.dtype == np.float64 and draw.int(0, 1):
        as_tensors(attributes, "nodes_values", "target_weights", "base_values")
    m = model("TreeEnsembleRegressor",
              draw.one(1, 3) if not any(k.endswith("tensor") for k in attributes) else 3, [x],
              [TensorProto.FLOAT],
              n_targets=targets,
              aggregate_function=draw.one("SUM", "AVERAGE", "MIN", "MAX"),
              post_transform=post,
              **attributes)
    return m, [x]


def as_tensors(attributes, *names):
    for name in names:
        if values := attributes.pop(name, None):
            attributes[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(values, np.float64),
                                                                      name)


def tree_classifier(draw):
    classes = draw.one(2, 2, 3, 5)
    post = draw.one(*POSTS[:4])
    shape = draw.one("one", "both") if classes == 2 else draw.one("all", "some")
    lone = draw.int(0, 1)
    per_leaf = {
        "one": lambda _: [lone], "both": lambda _: [0, 1], "all": lambda _: list(range(classes)),
        "some": lambda d: [d.int(0, classes - 1)]
    }[shape]
    attributes, features = forest(draw, "class", classes, per_leaf, signed=draw.int(0, 1))
    base = draw.one(0, 0, classes) if classes > 2 else draw.one(
        0, 0, 2, 1 if shape == "one" and lone == 0 else 0)
    if base:
        attributes["base_values"] = [float(v) for v in draw.floats(base)]
    x = draw.features(draw.rows(), features + draw.int(0, 2), missing=True)
    if x.dtype == np.float64 and draw.int(0, 1):
        as_tensors(attributes, "nodes_values", "class_weights", "base_values")
    attributes.update(class_labels(draw, classes, "int64s", plain=shape == "both"))
    version = 3 if any(k.endswith("tensor") for k in attributes) else draw.one(1, 3)
    return model("TreeEnsembleClassifier",
                 version, [x], [label_type(attributes), TensorProto.FLOAT],
                 post_transform=post,
                 **attributes), [x]


def class_labels(draw, n, suffix, plain=False):
    if draw.int(0, 1):
        return {"classlabels_strings": WORDS[:n]}
    return {
        f"classlabels_{suffix}": list(range(n))
        if plain else [int(v) for v in draw.rng.permutation(n) * 3 - 2]
    }


def label_type(attributes):
    return TensorProto.STRING if "classlabels_strings" in attributes else TensorProto.INT64


def tree_ensemble(draw):
    """Version 5: the nodes are split into interior ones and leaves, by index."""
    dtype = draw.one(np.float32, np.float64)
    targets, features = draw.one(1, 2, 3), draw.int(1, 6)
    nodes, leaves, roots, sets = [], [], [], []

    def grow(level, depth):
        if level and (level == depth or draw.int(0, 4) == 0):
            leaves.append((float(draw.floats()), draw.int(0, targets - 1)))
            return len(leaves) - 1, 1
        at = len(nodes)
        nodes.append(None)
        mode = draw.int(0, 6)
        if mode == 6:
            sets.append((at, [
                float(v) for v in draw.rng.choice(np.arange(-4, 40), draw.int(1, 6), replace=False)
            ]))
        true, false = grow(level + 1, depth), grow(level + 1, depth)
        nodes[at] = (mode, draw.int(0, features - 1), draw.int(-4, 4) / 2, *true, *false)
        return at, 0

    for _ in range(draw.one(1, 2, 5, 20)):
        roots.append(grow(0, draw.int(1, 5))[0])
    mode, feature, value, true, true_leaf, false, false_leaf = map(list, zip(*nodes))
    members = [v for _, s in sorted(sets) for v in [*s, np.nan]]
    tensor = lambda name, values, t=dtype: numpy_helper.from_array(np.array(values, t), name
                                                                   )  # noqa: E731
    attributes = {
        "tree_roots": roots, "nodes_featureids": feature, "nodes_splits": tensor("splits", value),
        "nodes_modes": tensor("modes", mode, np.uint8), "nodes_truenodeids": true,
        "nodes_trueleafs": true_leaf, "nodes_falsenodeids": false, "nodes_falseleafs": false_leaf,
        "leaf_targetids": [t for _, t in leaves], "leaf_weights": tensor(
            "weights", [w for w, _ in leaves]), "n_targets": targets,
        "aggregate_function": draw.int(0, 3), "post_transform": draw.int(0, 3)
    }
    if members:
        attributes["membership_values"] = tensor("members", members)
    if draw.int(0, 1):
        attributes["nodes_missing_value_tracks_true"] = [draw.int(0, 1) for _ in nodes]
    x = np.round(draw.features(draw.rows(), features + draw.int(0, 2), missing=True)).astype(dtype)
    m = model("TreeEnsemble", 5, [x], [element_type(x)], **attributes)
    theirs = model("TreeEnsemble", 5, [x], [element_type(x)],
                   **{**attributes, "post_transform": [0, 2, 1, 3][attributes["post_transform"]]})
    return m, [x], theirs


def linear_classifier(draw):
    classes, features = draw.one(2, 2, 3, 5), draw.int(1, 8)
    scores = draw.one(1, 2) if classes == 2 else classes
    labels = class_labels(draw, classes, "ints")
    x = draw.features(draw.rows(), features)
    m = model("LinearClassifier",
              1, [x], [label_type(labels), TensorProto.FLOAT],
              coefficients=[float(v) for v in draw.floats(scores * features)],
              intercepts=[float(v) for v in draw.floats(scores)],
              post_transform=draw.one(*POSTS[:4]),
              multi_class=draw.int(0, 1),
              **labels)
    return m, [x]


def linear_regressor(draw):
    targets, features = draw.one(1, 2, 5), draw.int(1, 8)
    attributes = {
        "targets": targets, "coefficients": [float(v) for v in draw.floats(targets * features)],
        "post_transform": draw.one(*POSTS[:4])
    }
    if draw.int(0, 1):
        attributes["intercepts"] = [float(v) for v in draw.floats(targets)]
    x = draw.features(draw.rows(), features).astype(np.float32)
    return model("LinearRegressor", 1, [x], [TensorProto.FLOAT], **attributes), [x]


def kernel(draw):
    return {"kernel_type": draw.one("LINEAR", "POLY", "RBF", "SIGMOID"),
            "kernel_params": [draw.one(0.25, 0.5), draw.one(0.0, 1.0), draw.one(2.0, 3.0)]}


def svm_classifier(draw):
    classes, features = draw.one(2, 2, 3, 4), draw.int(1, 6)
    labels = class_labels(draw, classes, "ints")
    attributes = {**labels, **kernel(draw), "post_transform": draw.one(*POSTS[:4])}
    pairs = classes * (classes - 1) // 2
    if draw.int(0, 3):
        counts = [draw.int(1, 4) for _ in range(classes)]
        attributes.update(vectors_per_class=counts,
                          support_vectors=[float(v) for v in draw.floats(sum(counts) * features)],
                          coefficients=[float(v) for v in draw.floats(sum(counts) * (classes - 1))],
                          rho=[float(v) for v in draw.floats(pairs)])
        if draw.int(0, 1):
            attributes.update(prob_a=[-abs(float(v)) for v in draw.floats(pairs)],
                              prob_b=[float(v) for v in draw.floats(pairs)])
    else:
        attributes.update(coefficients=[float(v) for v in draw.floats(classes * features)],
                          rho=[float(draw.floats())])
    x = draw.features(draw.rows(), features)
    return model("SVMClassifier", 1, [x], [label_type(labels), TensorProto.FLOAT],
                 **attributes), [x]


def svm_regressor(draw):
    vectors, features = draw.one(0, 1, 5), draw.int(1, 6)
    x = draw.features(draw.rows(), features).astype(np.float32)
    m = model("SVMRegressor",
              1, [x], [TensorProto.FLOAT],
              n_supports=vectors,
              support_vectors=[float(v) for v in draw.floats(vectors * features)],
              coefficients=[float(v) for v in draw.floats(vectors or features)],
              rho=[float(draw.floats())],
              one_class=draw.int(0, 1),
              **kernel(draw))
    return m, [x]


def scaler(draw):
    columns = draw.int(1, 6)
    n = draw.one(1, columns)
    x = draw.features(draw.rows(), columns, missing=True)
    return model("Scaler",
                 1, [x], [TensorProto.FLOAT],
                 offset=[float(v) for v in draw.floats(n)],
                 scale=[float(v) for v in draw.floats(n)]), [x]


def normalizer(draw):
    x = draw.features(draw.rows(), draw.int(1, 6))
    x = draw.one(x, x[0])
    return model("Normalizer", 1, [x], [TensorProto.FLOAT], norm=draw.one("MAX", "L1", "L2")), [x]


def imputer(draw):
    columns = draw.int(1, 6)
    n = draw.one(1, columns)
    dtype = draw.one(np.float32, np.int64)
    x = draw.features(draw.rows(), columns, missing=dtype == np.float32).astype(dtype)
    if x.dtype == np.int64:
        return model("Imputer",
                     1, [x], [TensorProto.INT64],
                     imputed_value_int64s=[draw.int(-9, 9) for _ in range(n)],
                     replaced_value_int64=draw.int(-2, 2)), [x]
    return model("Imputer",
                 1, [x], [TensorProto.FLOAT],
                 imputed_value_floats=[float(v) for v in draw.floats(n)],
                 replaced_value_float=draw.one(float("nan"), 0.5, 0.0)), [x]


def binarizer(draw):
    x = draw.features(draw.rows(), draw.int(1, 6)).astype(np.float32)
    return model("Binarizer", 1, [x], [TensorProto.FLOAT], threshold=draw.one(0.0, 0.5, -1.0)), [x]


def feature_vectorizer(draw):
    rows, dtype = draw.rows(), draw.one(np.float32, np.float64, np.int64, np.int32)
    xs = [draw.features(rows, draw.int(1, 4)).astype(dtype) for _ in range(draw.int(1, 4))]
    widths = [max(1, x.shape[1] + draw.one(0, 0, 1, -1)) for x in xs]
    return model("FeatureVectorizer", 1, xs, [TensorProto.FLOAT], inputdimensions=widths), xs


def array_feature_extractor(draw):
    x = draw.features(draw.rows(), draw.int(1, 6))
    x = draw.one(x, x[0], np.stack([x, x]), x.astype(str).astype(object))
    at = draw.rng.integers(0, x.shape[-1], draw.one((1,), (3,), (1, 4))).astype(np.int64)
    return model("ArrayFeatureExtractor", 1, [x, at], [element_type(x)]), [x, at]


def words(draw, *shape):
    return np.array([draw.one(*WORDS, "unknown") for _ in range(int(np.prod(shape)))],
                    dtype=object).reshape(shape)


def one_hot_encoder(draw):
    if draw.int(0, 1):
        x = words(draw, draw.rows(), draw.int(1, 3))
        return model("OneHotEncoder",
                     1, [x], [TensorProto.FLOAT],
                     cats_strings=WORDS[:draw.int(1, 7)]), [x]
    x = draw.features(draw.rows(), draw.int(1, 3)).astype(draw.one(np.float32, np.float64,
                                                                   np.int64))
    return model("OneHotEncoder",
                 1, [x], [TensorProto.FLOAT],
                 cats_int64s=[int(v) for v in draw.rng.permutation(7) - 3]), [x]


def keys_and_values(draw):
    """Attributes of LabelEncoder 2 or 4, and an input that meets some keys."""
    n = draw.int(1, 7)
    kinds = {
        "int64s": [int(v) for v in draw.rng.permutation(9)[:n] - 4],
        "floats": [float(v) / 2 for v in draw.rng.permutation(9)[:n] - 4], "strings": WORDS[:n]
    }
    kind, to = draw.one(*kinds), draw.one(*kinds)
    values = {
        "int64s": [draw.int(-99, 99) for _ in range(n)],
        "floats": [float(v) for v in draw.floats(n)], "strings": WORDS[-n:]
    }
    attributes = {f"keys_{kind}": kinds[kind], f"values_{to}": values[to]}
    if draw.int(0, 1):
        attributes.update({
            "int64s": {"default_int64": 7}, "floats": {"default_float": 0.5},
            "strings": {"default_string": "none"}
        }[to])
    x = words(draw, draw.rows(), 2) if kind == "strings" else draw.features(draw.rows(), 2).astype(
        {"int64s": np.int64, "floats": np.float32}[kind])
    return attributes, x, {
        "int64s": TensorProto.INT64, "floats": TensorProto.FLOAT, "strings": TensorProto.STRING
    }[to]


def label_encoder(draw):
    version = draw.one(1, 2, 4)
    if version > 1:
        attributes, x, kind = keys_and_values(draw)
        return model("LabelEncoder", version, [x], [kind], **attributes), [x]
    if draw.int(0, 1):
        x = words(draw, draw.rows())
        return model("LabelEncoder",
                     1, [x], [TensorProto.INT64],
                     classes_strings=WORDS[:draw.int(1, 7)],
                     default_int64=-5), [x]
    x = draw.rng.integers(-2, 8, draw.rows()).astype(np.int64)
    return model("LabelEncoder",
                 1, [x], [TensorProto.STRING],
                 classes_strings=WORDS[:draw.int(1, 7)],
                 default_string="none"), [x]


def category_mapper(draw):
    n = draw.int(1, 7)
    attributes = {
        "cats_strings": WORDS[:n], "cats_int64s": [int(v) for v in draw.rng.permutation(n) - 2]
    }
    if draw.int(0, 1):
        x = words(draw, draw.rows())
        return model("CategoryMapper", 1, [x], [TensorProto.INT64], default_int64=-5,
                     **attributes), [x]
    x = draw.rng.integers(-4, 8, draw.rows()).astype(np.int64)
    return model("CategoryMapper",
                 1, [x], [TensorProto.STRING],
                 default_string="none",
                 **attributes), [x]


def zip_map(draw):
    n = draw.int(1, 6)
    labels = class_labels(draw, n, "int64s")
    x = draw.floats(draw.rows(), n)
    pairs = helper.make_map_type_proto(label_type(labels),
                                       helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    return model("ZipMap", 1, [x], [helper.make_sequence_type_proto(pairs)], **labels), [x]


def dict_vectorizer(draw):
    if draw.int(0, 1):
        x = {w: np.float32(draw.floats()) for w in WORDS[:draw.int(1, 6)]}
        return model("DictVectorizer",
                     1, [x], [TensorProto.FLOAT],
                     string_vocabulary=WORDS[draw.int(0, 4):]), [x]
    x = {int(k): np.float32(draw.floats()) for k in draw.rng.permutation(9)[:draw.int(1, 6)]}
    return model("DictVectorizer",
                 1, [x], [TensorProto.FLOAT],
                 int64_vocabulary=[int(v) for v in draw.rng.permutation(9)[:5]]), [x]


def cast_map(draw):
    to = draw.one("TO_FLOAT", "TO_STRING", "TO_INT64")
    keys = sorted(int(v) for v in draw.rng.permutation(9)[:draw.int(1, 6)])
    x = {k: np.float32(draw.floats() * 3) for k in keys}
    kind = {
        "TO_FLOAT": TensorProto.FLOAT, "TO_STRING": TensorProto.STRING,
        "TO_INT64": TensorProto.INT64
    }[to]
    return model("CastMap",
                 1, [x], [kind],
                 cast_to=to,
                 map_form=draw.one("DENSE", "SPARSE"),
                 max_map=draw.int(1, 9)), [x]


OPERATORS = {
    f.__name__: f
    for f in (tree_regressor, tree_classifier, tree_ensemble, linear_classifier, linear_regressor,
              svm_classifier, svm_regressor, scaler, normalizer, imputer, binarizer,
              feature_vectorizer, array_feature_extractor, one_hot_encoder, label_encoder,
              category_mapper, zip_map, dict_vectorizer, cast_map)
}


def run_peer(m, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(m.SerializeToString(),
                                           options,
                                           providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs)))


def proto(value):
    """A value as the ONNX project's test data has it."""
    if isinstance(value, dict):
        return map_proto(value)
    if isinstance(value, list):
        sequence = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP)
        sequence.map_values.extend(map_proto(v) for v in value)
        return sequence
    return numpy_helper.from_array(np.asarray(value))


def map_proto(pairs):
    m = onnx.MapProto()
    if isinstance(next(iter(pairs)), str):
        m.key_type = TensorProto.STRING
        m.string_keys.extend(k.encode() for k in pairs)
    else:
        m.key_type = TensorProto.INT64
        m.keys.extend(pairs)
    m.values.elem_type = onnx.SequenceProto.TENSOR
    m.values.tensor_values.extend(numpy_helper.from_array(np.float32(v)) for v in pairs.values())
    return m


def write_case(directory, m, inputs, outputs, rtol=1e-4, atol=1e-5):
    data = directory / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(m, directory / "model.onnx")
    for prefix, values in (("input", inputs), ("output", outputs)):
        for i, value in enumerate(values):
            (data / f"{prefix}_{i}.pb").write_bytes(proto(value).SerializeToString())
    (directory / "data.json").write_text(json.dumps({"rtol": rtol, "atol": atol}))


def write_cases(directory, options):
    """Write the random cases; return how many, and what the peer refused."""
    refused, written = {}, 0
    for name, make in OPERATORS.items():
        if options.operators and name not in options.operators:
            continue
        for k in range(options.count):
            m, inputs, *theirs = make(Draw([options.seed, k, *name.encode()]))
            try:
                outputs = run_peer(theirs[0] if theirs else m, inputs)
            except Exception as error:  # the peer's exceptions share no base class
                refused.setdefault(f"{name}: {str(error)[:200]}", []).append(k)
                continue
            write_case(directory / name / f"{k:04}", m, inputs, outputs)
            written += 1
    return written, refused


def write_exports(directory):
    """Write the cases of trained models; return how many, and what could not be made."""
    failed, written = {}, 0
    warnings.simplefilter("ignore")  # what the trainers will do in later versions
    for name, make in exported.MODELS.items():
        try:
            m, inputs = make()
            outputs = run_peer(m, inputs)
        except Exception as error:  # converters raise anything
            failed[f"{name}: {type(error).__name__}: {str(error)[:200]}"] = [name]
            continue
        write_case(directory / "exported" / name, m, inputs, outputs, rtol=1e-3, atol=1e-4)
        written += 1
    return written, failed


def build_weir(binary):
    done = subprocess.run(["go", "build", "-o", binary, "./cmd/weir"],
                          cwd=ROOT,
                          capture_output=True,
                          text=True)
    if done.returncode != 0:
        print(f"weir does not build:\n{done.stderr.strip()}", file=sys.stderr)
        return False
    return True


def verify(binary, directory, *flags):
    """Run weir verify; return the cases that did not pass."""
    done = subprocess.run([binary, "verify", directory, "--json", *flags],
                          capture_output=True,
                          text=True)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return [{"name": "all", "detail": done.stderr.strip()}]
    return [c for c in report["cases"] if c["status"] != "passed"]


def write_golden(directory):
    """Pack the cases, in the order of their names and without times, so that equal cases give equal
    bytes."""
    GOLDEN.parent.mkdir(exist_ok=True)
    with tarfile.open(GOLDEN, "w:xz", preset=9) as archive:
        for file in sorted(p for p in directory.rglob("*") if p.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(directory)))
            entry.size = file.stat().st_size
            with file.open("rb") as f:
                archive.addfile(entry, f)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators",
                        nargs="*",
                        metavar="OPERATOR",
                        help=f"which operators, of {', '.join(OPERATORS)} (default: all)")
    parser.add_argument("--count",
                        type=int,
                        default=50,
                        help="random models of each operator (default: %(default)s)")
    parser.add_argument("--seed",
                        type=int,
                        default=1,
                        help="of the random models (default: %(default)s)")
    parser.add_argument("--no-exports", action="store_true", help="leave out the trained models")
    parser.add_argument("--golden",
                        action="store_true",
                        help=f"write {GOLDEN.relative_to(ROOT)} too; use a small --count")
    parser.add_argument("--keep",
                        type=pathlib.Path,
                        metavar="DIR",
                        help="keep the cases in this folder, which must not be there")
    options = parser.parse_args()
    if unknown := set(options.operators) - set(OPERATORS):
        parser.error(f"no operator named {', '.join(sorted(unknown))}")
    return options


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory(dir=environment.cache_directory()) as scratch:
        binary = pathlib.Path(scratch) / "weir"
        if not build_weir(binary):
            return EXIT_USAGE
        directory = options.keep or pathlib.Path(scratch) / "cases"
        directory.mkdir()
        written, refused = write_cases(directory, options)
        if not options.no_exports and not options.operators:
            more, failed = write_exports(directory)
            written, refused = written + more, {**refused, **failed}
        for reason, cases in refused.items():
            print(f"not compared, {len(cases)} times: {reason}")
        if options.golden:
            write_golden(directory)
        bad = 0
        for how, flags in (("kernels", []), ("plain evaluation", ["--reference"])):
            failed = verify(binary, directory, *flags)
            bad += len(failed)
            for c in failed:
                print(f"{how}: {c['name']}: {c.get('detail', '')}")
            print(
                f"{how}: {written - len(failed)} of {written} cases agree with ONNX Runtime "
                f"{onnxruntime.__version__}"
            )
    return EXIT_DISAGREE if bad else 0


if __name__ == "__main__":
    sys.exit(main())
