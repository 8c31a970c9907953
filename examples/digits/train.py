#!/usr/bin/env python3
"""Train the digits classifier and write it with its data.

Data: Optical Recognition of Handwritten Digits (E. Alpaydin and C. Kaynak,
1998, UCI Machine Learning Repository), the 1,797 images that scikit-learn
carries as load_digits. 360 of them, drawn evenly over the ten classes with a
fixed seed, are held out: training never sees them.

Network: three 3x3 convolutions (16, 32 and 64 channels), each with batch
normalization and a rectifier, one max pooling, global average pooling and a
linear layer; trained with cross-entropy and Adam on images shifted at random
by up to one pixel. Written in numpy, gradients included, so that every step
can be read here.

Writes next to itself digits.onnx, images.npy.gz, labels.npy and heldout.npy, and
prints the held-out accuracy that ONNX Runtime measures on the file written.
"""

import gzip
import importlib.metadata
import os
import pathlib
import sys

# One thread: a sum split over several threads would round differently from run to run.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

HERE = pathlib.Path(__file__).resolve().parent


def check_versions():
    """Refuse to run with other versions than the pinned ones."""
    for line in (HERE / "requirements.txt").read_text().split():
        name, version = line.split("==")
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = "not installed"
        if installed != version:
            sys.exit(
                f"{name} is {installed}, want {version}: pip install -r {HERE / 'requirements.txt'}"
            )


check_versions()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402

SEED = 1998
HELD_OUT = 360
EPOCHS = 40
BATCH = 64
LEARNING_RATE = 4e-3
EPSILON = 1e-5  # batch normalization's, as PyTorch has it
MOMENTUM = 0.9  # share of the old running statistics that is kept at each step


class Convolution:
    """A 3x3 convolution with one pixel of zero padding and no bias, NCHW."""

    def __init__(self, rng, channels_in, channels_out):
        deviation = np.sqrt(2 / (9 * channels_in))  # He et al. 2015, section 2.2
        self.weight = rng.normal(0, deviation, (channels_out, channels_in, 3, 3)).astype(np.float32)

    def parameters(self):
        return {"weight": self.weight}

    def forward(self, x):
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        self.shape = x.shape
        self.columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * 9)
        product = self.columns @ self.weight.reshape(len(self.weight), -1).T
        return product.reshape(n, h, w, -1).transpose(0, 3, 1, 2)

    def backward(self, gradient):
        n, c, h, w = self.shape
        rows = gradient.transpose(0, 2, 3, 1).reshape(n * h * w, -1)
        self.gradients = {"weight": (rows.T @ self.columns).reshape(self.weight.shape)}
        columns = (rows @ self.weight.reshape(len(self.weight), -1)).reshape(n, h, w, c, 3, 3)
        padded = np.zeros((n, c, h + 2, w + 2), np.float32)
        for i in range(3):
            for j in range(3):
                padded[:, :, i : i + h, j : j + w] += columns[..., i, j].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]


class BatchNormalization:
    """Batch normalization over N, H and W (Ioffe and Szegedy 2015, algorithm 1)."""

    def __init__(self, channels):
        self.scale = np.ones(channels, np.float32)
        self.shift = np.zeros(channels, np.float32)
        self.mean = np.zeros(channels, np.float32)
        self.variance = np.ones(channels, np.float32)

    def parameters(self):
        return {"scale": self.scale, "shift": self.shift}

    def forward(self, x):
        mean = x.mean((0, 2, 3))
        variance = x.var((0, 2, 3))
        self.mean += (1 - MOMENTUM) * (mean - self.mean)
        self.variance += (1 - MOMENTUM) * (variance - self.variance)
        self.inverse = 1 / np.sqrt(variance + EPSILON)
        self.normal = (x - mean[:, None, None]) * self.inverse[:, None, None]
        return self.normal * self.scale[:, None, None] + self.shift[:, None, None]

    def backward(self, gradient):
        self.gradients = {
            "scale": (gradient * self.normal).sum((0, 2, 3)), "shift": gradient.sum((0, 2, 3))
        }
        count = gradient.size / gradient.shape[1]
        centred = (
            gradient
            - self.gradients["shift"][:, None, None] / count
            - self.normal * self.gradients["scale"][:, None, None] / count
        )
        return centred * (self.scale * self.inverse)[:, None, None]


