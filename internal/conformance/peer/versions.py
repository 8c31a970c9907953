"""Write versions.tar.xz, in ../testdata: cases of operator versions that ONNX's backend tests
do not have.

    python internal/conformance/peer/versions.py internal/conformance/testdata/versions.tar.xz

Each case is a folder with model.onnx and test_data_set_0 as in onnx/backend/test/data. Expected
outputs are ONNX Runtime's, or, for versions that it does not run, those that a function beside the
case computes in NumPy from the text of Changelog.md.
"""

import io
import sys
import tarfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(20)
cases = []


def f(*shape):
    return rng.normal(size=shape).astype(np.float32)


def case(name, op, opset, inputs, expected=None, constants=(), outputs=1, **attrs):
    """One case. constants are the numbers of inputs that are initialisers; expected computes the
    outputs from the inputs."""
    inputs = [x if x is None else np.asarray(x) for x in inputs]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    outs = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, outs, **attrs)
    values = [(n, x) for n, x in zip(names, inputs, strict=True) if n]
    fixed = {names[i] for i in constants}
    graph = helper.make_graph(
        [node],
        name,
        [value(n, x) for n, x in values if n not in fixed or opset < 4],
        [helper.make_empty_tensor_value_info(o) for o in outs],
        [numpy_helper.from_array(x, n) for n, x in values if n in fixed],
    )
    model = helper.make_model(graph,
                              opset_imports=[helper.make_opsetid("", opset)],
                              ir_version=8 if opset >= 7 else 3)
    fed = {n: x for n, x in values if n not in fixed}
    if expected is None:
        want = run(model, fed)
    else:
        want = expected(*[x for x in inputs if x is not None])
        want = list(want) if isinstance(want, tuple) else [want]
    del model.graph.output[:]
    model.graph.output.extend(value(o, w) for o, w in zip(outs, want, strict=True))
    cases.append(
        (f"{op.lower()}_{opset}_{name}", model, list(fed.items()), list(zip(outs, want,
                                                                            strict=True))))


def value(name, x):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def run(model, fed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(),
                                        options,
                                        providers=["CPUExecutionProvider"]).run(None, fed)


def softmax2d(axis):
    """Softmax as it was before version 13: over all axes from axis on."""

    def compute(x):
        flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
        e = np.exp(flat - flat.max(1, keepdims=True))
        return (e / e.sum(1, keepdims=True)).reshape(x.shape)

    return compute


def hardmax2d(axis):
    def compute(x):
        flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
        return np.eye(flat.shape[1], dtype=x.dtype)[flat.argmax(1)].reshape(x.shape)

    return compute


def batchnorm(x, scale, bias, mean, var, epsilon=1e-5):
    s = (1, -1) + (1,) * (x.ndim - 2)
    return scale.reshape(s) * (x - mean.reshape(s)) / np.sqrt(var.reshape(s) +
                                                              epsilon) + bias.reshape(s)


def training(x, scale, bias, mean, var):
    axes = (0,) + tuple(range(2, x.ndim))
    return batchnorm(x, scale, bias, x.mean(axes), x.var(axes))


