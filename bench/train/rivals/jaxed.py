"""The same models in JAX: an update is one program that takes over the buffers of the last. Weights
are drawn here; a request has the shapes of weir's, "shapes", of which as many must be of each size.
See protocol.py."""

import math
import sys

import protocol

protocol.limit(int(sys.argv[1]))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
from jax import lax  # noqa: E402


class Weights:
    """Weights by name: those that are given or, while there are none, shapes of what is asked for.
    `moments` is what running moments become, by name."""

    def __init__(self, known=None):
        self.known, self.shapes, self.moments, self.path = known, {}, {}, []

    def __call__(self, name, *shape):
        name = ".".join([*self.path, name])
        if self.known is not None:
            return self.known[name]
        assert name not in self.shapes, name
        self.shapes[name] = shape
        return jnp.ones(shape, jnp.float32)

    def move(self, name, to):
        """Has running moments follow those of a batch as PyTorch's do by default."""
        was = self(name, *to.shape)
        self.moments[".".join([*self.path, name])] = 0.9 * was + 0.1 * lax.stop_gradient(to)


def conv(w, name, x, out, size, stride=1, groups=1):
    """A convolution of x, whose channels come last, as what follows keeps its size."""
    kernel = w(name, size, size, x.shape[-1] // groups, out)
    if groups > 1:
        return depthwise(x, kernel, size, stride)
    return lax.conv_general_dilated(x, kernel, (stride, stride), [(size // 2, size // 2)] * 2,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


def depthwise(x, kernel, size, stride):
    """A convolution of each channel alone, as a sum of products: in XLA's own, by
    feature_group_count, an update of MobileNetV2 takes almost four times as long."""
    height, width, around = *x.shape[1:3], size // 2
    x = jnp.pad(x, ((0, 0), (around, around), (around, around), (0, 0)))
    return sum(x[:, i:i + height:stride, j:j + width:stride] * kernel[i, j, 0]
               for i in range(size) for j in range(size))


def norm(w, name, x):
    """Batch normalisation by the moments of the batch."""
    c = x.shape[-1]
    mean, square = x.mean((0, 1, 2)), (x * x).mean((0, 1, 2))
    variance = square - mean * mean
    w.move(f"{name}.running_mean", mean)
    w.move(f"{name}.running_var", variance)
    scale = w(f"{name}.weight", c) * lax.rsqrt(variance + 1e-5)
    return x * scale + (w(f"{name}.bias", c) - mean * scale)


def linear(w, name, x, out):
    return x @ w(f"{name}.weight", x.shape[-1], out) + w(f"{name}.bias", out)


def pool(x, size, stride, pad):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1),
                             ((0, 0), (pad, pad), (pad, pad), (0, 0)))


def digits(w, x):
    for i in (1, 2, 3):
        x = jax.nn.relu(norm(w, f"bn{i}", conv(w, f"conv{i}.weight", x, DIGITS[i - 1], 3)))
        if i == 2:
            x = pool(x, 2, 2, 0)
    return linear(w, "fc", x.mean((1, 2)), 10)


DIGITS = (16, 32, 64)


def mlp(w, x):
    for name, out in (("fc1", 128), ("fc2", 64)):
        x = jax.nn.relu(linear(w, name, x, out))
    return linear(w, "fc3", x, 10)


def attention(w, x):
    q, k, v = (x @ w(name, x.shape[-1], 32) for name in ("query", "key", "value"))
    x = jax.nn.softmax(q @ k.transpose(0, 2, 1), -1) @ v
    return linear(w, "fc", layer_norm(w, "norm", x, 1e-5).mean(1), 10)


def layer_norm(w, name, x, epsilon):
    mean = x.mean(-1, keepdims=True)
    d = x - mean
    d = d * lax.rsqrt((d * d).mean(-1, keepdims=True) + epsilon)
    return d * w(f"{name}.weight", x.shape[-1]) + w(f"{name}.bias", x.shape[-1])


def lstm(w, x):
    """The sums over the input of all steps are one product."""
    n = 128
    of_rows = (x.transpose(1, 0, 2) @ w("lstm.W", x.shape[-1], 4 * n)
               + w("lstm.B", 8 * n).reshape(2, 4 * n).sum(0))
    rest = w("lstm.R", n, 4 * n)

    def step(state, row):
        h, c = state
        i, f, g, o = jnp.split(row + h @ rest, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zero = jnp.zeros((x.shape[0], n), jnp.float32)
    (h, _), _ = lax.scan(step, (zero, zero), of_rows, unroll=UNROLL)
    return linear(w, "fc", h, 10)


UNROLL = 8


def resnet(depths, wide):
    """Of torchvision: blocks of two convolutions, or of three where the last one is wide."""

    def block(w, x, out, stride):
        y = x
        parts = [(out, 1, 1), (out, 3, stride), (4 * out, 1, 1)] if wide else [
            (out, 3, stride), (out, 3, 1)]
        for i, (to, size, by) in enumerate(parts):
            y = norm(w, f"bn{i}", conv(w, f"conv{i}.weight", y, to, size, by))
            if i < len(parts) - 1:
                y = jax.nn.relu(y)
        if x.shape != y.shape:
            x = norm(w, "down.bn", conv(w, "down.weight", x, parts[-1][0], 1, stride))
        return jax.nn.relu(x + y)

    def model(w, x):
        x = pool(jax.nn.relu(norm(w, "bn", conv(w, "conv.weight", x, 64, 7, 2))), 3, 2, 1)
        for stage, depth in enumerate(depths):
            for i in range(depth):
                w.path = [f"layer{stage}", str(i)]
                x = block(w, x, 64 << stage, 2 if stage and not i else 1)
        w.path = []
        return linear(w, "fc", x.mean((1, 2)), 10)

    return model


def mobilenet_v2(w, x):
    def part(name, x, out, size, stride=1, groups=1):
        x = norm(w, f"{name}.bn", conv(w, f"{name}.weight", x, out, size, stride, groups))
        return jnp.clip(x, 0, 6)

    x = part("first", x, 32, 3, 2)
    blocks = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1)]
    for stage, (wider, out, depth, stride) in enumerate(blocks):
        for i in range(depth):
            w.path, y = [f"stage{stage}", str(i)], x
            if wider > 1:
                y = part("wide", y, wider * x.shape[-1], 1)
            y = part("deep", y, y.shape[-1], 3, 1 if i else stride, y.shape[-1])
            y = norm(w, "bn", conv(w, "narrow.weight", y, out, 1))
            x = x + y if x.shape == y.shape else y
    w.path = []
    return linear(w, "fc", part("last", x, 1280, 1).mean((1, 2)), 10)


def bert(layers, size, heads):
    def split(x):
        return x.reshape(*x.shape[:2], heads, size // heads)

    def layer(w, x):
        q, k, v = (split(linear(w, name, x, size)) for name in ("query", "key", "value"))
        p = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(size // heads), -1)
        a = jnp.einsum("bhqk,bkhd->bqhd", p, v).reshape(x.shape)
        x = layer_norm(w, "norm1", x + linear(w, "out", a, size), 1e-12)
        y = jax.nn.gelu(linear(w, "up", x, 4 * size), approximate=False)
        return layer_norm(w, "norm2", x + linear(w, "down", y, size), 1e-12)

    def model(w, x):
        x = w("words", 1000, size)[x] + w("places", 512, size)[:x.shape[1]] + w("kinds", 2, size)[0]
        x = layer_norm(w, "norm", x, 1e-12)
        for i in range(layers):
            w.path = [f"layer{i}"]
            x = layer(w, x)
        w.path = []
        return linear(w, "scores", jnp.tanh(linear(w, "pool", x[:, 0], size)), 10)

    return model


MODELS = {"digits": digits, "mlp": mlp, "attention": attention, "lstm": lstm,
          "resnet18": resnet((2, 2, 2, 2), False), "resnet50": resnet((3, 4, 6, 3), True),
          "mobilenet_v2": mobilenet_v2, "minilm": bert(6, 384, 12), "bert": bert(12, 768, 12)}


def draw(name, shape, rng):
    """What a weight begins as: of scales 1, of biases 0."""
    if len(shape) > 1:
        kept = 0.02 if name in ("words", "places", "kinds") else math.sqrt(
            2 / max(1, math.prod(shape[:-1])))
        return rng.standard_normal(shape, dtype="float32") * numpy.float32(kept)
    one = name.endswith("running_var") or ".weight" in name
    return numpy.full(shape, float(one), dtype="float32")


def counted(shapes):
    """How many weights there are of each size, whatever the order of their dimensions."""
    sizes = {}
    for shape in shapes:
        key = tuple(sorted(d for d in shape if d != 1))
        sizes[key] = sizes.get(key, 0) + 1
    return sizes


def adamw(o, w, state, gradients):
    """What the weights w become. The state is the number of updates and two moments of each."""
    t, firsts, seconds = state
    t = t + 1
    b1, b2 = o["beta1"], o["beta2"]
    scale, root = o["rate"] / (1 - b1**t), 1 / jnp.sqrt(1 - b2**t)
    after, first, second = {}, {}, {}
    for name, d in gradients.items():
        m = first[name] = b1 * firsts[name] + (1 - b1) * d
        v = second[name] = b2 * seconds[name] + (1 - b2) * d * d
        after[name] = (w[name] * (1 - o["rate"] * o["decay"])
                       - scale * m / (jnp.sqrt(v) * root + o["epsilon"]))
    return after, (t, first, second)


def begin(request):
    model, o = MODELS[request["model"]], request["optimizer"]
    if o["kind"] != "adamw":
        raise ValueError(f"no {o['kind']} is written for it")
    x, y = protocol.batches(request, numpy)
    if x[0].ndim == 4:
        x = [v.transpose(0, 2, 3, 1) for v in x]
    x, y = [jnp.asarray(v) for v in x], [jnp.asarray(v) for v in y]
    asked = Weights()
    jax.eval_shape(lambda x: model(asked, x), x[0])
    rng = numpy.random.default_rng(1)
    w = {name: jnp.asarray(draw(name, shape, rng)) for name, shape in asked.shapes.items()}
    kept = {name: w.pop(name) for name in list(w) if "running" in name}
    own, wanted = counted(v.shape for v in w.values()), counted(request["shapes"].values())
    assert own == wanted, f"other weights than weir's: {sorted(own.items() ^ wanted.items())}"
    zeros = [{name: jnp.zeros_like(v) for name, v in w.items()} for _ in "12"]

    def loss(w, kept, x, y):
        known = Weights(w | kept)
        scores = jax.nn.log_softmax(model(known, x))
        return -jnp.take_along_axis(scores, y[:, None], 1).mean(), known.moments

    def update(w, kept, state, x, y):
        (value, kept), gradients = jax.value_and_grad(loss, has_aux=True)(w, kept, x, y)
        w, state = adamw(o, w, state, gradients)
        return value, w, kept, state

    compiled = jax.jit(update, donate_argnums=(0, 1, 2))
    now = [w, kept, (jnp.float32(0), *zeros)]

    def train(i):
        value, *now[:] = compiled(*now, x[i], y[i])
        jax.block_until_ready(now)
        return float(value)

    return train, jax.__version__


protocol.serve(begin)