class Rectifier:
    def parameters(self):
        return {}

    def forward(self, x):
        self.positive = x > 0
        return x * self.positive

    def backward(self, gradient):
        return gradient * self.positive


class MaxPooling:
    """2x2 maximum with stride 2. Equal maxima share the gradient."""

    def parameters(self):
        return {}

    def forward(self, x):
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        maxima = blocks.max((3, 5), keepdims=True)
        chosen = blocks == maxima
        self.share = chosen / chosen.sum((3, 5), keepdims=True, dtype=np.float32)
        return maxima[:, :, :, 0, :, 0]

    def backward(self, gradient):
        n, c, h, w = gradient.shape
        return (self.share * gradient[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)


class GlobalAveragePooling:
    """The mean over H and W, flattened to [N, C]."""

    def parameters(self):
        return {}

    def forward(self, x):
        self.shape = x.shape
        return x.mean((2, 3))

    def backward(self, gradient):
        area = self.shape[2] * self.shape[3]
        return np.broadcast_to(gradient[:, :, None, None] / np.float32(area), self.shape)


class Linear:
    def __init__(self, rng, width_in, width_out):
        self.weight = rng.normal(0, np.sqrt(1 / width_in), (width_out, width_in)).astype(np.float32)
        self.bias = np.zeros(width_out, np.float32)

    def parameters(self):
        return {"weight": self.weight, "bias": self.bias}

    def forward(self, x):
        self.x = x
        return x @ self.weight.T + self.bias

    def backward(self, gradient):
        self.gradients = {"weight": gradient.T @ self.x, "bias": gradient.sum(0)}
        return gradient @ self.weight


def network(rng):
    return [
        Convolution(rng, 1, 16), BatchNormalization(16), Rectifier(),
        Convolution(rng, 16, 32), BatchNormalization(32), Rectifier(),
        MaxPooling(),
        Convolution(rng, 32, 64), BatchNormalization(64), Rectifier(),
        GlobalAveragePooling(),
        Linear(rng, 64, 10),
    ]  # fmt: skip


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), updating the parameters in place."""

    def __init__(self, layers):
        self.layers = [layer for layer in layers if layer.parameters()]
        self.first = [{k: np.zeros_like(p)
                       for k, p in layer.parameters().items()} for layer in self.layers]
        self.second = [{k: np.zeros_like(p)
                        for k, p in layer.parameters().items()} for layer in self.layers]
        self.step_count = 0

    def step(self, rate):
        self.step_count += 1
        for layer, first, second in zip(self.layers, self.first, self.second):
            for key, parameter in layer.parameters().items():
                gradient = layer.gradients[key]
                first[key] += 0.1 * (gradient - first[key])
                second[key] += 0.001 * (gradient * gradient - second[key])
                corrected = first[key] / (1 - 0.9**self.step_count)
                scale = np.sqrt(second[key] / (1 - 0.999**self.step_count)) + 1e-8
                parameter -= (rate * corrected / scale).astype(np.float32)


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def shifted(rng, images):
    """Each image moved by -1, 0 or 1 pixel in each direction, zeros moving in."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = np.empty_like(images)
    for i, (down, right) in enumerate(rng.integers(0, 3, (len(images), 2))):
        moved[i] = padded[i, :, down : down + 8, right : right + 8]
    return moved


def train(images, labels):
    """Train on images [n, 1, 8, 8] in 0..1 and labels [n]; return the layers."""
    rng = np.random.default_rng(SEED)
    layers = network(rng)
    optimizer = Adam(layers)
    steps = EPOCHS * (len(images) // BATCH)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        loss = 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            x = shifted(rng, images[chosen])
            for layer in layers:
                x = layer.forward(x)
            probabilities = softmax(x)
            loss -= np.log(probabilities[np.arange(BATCH), labels[chosen]]).mean()
            gradient = probabilities
            gradient[np.arange(BATCH), labels[chosen]] -= 1
            gradient /= BATCH
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            # Cosine decay (Loshchilov and Hutter 2017, equation 5) without restarts.
            optimizer.step(LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * optimizer.step_count / steps)))
        print(f"epoch {epoch + 1:2d}: loss {loss / (len(images) // BATCH):.4f}", file=sys.stderr)
    return layers