def oldest():
    """Opset 1 to 6, which ONNX Runtime does not run."""
    x, b = f(2, 3, 4), f(3)
    for opset in (1, 6):
        case("axis", "Add", opset, [x, b], lambda x, b: x + b[:, None], broadcast=1, axis=1)
        case("suffix", "Sub", opset, [x, f(3, 4)], lambda x, b: x - b, broadcast=1)
        case("axes",
             "Mul",
             opset, [f(2, 3, 4, 5), f(3, 4)],
             lambda x, b: x * b[:, :, None],
             broadcast=1,
             axis=1)
        case("last", "Div", opset, [x, f(4)], lambda x, b: x / b, broadcast=1, axis=-1)
        case("channels", "PRelu", opset, [x, b], lambda x, s: np.where(x < 0, x * s[:, None], x))
        case("broadcast",
             "Gemm",
             opset, [f(2, 3), f(3, 4), f(4)],
             lambda a, b, c: 0.5 * a @ b + 2 * c,
             alpha=0.5,
             beta=2.0,
             broadcast=1)
        bn = [f(2, 3, 4), f(3), f(3), f(3), abs(f(3))]
        case("inference", "BatchNormalization", opset, bn, batchnorm, is_test=1)
        case("training", "BatchNormalization", opset, bn, training, is_test=0)
        case("inference", "Dropout", opset, [x], lambda x: x, is_test=1)
        case("bounds", "Clip", opset, [x], lambda x: np.clip(x, -0.5, 0.25), min=-0.5, max=0.25)
        case("same", "Max", opset, [x, -x], np.maximum)
        case("same", "Mean", opset, [x, f(2, 3, 4)], lambda a, b: (a + b) / 2)
        case("defaults", "Selu", opset, [x],
             selu(*((1.6732, 1.0507) if opset < 6 else (1.6732632, 1.0507010))))
        case("slope",
             "LeakyRelu",
             opset, [x],
             lambda x: np.where(x < 0,
                                np.float32(0.25) * x, x),
             alpha=0.25)
    case("consumed", "Relu", 1, [x], lambda x: np.maximum(x, 0), consumed_inputs=[0])
    case("axis", "Pow", 1, [abs(x), b], lambda x, b: x ** b[:, None], broadcast=1, axis=1)
    case("axis", "Greater", 1, [x, b], lambda x, b: x > b[:, None], broadcast=1, axis=1)
    case("axis", "And", 1, [x > 0, b > 0], lambda x, b: x & b[:, None], broadcast=1, axis=1)
    case("name", "Cast", 1, [4 * x], lambda x: x.astype(np.int32), to="INT32")
    case("default", "Concat", 1, [x, f(2, 1, 4)], lambda a, b: np.concatenate((a, b), 1))
    case("paddings",
         "Pad",
         1, [f(2, 2)],
         lambda x: np.pad(x, ((0, 1), (2, 0)), constant_values=7),
         paddings=[0, 2, 1, 0],
         value=7.0)
    case("attribute", "Reshape", 1, [x], lambda x: x.reshape(2, 12), shape=[0, -1])
    case("attribute",
         "Split",
         1, [f(5, 2)],
         lambda x: (x[:2], x[2:]),
         outputs=2,
         axis=0,
         split=[2, 3])
    case("input",
         "Split",
         1, [f(2, 5), np.array([4, 1], np.float32)],
         lambda x, s: (x[:, :4], x[:, 4:]), [1],
         outputs=2,
         axis=1)
    case("axis", "Tile", 1, [f(2, 3), np.array([2], np.float32),
                             np.array([1], np.float32)], lambda x, t, a: np.tile(x, (1, 2)), [1, 2])
    case("nearest",
         "Upsample",
         1, [f(1, 2, 2, 3)],
         lambda x: x.repeat(2, 2).repeat(3, 3),
         height_scale=2.0,
         width_scale=3.0)
    case("float_p",
         "GlobalLpPool",
         1, [f(2, 3, 4)],
         lambda x: (abs(x)**1.5).sum(2, keepdims=True)**(1 / 1.5),
         p=1.5)
    case("float_p",
         "LpPool",
         1, [f(1, 1, 4)],
         lambda x: np.stack([(abs(x[..., i:i + 2])**1.5).sum(-1)**(1 / 1.5) for i in range(3)], -1),
         p=1.5,
         kernel_shape=[2])
    case("flat", "Softmax", 1, [x], softmax2d(1))
    case("flat", "Hardmax", 1, [x], hardmax2d(1))
    case("attribute",
         "TopK",
         1, [x],
         lambda x: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2]),
         outputs=2,
         k=2,
         axis=1)
    case("attribute", "Unsqueeze", 1, [x], lambda x: x[:, None], axes=[1])
    case("attribute", "Slice", 1, [x], lambda x: x[:, 1:3], axes=[1], starts=[1], ends=[99])


def selu(alpha, gamma):
    return lambda x: np.where(x <= 0, gamma * alpha * (np.exp(x) - 1), gamma * x).astype(np.float32)


def later():
    """Versions of opset 7 and later that the backend tests skip, by ONNX Runtime."""
    x = f(2, 3, 4)
    image = f(1, 2, 4, 5)
    scales = np.array([1, 1, 2, 1.5], np.float32)
    case("linear", "Upsample", 7, [image], mode="linear", scales=[1.0, 1.0, 2.0, 2.0])
    case("nearest", "Upsample", 9, [image, scales], mode="nearest")
    case("linear", "Resize", 10, [image, scales], mode="linear")
    case("nearest", "Resize", 10, [image, np.array([1, 1, 0.5, 0.6], np.float32)], mode="nearest")
    case("mask", "Dropout", 7, [x])
    case("plain", "Dropout", 10, [x])
    case("input", "TopK", 10, [x, np.array([2], np.int64)], outputs=2, axis=1)
    case("flat", "Softmax", 11, [x], softmax2d(1))
    case("flat", "LogSoftmax", 11, [x], lambda x: np.log(softmax2d(2)(x)), axis=2)
    case("flat", "Hardmax", 11, [x], hardmax2d(1))
    case("input", "Slice", 10,
         [x, np.array([3, 1]),
          np.array([0, 9]),
          np.array([-1, 1]),
          np.array([-2, 1])])
    case("bounds", "Clip", 11, [x, np.float32(-0.5), None])
    case("attribute",
         "Pad",
         2, [x],
         lambda x: np.pad(x, ((0, 0), (1, 0), (0, 2)), "edge"),
         pads=[0, 1, 0, 0, 0, 2],
         mode="edge")
    case("reflect", "Pad", 11, [x, np.array([0, 1, 0, 0, 0, 2])], mode="reflect")
    case("spatial", "BatchNormalization", 7, [x, f(3, 4), f(3, 4), f(3, 4), abs(f(3, 4))],
         lambda x, s, b, m, v: s * (x - m) / np.sqrt(v + np.float32(1e-5)) + b, spatial=0)
    case("plain", "BatchNormalization", 9, [x, f(3), f(3), f(3), abs(f(3))])
    case("negative", "Scatter", 9, [x, np.array([[[0, 3]]]), f(1, 1, 2)], axis=2)
    case("attribute", "Split", 2, [x], outputs=2, axis=2, split=[1, 3])
    case("attribute", "Unsqueeze", 11, [x], axes=[0, -1])
    case("attribute", "Squeeze", 11, [f(1, 2, 1)], axes=[0])
    case("attribute", "ReduceSum", 11, [x], axes=[0, -1], keepdims=0)
    case("flat", "ReduceMax", 12, [x], keepdims=0)
    case("integers", "Mod", 10, [np.array([-5, 5, -7], np.int32), np.array([3, -3, 7], np.int32)])
    case("unit", "Gemm", 7, [f(3, 2), f(3, 4), f(1, 4)], transA=1, alpha=0.5)
    case("scalar", "Gemm", 11, [f(2, 3), f(3, 4)])
    for opset in (7, 14):
        case("reset",
             "GRU",
             opset,
             [f(3, 2, 2), f(1, 6, 2), f(1, 6, 2), f(1, 12)],
             outputs=2,
             hidden_size=2,
             linear_before_reset=1)
        case("plain",
             "GRU",
             opset,
             [f(3, 2, 2), f(1, 6, 2), f(1, 6, 2), f(1, 12)],
             outputs=2,
             hidden_size=2)
        case("clip",
             "LSTM",
             opset, [
                 f(3, 2, 2),
                 f(2, 8, 2),
                 f(2, 8, 2),
                 f(2, 16),
                 np.array([3, 2], np.int32),
                 f(2, 2, 2),
                 f(2, 2, 2),
                 f(2, 6)
             ],
             outputs=3,
             hidden_size=2,
             direction="bidirectional",
             clip=0.5)
        case("reverse",
             "RNN",
             opset, [f(3, 2, 2), f(1, 3, 2), f(1, 3, 3)],
             outputs=2,
             hidden_size=3,
             direction="reverse",
             activations=["Relu"])
    case("plain",
         "MaxRoiPool",
         7,
         [f(2, 2, 6, 7),
          np.array([[0, 1, 1, 5, 4], [1, 0, 2, 6, 2], [1, 5, 5, 3, 3]], np.float32)],
         pooled_shape=[2, 3])
    rois = np.array([[0.5, 1, 4, 3], [-1, 0, 6.5, 5]], np.float32)
    case("average",
         "RoiAlign",
         10, [f(2, 2, 6, 7), rois, np.array([0, 1])],
         output_height=2,
         output_width=3)
    case("max",
         "RoiAlign",
         16, [f(2, 2, 6, 7), rois, np.array([0, 1])],
         output_height=2,
         output_width=3,
         mode="max",
         sampling_ratio=2)
    case("batch", "Det", 11, [f(2, 3, 3)])
    case("prime",
         "DFT",
         17, [f(2, 67, 1)],
         lambda x: parts(np.fft.fft(x[..., 0].astype(np.float64))),
         axis=1)
    case("cut", "DFT", 20, [f(2, 7, 2), np.array(5), np.array(1)], inverse=1)
    case("hann", "STFT", 17, [f(1, 20, 1), np.array(4), np.hanning(8).astype(np.float32)], stft)
    case("matrix", "MelWeightMatrix", 17,
         [np.array(8), np.array(32),
          np.array(8000),
          np.float32(50),
          np.float32(3000)])
    case("symmetric", "HannWindow", 17, [np.array(9)], periodic=0)
    case("float64", "BlackmanWindow", 17, [np.array(9)], output_datatype=TensorProto.DOUBLE)
    case("names",
         "GridSample",
         16, [image, f(1, 3, 3, 2)],
         mode="bilinear",
         padding_mode="reflection")
    case("groups", "GroupNormalization", 18, [f(2, 4, 3), f(2), f(2)],
         lambda x, s, b: groups(x, 2, s.repeat(2), b.repeat(2)), num_groups=2)
    case("strides",
         "Col2Im",
         18, [f(1, 8, 6), np.array([5, 5]), np.array([2, 2])],
         strides=[2, 1],
         pads=[1, 0, 0, 0][:4],
         dilations=[1, 3])
    case("groups",
         "DeformConv",
         19,
         [f(1, 4, 4, 5), f(2, 2, 2, 2),
          f(1, 16, 3, 4), f(2), f(1, 8, 3, 4)],
         group=2,
         offset_group=2)
    case("skewed", "AffineGrid", 20, [f(2, 2, 3), np.array([2, 1, 3, 4])], align_corners=1)
    case("indices",
         "MaxUnpool",
         9, [f(1, 1, 2, 2), np.array([[[[5, 7], [8, 15]]]])],
         kernel_shape=[2, 2],
         strides=[2, 2])
    case("trilinear",
         "Resize",
         11, [f(1, 1, 2, 3, 2),
              np.array([], np.float32),
              np.array([1, 1, 1.5, 2, 1], np.float32)],
         mode="linear")
    case("cubic",
         "Resize",
         13, [image, None, np.array([1, 1, 1.5, 0.8], np.float32)],
         mode="cubic",
         coordinate_transformation_mode="pytorch_half_pixel")


def parts(x):
    return np.stack((x.real, x.imag), -1).astype(np.float32)


def stft(x, step, window):
    frames = [
        x[:, i:i + len(window), 0].astype(np.float64) * window
        for i in range(0, x.shape[1] - len(window) + 1, int(step))
    ]
    return parts(np.fft.rfft(np.stack(frames, 1)))


def groups(x, n, scale, bias):
    flat = x.reshape(x.shape[0], n, -1)
    flat = (flat -
            flat.mean(2, keepdims=True)) / np.sqrt(flat.var(2, keepdims=True) + np.float32(1e-5))
    return flat.reshape(x.shape) * scale[:, None] + bias[:, None]


def main():
    oldest()
    later()
    with tarfile.open(sys.argv[1], "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as z:

        def put(path, message):
            data = message.SerializeToString()
            info = tarfile.TarInfo(path)
            info.size = len(data)
            z.addfile(info, io.BytesIO(data))

        for name, model, inputs, outputs in cases:
            put(f"{name}/model.onnx", model)
            for kind, values in (("input", inputs), ("output", outputs)):
                for i, (n, x) in enumerate(values):
                    put(f"{name}/test_data_set_0/{kind}_{i}.pb",
                        numpy_helper.from_array(np.asarray(x), n))
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