class GraphWriter:
    """Collects the nodes and weights of a chain of operators, named as PyTorch's exporter names
    them."""

    def __init__(self, first):
        self.nodes = []
        self.weights = []
        self.last = first

    def add(self, operator, module, weights=(), **attributes):
        """Append an operator that consumes the last value and the given (name, array) weights."""
        names = [f"{module}.{name}" for name, _ in weights]
        for name, (_, array) in zip(names, weights):
            self.weights.append(
                numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        output = f"/{module}/{operator}_output_0"
        self.nodes.append(
            helper.make_node(operator, [self.last, *names], [output],
                             name=f"/{module}/{operator}",
                             **attributes))
        self.last = output


def add_layer(writer, layer, index):
    if isinstance(layer, Convolution):
        writer.add("Conv",
                   f"conv{index}", [("weight", layer.weight)],
                   dilations=[1, 1],
                   group=1,
                   kernel_shape=[3, 3],
                   pads=[1, 1, 1, 1],
                   strides=[1, 1])
    elif isinstance(layer, BatchNormalization):
        writer.add("BatchNormalization", f"bn{index}",
                   [("weight", layer.scale), ("bias", layer.shift),
                    ("running_mean", layer.mean), ("running_var", layer.variance)],
                   epsilon=EPSILON, momentum=MOMENTUM, training_mode=0)
    elif isinstance(layer, Rectifier):
        writer.add("Relu", f"relu{index}")
    elif isinstance(layer, MaxPooling):
        writer.add("MaxPool",
                   "pool",
                   ceil_mode=0,
                   kernel_shape=[2, 2],
                   pads=[0, 0, 0, 0],
                   strides=[2, 2])
    elif isinstance(layer, GlobalAveragePooling):
        writer.add("GlobalAveragePool", "avgpool")
        writer.add("Flatten", "flatten", axis=1)
    else:
        writer.add("Gemm", "fc", [("weight", layer.weight), ("bias", layer.bias)],
                   alpha=1.0, beta=1.0, transB=1)


def onnx_model(layers):
    """The trained layers as an ONNX model with the batch size left open."""
    writer = GraphWriter("image")
    index = 0
    for layer in layers:
        index += isinstance(layer, Convolution)
        add_layer(writer, layer, index)
    writer.add("Softmax", "softmax", axis=-1)
    writer.nodes[-1].output[0] = "probabilities"
    graph = helper.make_graph(
        writer.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])],
        writer.weights,
    )
    model = helper.make_model(graph,
                              producer_name="weir examples/digits",
                              ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    training, held_out = train_test_split(
        np.arange(len(labels)), test_size=HELD_OUT, stratify=labels, random_state=SEED
    )
    held_out = np.sort(held_out).astype(np.int32)
    inputs = (images / np.float32(16))[:, None].astype(np.float32)
    layers = train(inputs[np.sort(training)], labels[np.sort(training)])

    with gzip.GzipFile(HERE / "images.npy.gz", "wb", mtime=0) as packed:
        np.save(packed, images)
    np.save(HERE / "labels.npy", labels)
    np.save(HERE / "heldout.npy", held_out)
    onnx.save(onnx_model(layers), HERE / "digits.onnx")

    session = onnxruntime.InferenceSession(HERE / "digits.onnx", providers=["CPUExecutionProvider"])
    for name, rows in (("training", training), ("held-out", held_out)):
        (probabilities,) = session.run(None, {"image": inputs[rows]})
        correct = int((probabilities.argmax(1) == labels[rows]).sum())
        print(f"{name}: {correct} of {len(rows)} correct, accuracy {correct / len(rows):.4f}")


if __name__ == "__main__":
    main()
