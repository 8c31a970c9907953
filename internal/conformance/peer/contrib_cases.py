"""Random calls of ONNX Runtime's own operators (domain com.microsoft), one recipe an operator.

A recipe takes a random generator and returns a Call. Sizes are small: what is tested is the
contract.
"""

import dataclasses

import numpy as np

MICROSOFT = "com.microsoft"


@dataclasses.dataclass
class Call:
    """One node: its operands (None where one is left out), attributes and how many outputs are
    asked for."""

    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: list = dataclasses.field(default_factory=lambda: ["y"])  # "" leaves one out
    constant: tuple = ()  # operands that are initializers
    # how far integer results may be off: results that lie between two integers round either way
    steps: int = 0
    # of results of about 1, the share and the error that some hundred roundings come to at most
    tolerance: float = 3e-5
    domain: str = MICROSOFT
    # computes the outputs where ONNX Runtime has the operator on other devices only
    reference: object = None
    valid: object = None  # which elements of output 0 the contract defines, as an index


# A mask adds -10000 to scores, of which a float32 then keeps multiples of 2^-10: where all keys of
# a query are masked, a weight is off by half of that as a share, and the result by a little more.
MASKED = 1e-3


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def some(rng, value):
    """The operand, or None half of the time."""
    return value if rng.integers(2) else None


def pick(rng, *values):
    return values[rng.integers(len(values))]


def size(rng, low=1, high=4):
    return int(rng.integers(low, high + 1))


def shape(rng, rank=None):
    return [size(rng) for _ in range(rank if rank is not None else size(rng))]


def byte_type(rng):
    return pick(rng, np.uint8, np.int8)


def integers(rng, dtype, *dims):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, dims).astype(dtype)


def scale(rng, *dims):
    return np.asarray(rng.uniform(0.01, 0.1, dims), np.float32)


def zero(rng, dtype, *dims):
    return np.asarray(integers(rng, dtype, *dims))


def unary(**attributes):
    return lambda rng: Call([floats(rng, *shape(rng))],
                            {k: v(rng)
                             for k, v in attributes.items() if rng.integers(2)})


def bias_gelu(rng):
    dims = shape(rng)
    return Call([floats(rng, *dims), floats(rng, dims[-1])])


def fast_gelu(rng):
    dims = shape(rng)
    return Call([floats(rng, *dims), some(rng, floats(rng, dims[-1]))])


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def bias_softmax(rng):
    b, n, q, k = (size(rng) for _ in range(4))
    inner = size(rng, 0, 1)
    bias = floats(rng, b, 1, 1, k) if inner else floats(rng, 1, 1, q, k)
    return Call([floats(rng, b, n, q, k), bias], {"axis": 3, "is_inner_broadcast": inner},
                reference=lambda x, y: [softmax(x + y, 3)])


def bias_add(rng):
    n, s, c = shape(rng, 3)
    return Call([floats(rng, n, s, c), floats(rng, c),
                 floats(rng, n, s, c)],
                reference=lambda x, b, skip: [x + b + skip])


def fused_matmul(rng):
    rank, m, k, n = size(rng, 2, 4), size(rng), size(rng), size(rng)
    batch = shape(rng, rank - 2)
    attributes = {}
    if rng.integers(2):
        attributes["alpha"] = float(rng.standard_normal())

    def operand(rows, columns, suffix):
        dims = [*batch, rows, columns]
        if rng.integers(2):
            attributes["trans" + suffix] = 1
            dims[-2:] = dims[-2:][::-1]
        if rank > 2 and rng.integers(3) == 0:
            attributes["transBatch" + suffix] = 1
            if attributes.get("trans" + suffix):
                # the matrix dimension that comes first is the one before the exchange
                dims = [dims[-2], *batch, dims[-1]]
            else:
                dims = [dims[-2], *batch, dims[-1]]
        return floats(rng, *dims)

    return Call([operand(m, k, "A"), operand(k, n, "B")], attributes)


def activation(rng, names):
    name = pick(rng, *names)
    params = {
        "LeakyRelu": [0.2], "Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4], "Elu": [0.7],
        "ThresholdedRelu": [0.4], "Selu": [1.2, 0.9]
    }.get(name, [])
    return name, params


def fused_conv(rng):
    group = pick(rng, 1, 1, 2)
    channels, maps, side = 2 * group, 2 * group, size(rng, 4, 6)
    kernel = size(rng, 1, 3)
    name, params = activation(rng, ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"])
    attributes = {
        "activation": name, "kernel_shape": [kernel, kernel], "group": group, "pads": [1, 1, 1, 1],
        "strides": [pick(rng, 1, 2)] * 2
    }
    if params:
        attributes["activation_params"] = params
    out = (side + 2 - kernel) // attributes["strides"][0] + 1
    batch = size(rng, 1, 2)
    inputs = [
        floats(rng, batch, channels, side, side),
        floats(rng, maps, channels // group, kernel, kernel),
        some(rng, floats(rng, maps)),
        some(rng, floats(rng, batch, maps, out, out))
    ]
    return Call(inputs, attributes, constant=(1, 2))


def fused_gemm(rng):
    m, k, n = shape(rng, 3)
    ta, tb = size(rng, 0, 1), size(rng, 0, 1)
    name, params = activation(rng, [
        "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "HardSigmoid", "Selu", "Softplus",
        "Softsign", "ThresholdedRelu"
    ])
    attributes = {"activation": name, "transA": ta, "transB": tb, "alpha": 0.5, "beta": 2.0}
    names = [
        "gamma" if name == "Selu" and i else suffix for i, suffix in enumerate(["alpha", "beta"])
    ]
    attributes |= {f"activation_{suffix}": p for suffix, p in zip(names, params)}
    a, b = floats(rng, *((k, m) if ta else (m, k))), floats(rng, *((n, k) if tb else (k, n)))
    return Call([a, b, some(rng, floats(rng, *pick(rng, (m, n), (n, ), (1, n), (m, 1))))],
                attributes)


def matmul_integer16(rng):
    m, k, n = shape(rng, 3)
    return Call([integers(rng, np.int16, m, k) // 16, integers(rng, np.int16, k, n) // 16])


def simplified_layer_norm(rng):
    dims = shape(rng, size(rng, 2, 4))
    axis = pick(rng, -1, len(dims) - 1)
    return Call([floats(rng, *dims), floats(rng, *dims[axis:])], {"axis": axis, "epsilon": 1e-3},
                domain="")


def skip_norm(simplified):
    def recipe(rng):
        b, s, h = size(rng), size(rng), size(rng, 2, 8)
        skip = floats(rng, *pick(rng, (b, s, h), (1, s, h), (s, h)))
        norm = [floats(rng, h)] + ([] if simplified else [some(rng, floats(rng, h))])
        outputs = pick(rng, ["y"], ["y", "", "", "sum"])
        return Call([floats(rng, b, s, h), skip, *norm,
                     some(rng, floats(rng, h))], {"epsilon": 1e-3}, outputs)

    return recipe


def embed_layer_norm(rng):
    b, s, h = size(rng), size(rng), size(rng, 2, 8)
    segments = some(rng, rng.integers(0, 2, (b, s)).astype(np.int32))
    table = None if segments is None else floats(rng, 2, h)
    mask = some(rng, rng.integers(0, 2, (b, s)).astype(np.int32))
    places = some(rng, rng.integers(0, 6, (pick(rng, 1, b), s)).astype(np.int32))
    inputs = [
        rng.integers(0, 9, (b, s)).astype(np.int32), segments,
        floats(rng, 9, h),
        floats(rng, 6, h), table,
        floats(rng, h),
        floats(rng, h), mask, places
    ]
    return Call(inputs, {"epsilon": 1e-3}, ["y", "mask_index"] + pick(rng, [], ["sum"]),
                constant=(2, 3))


def q_embed_layer_norm(rng):
    b, s, h, kind = size(rng), size(rng), size(rng, 2, 8), byte_type(rng)
    segments = some(rng, rng.integers(0, 2, (b, s)).astype(np.int32))
    tables = [integers(rng, kind, *dims) for dims in ((9, h), (6, h), (2, h), (h,), (h,))]
    scales, points = [scale(rng) for _ in tables], [zero(rng, kind) for _ in tables]
    if segments is None:
        tables[2] = scales[2] = points[2] = None
    mask = some(rng, rng.integers(0, 2, (b, s)).astype(np.int32))
    inputs = [
        rng.integers(0, 9, (b, s)).astype(np.int32), segments, *tables, mask, *scales, *points
    ]
    return Call(inputs, {"epsilon": 1e-3}, ["y", "mask_index"], constant=(2, 3))


def key_mask(rng, batch, queries, keys, kinds):
    kind = pick(rng, *kinds)
    if kind == "ends":
        return rng.integers(1, keys + 1, batch).astype(np.int32)
    if kind == "ends and beginnings":
        return np.concatenate([np.full(batch, keys), rng.integers(0, keys, batch)]).astype(np.int32)
    if kind == "keys":
        return rng.integers(0, 2, (batch, keys)).astype(np.int32)
    if kind == "queries":
        return rng.integers(0, 2, (batch, queries, keys)).astype(np.int32)
    return None


MASKS = ["none", "ends", "ends and beginnings", "keys", "queries"]


def attention(rng):
    b, s, n, d = size(rng, 1, 3), size(rng), size(rng, 1, 3), pick(rng, 2, 4)
    h, width = n * d, size(rng, 3, 6)
    past = size(rng) if rng.integers(3) == 0 else 0
    wide = n * pick(rng, d, 2 * d) if not past else h
    t = s + past
    attributes = {"num_heads": n, "unidirectional": size(rng, 0, 1)}
    if wide != h:
        attributes["qkv_hidden_sizes"] = [h, h, wide]
    if rng.integers(3) == 0:
        attributes["scale"] = 0.3
    if rng.integers(3) == 0:
        attributes["mask_filter_value"] = -5.0
    inputs = [
        floats(rng, b, s, width),
        floats(rng, width, 2 * h + wide),
        floats(rng, 2 * h + wide),
        key_mask(rng, b, s, t, MASKS),
        floats(rng, 2, b, n, past, d) if past else None,
        floats(rng, *pick(rng, (b, n, s, t),
                          (1, 1, s, t))) if not past and rng.integers(3) == 0 else None
    ]
    return Call(inputs,
                attributes,
                ["y", "present"] if past or wide == h and rng.integers(3) == 0 else ["y"],
                constant=(1, 2),
                tolerance=MASKED)


def q_attention(rng):
    b, s, n, d = size(rng, 1, 3), size(rng), size(rng, 1, 3), pick(rng, 2, 4)
    h, width, kind = n * d, size(rng, 3, 6), byte_type(rng)
    past = size(rng) if rng.integers(3) == 0 else 0
    columns = pick(rng, (), (3 * h,))
    weight_zero = some(rng, zero(rng, kind, *columns))
    if kind == np.int8 and columns:
        weight_zero = None
    inputs = [
        integers(rng, np.uint8, b, s, width),
        integers(rng, kind, width, 3 * h),
        floats(rng, 3 * h),
        scale(rng),
        scale(rng, *columns),
        key_mask(rng, b, s, s + past, MASKS),
        zero(rng, np.uint8), weight_zero,
        floats(rng, 2, b, n, past, d) if past else None
    ]
    return Call(inputs, {"num_heads": n, "unidirectional": size(rng, 0, 1)},
                ["y", "present"] if past else ["y"],
                constant=(1, 7),
                tolerance=MASKED)


def multi_head_attention(rng):
    b, s, n, d = size(rng, 1, 3), size(rng), size(rng, 1, 3), pick(rng, 2, 4)
    fresh = pick(rng, s, size(rng))
    past = size(rng) if rng.integers(3) == 0 else 0
    wide = n * (d if past else pick(rng, d, 2 * d))
    h, t = n * d, fresh + past
    attributes = {"num_heads": n}
    if fresh == s:
        attributes["unidirectional"] = size(rng, 0, 1)
    if rng.integers(3) == 0:
        attributes["scale"] = 0.3
    outputs = ["y", "present_key", "present_value"
               ] if past or wide == h and rng.integers(3) == 0 else ["y"]
    bias = some(rng, floats(rng, 2 * h + wide))
    mask = key_mask(rng, b, s, t, ["none", "ends", "keys", "queries"])
    scores = floats(rng, *pick(rng, (b, n, s, t), (1, 1, s, t))) if rng.integers(3) == 0 else None
    caches = [floats(rng, b, n, past, d), floats(rng, b, n, past, d)] if past else [None, None]
    layout = size(rng, 0, 5)
    if layout == 0:  # the keys and values of a cross attention, made once
        return Call([
            floats(rng, b, s, h),
            floats(rng, b, n, fresh, d),
            floats(rng, b, n, fresh, d), bias if wide == h else None,
            key_mask(rng, b, s, fresh, ["none", "keys"])
        ], {"num_heads": n})
    return Call([
        floats(rng, b, s, h),
        floats(rng, b, fresh, h),
        floats(rng, b, fresh, wide), bias, mask, scores, *caches
    ],
                attributes,
                outputs,
                tolerance=MASKED)


def grouped_query_attention(rng):
    n, shared, d = pick(rng, (1, 1), (2, 1), (4, 2), (2, 2))[0], 1, pick(rng, 16, 32)
    shared = pick(rng, *(k for k in (1, 2) if n % k == 0))
    b = size(rng, 1, 3)
    past = pick(rng, 0, size(rng, 2, 5))
    s = size(rng, 1, 4) if not past or b == 1 else 1
    total = past + s
    if past:
        lens = rng.integers(s, total + 1, b) - 1
        lens[0] = total - 1
    else:
        lens = rng.integers(0, s, b)
        lens[0] = s - 1
    if past and s > 1:
        lens[:] = total - 1
    attributes = {"num_heads": n, "kv_num_heads": shared}
    if rng.integers(2):
        attributes["do_rotary"] = 1
        attributes["rotary_interleaved"] = size(rng, 0, 1)
    if rng.integers(3) == 0:
        attributes["local_window_size"] = size(rng, 1, 4)
    if rng.integers(3) == 0:
        attributes["softcap"] = 1.5
    if rng.integers(4) == 0:
        attributes["scale"] = 0.2
    if rng.integers(4) == 0:
        attributes["smooth_softmax"] = 1
    angles = rng.uniform(0, 6,
                         (16, d // 2)).astype(np.float32) if "do_rotary" in attributes else None
    if rng.integers(2):
        qkv = [floats(rng, b, s, (n + 2 * shared) * d), None, None]
    else:
        qkv = [
            floats(rng, b, s, n * d),
            floats(rng, b, s, shared * d),
            floats(rng, b, s, shared * d)
        ]
    cache = [floats(rng, b, shared, past, d),
             floats(rng, b, shared, past, d)] if past else [None, None]
    inputs = [
        *qkv, *cache,
        lens.astype(np.int32),
        np.asarray(total, np.int32), None if angles is None else np.cos(angles),
        None if angles is None else np.sin(angles)
    ]
    if "smooth_softmax" not in attributes and rng.integers(4) == 0:
        inputs += [None, some(rng, floats(rng, b, n, s, total)), floats(rng, n)]
    # the contract says nothing of queries that are padding
    valid = np.array([[t <= lens[i] or past > 0 for t in range(s)] for i in range(b)])
    return Call(inputs, attributes, ["y", "present_key", "present_value"], valid=valid)


def rotary_embedding(rng):
    b, s, n, d = size(rng, 1, 3), size(rng), size(rng, 1, 3), pick(rng, 4, 8)
    angles = rng.uniform(0, 6, (12, d // 2)).astype(np.float32)
    ids = pick(rng, rng.integers(0, 4, 1), rng.integers(0, 12, (b, s))).astype(np.int64)
    x = pick(rng, floats(rng, b, s, n * d), floats(rng, b, n, s, d))
    attributes = {"interleaved": size(rng, 0, 1)}
    if rng.integers(4) == 0:
        attributes["scale"] = 0.5
    if rng.integers(3) == 0:
        angles = angles[:, :d // 4]
        attributes |= {"rotary_embedding_dim": d // 2, "num_heads": n}
    return Call([x, ids, np.cos(angles), np.sin(angles)], attributes)


def pack(q, bits):
    """Numbers packed along the last axis, the first in the lowest bits."""
    per = 8 // bits
    q = np.pad(q, [(0, 0)] * (q.ndim - 1) + [(0, -q.shape[-1] % per)])
    q = q.reshape(*q.shape[:-1], -1, per)
    return sum(q[..., i].astype(np.uint8) << np.uint8(i * bits)
               for i in range(per)).astype(np.uint8)


def matmul_nbits(rng):
    bits, block = pick(rng, 4, 4, 8), pick(rng, 16, 32)
    k, n = pick(rng, 16, 32, 48, 40, 65), size(rng, 1, 9)
    blocks = -(-k // block)
    q = rng.integers(0, 1 << bits, (n, blocks, block)).astype(np.uint8)
    zeros = rng.integers(0, 1 << bits, (n, blocks))
    kind = pick(rng, "none", "packed", *(["float"] if bits == 4 else []))
    points = {
        "none": None, "packed": pack(zeros, bits), "float": (zeros + 0.25).astype(np.float32)
    }[kind]
    groups = None
    # whole blocks, without packed zero points: the peer reads only eight places of each block, and
    # no such points
    if bits == 4 and kind != "packed" and rng.integers(4) == 0:
        groups = np.repeat(rng.permutation(blocks), block).astype(np.int32)
    inputs = [
        floats(rng, *shape(rng, size(rng, 1, 2)), k),
        pack(q, bits),
        scale(rng, n, blocks), points, groups
    ]
    if rng.integers(3) == 0:
        inputs.append(floats(rng, n))
    return Call(inputs, {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": 1},
                constant=tuple(range(1, 6)))


def matmul_integer_to_float(rng):
    m, k, n = shape(rng, 3)
    kind = byte_type(rng)
    a = np.uint8 if kind == np.uint8 else pick(rng, np.uint8, np.int8)
    columns = pick(rng, (), (n,))
    return Call([
        integers(rng, a, *pick(rng, (), (2, )), m, k),
        integers(rng, kind, k, n),
        scale(rng),
        scale(rng, *columns),
        some(rng, zero(rng, a)),
        some(rng, zero(rng, kind, *columns)),
        some(rng, floats(rng, n))
    ])


def dynamic_quantize_matmul(rng):
    m, k, n = shape(rng, 3)
    kind = byte_type(rng)
    columns = pick(rng, (), (n,))
    return Call([
        floats(rng, *pick(rng, (), (2, )), m, k),
        integers(rng, kind, k, n),
        scale(rng, *columns),
        some(rng, zero(rng, kind, *columns)),
        some(rng, floats(rng, n))
    ])


def dynamic_quantize_lstm(rng):
    s, b, i, h = size(rng), 1, size(rng, 2, 4), size(rng, 2, 4)
    direction = pick(rng, "forward", "reverse", "bidirectional")
    d, kind = 2 if direction == "bidirectional" else 1, byte_type(rng)
    per = pick(rng, (d,), (d, 4 * h)) if kind == np.int8 else (d,)

    def weights(rows):
        point = np.zeros(per, kind) if len(per) == 2 else zero(rng, kind, *per)
        return integers(rng, kind, d, rows, 4 * h), np.asarray(scale(rng, *per) / 10,
                                                               np.float32), point

    w, ws, wz = weights(i)
    r, rs, rz = weights(h)
    inputs = [
        floats(rng, s, b, i), w, r,
        some(rng, floats(rng, d, 8 * h)), None,
        some(rng, floats(rng, d, b, h)),
        some(rng, floats(rng, d, b, h)),
        some(rng, floats(rng, d, 3 * h)), ws, wz, rs, rz
    ]
    return Call(inputs, {"hidden_size": h, "direction": direction}, ["y", "y_h", "y_c"],
                constant=(1, 2, 8, 9, 10, 11))


def point(rng, kind):
    """A scale and a zero point."""
    return [scale(rng), zero(rng, kind)]


def qlinear_binary(rng):
    kind, dims = byte_type(rng), shape(rng)
    other = [n if rng.integers(3) else 1 for n in dims[size(rng, 0, 1):]]
    return Call([
        integers(rng, kind, *dims), *point(rng, kind),
        integers(rng, kind, *other), *point(rng, kind), *point(rng, kind)
    ],
                steps=1)


def qlinear_unary(**attributes):
    def recipe(rng):
        kind = byte_type(rng)
        last = pick(rng, np.float32(1 / 256), scale(rng))
        return Call([
            integers(rng, kind, *shape(rng)), *point(rng, kind),
            np.float32(last),
            zero(rng, kind)
        ], {k: v(rng)
            for k, v in attributes.items() if rng.integers(2)},
                    steps=1)

    return recipe


def qlinear_softmax(rng):
    # the peer gives 0, not the highest number, for the only element of an axis
    kind, dims = byte_type(rng), [size(rng, 2, 4) for _ in range(size(rng, 2, 4))]
    return Call([
        integers(rng, kind, *dims), *point(rng, kind),
        np.float32(1 / 256),
        np.asarray(np.iinfo(kind).min, kind)
    ], {"axis": int(rng.integers(-len(dims), len(dims))), "opset": pick(rng, 12, 13)},
                steps=2,
                constant=(1, 2, 3, 4))


def qlinear_concat(rng):
    kind, dims = byte_type(rng), shape(rng)
    axis = int(rng.integers(-len(dims), len(dims)))
    inputs = point(rng, kind)
    for _ in range(size(rng)):
        dims[axis] = size(rng)
        inputs += [integers(rng, kind, *dims), *point(rng, kind)]
    return Call(inputs, {"axis": axis}, steps=1)


def qlinear_average_pool(rng):
    kind, last = byte_type(rng), size(rng, 0, 1)
    places = [size(rng, 4, 7), size(rng, 4, 7)]
    b, c = size(rng), size(rng)
    dims = [b, *places, c] if last else [b, c, *places]
    attributes = {
        "channels_last": last,
        "kernel_shape": [size(rng, 1, 3), size(rng, 1, 3)],
        "strides": [size(rng, 1, 2), size(rng, 1, 2)],
        # with both, the peer counts places beyond the padding
        **pick(rng, {"count_include_pad": 1}, {"ceil_mode": 1}, {})
    }
    if min(attributes["kernel_shape"]) > 1:
        attributes["pads"] = [size(rng, 0, 1) for _ in range(4)]
    return Call([integers(rng, kind, *dims), *point(rng, kind), *point(rng, kind)],
                attributes,
                steps=1)


def qlinear_global_average_pool(rng):
    kind = byte_type(rng)
    return Call(
        [integers(rng, kind, *shape(rng, size(rng, 3, 4))), *point(rng, kind), *point(rng, kind)],
        {"channels_last": size(rng, 0, 1)},
        steps=1)


def qlinear_where(rng):
    kind, dims = byte_type(rng), shape(rng)
    return Call([
        rng.integers(0, 2, dims).astype(bool),
        integers(rng, kind, *dims), *point(rng, kind),
        integers(rng, kind, dims[-1]), *point(rng, kind), *point(rng, kind)
    ],
                steps=1)


def qlinear_reduce_mean(rng):
    def mean(x, xs, xz, ys, yz):
        y = ((x.astype(np.float32) - xz) * xs).mean(axis=1, keepdims=True)
        return [np.clip(np.rint(y / ys) + yz, 0, 255).astype(np.uint8)]

    return Call(
        [integers(rng, np.uint8, *shape(rng, 3)), *point(rng, np.uint8), *point(rng, np.uint8)],
        {"axes": [1], "keepdims": 1},
        steps=1,
        reference=mean)


def q_gemm(rng):
    m, k, n = shape(rng, 3)
    ta, tb, kind = size(rng, 0, 1), size(rng, 0, 1), byte_type(rng)
    a = np.int8 if kind == np.int8 and rng.integers(2) else np.uint8
    columns = pick(rng, (), (n,))
    inputs = [
        integers(rng, a, *((k, m) if ta else (m, k))), *point(rng, a),
        integers(rng, kind, *((n, k) if tb else (k, n))),
        scale(rng, *columns),
        zero(rng, kind, *columns),
        some(rng,
             rng.integers(-999, 999, pick(rng, (m, n), (n, ), (1, n))).astype(np.int32))
    ]
    if rng.integers(2):
        inputs += [np.float32(1.5), zero(rng, a)]
    return Call(inputs, {"transA": ta, "transB": tb, "alpha": 0.75}, steps=1)


def qlinear_conv(rng):
    kind, group, last = byte_type(rng), pick(rng, 1, 2), size(rng, 0, 1)
    x = np.int8 if kind == np.int8 and rng.integers(2) else np.uint8
    side, kernel, c = size(rng, 4, 6), size(rng, 1, 3), 2 * group
    dims = [1, side, side, c] if last else [1, c, side, side]
    maps = pick(rng, (), (4,))
    inputs = [
        integers(rng, x, *dims), *point(rng, x),
        integers(rng, kind, 4, c // group, kernel, kernel),
        scale(rng, *maps),
        zero(rng, kind) if not maps else np.zeros(4, kind),
        np.float32(2.5),
        zero(rng, x),
        some(rng,
             rng.integers(-999, 999, 4).astype(np.int32))
    ]
    return Call(inputs, {
        "channels_last": last, "group": group, "pads": [1, 0, 0, 1],
        "strides": [size(rng, 1, 2)] * 2
    },
                steps=1,
                constant=(3, 4, 5, 8))


def nhwc_max_pool(rng):
    attributes = {
        "kernel_shape": [2, size(rng, 1, 3)], "strides": [size(rng, 1, 2)] * 2,
        "pads": [0, 0, 1, 0]
    }
    return Call(
        [integers(rng, byte_type(rng), size(rng), size(rng, 4, 6), size(rng, 4, 6), size(rng))],
        attributes)


def quantize_linear(rng):
    kind = pick(rng, np.uint8, np.int8, np.uint16, np.int16)
    dims = shape(rng)
    axis = int(rng.integers(0, len(dims)))
    per = pick(rng, (), (dims[axis],))
    step = np.float32(scale(rng, *per) / (1 if np.iinfo(kind).max < 256 else 100))
    return Call([floats(rng, *dims), step, zero(rng, kind, *per)], {"axis": axis} if per else {},
                steps=1)


def dequantize_linear(rng):
    kind = pick(rng, np.uint8, np.int8, np.uint16, np.int16)
    dims = shape(rng)
    axis = int(rng.integers(0, len(dims)))
    per = pick(rng, (), (dims[axis],))
    return Call([
        integers(rng, kind, *dims),
        np.asarray(scale(rng, *per)),
        some(rng, zero(rng, kind, *per))
    ], {"axis": axis} if per else {})


def inverse(rng):
    n = size(rng)
    return Call([floats(rng, *shape(rng, size(rng, 0, 2)), n, n) + 4 * np.eye(n, dtype=np.float32)])


def gather_nd(rng):
    dims = shape(rng, size(rng, 1, 3))
    depth = size(rng, 1, len(dims))
    ids = np.stack([rng.integers(0, n, 3) for n in dims[:depth]], -1)
    return Call([floats(rng, *dims), ids.astype(pick(rng, np.int32, np.int64))])


def pad(rng):
    dims = [size(rng, 3, 5), size(rng, 3, 5)]
    pads = np.array([size(rng, 0, 2) for _ in range(4)], np.int64)
    mode = pick(rng, "constant", "reflect", "edge")
    if rng.integers(2):
        pads = pads[None]
    return Call([
        floats(rng, *dims), pads,
        some(rng, np.array([1.5], np.float32)) if mode == "constant" else None
    ], {"mode": mode},
                constant=pick(rng, (), (1, )))


def trilu(rng):
    x = pick(rng, floats(rng, *shape(rng, 3)), rng.integers(-9, 9, shape(rng, 2)))
    return Call([x, some(rng, np.asarray(rng.integers(-2, 3)))], {"upper": size(rng, 0, 1)})


def value_range(rng):
    return Call([
        np.asarray(pick(rng, 0, 2), np.int64),
        np.asarray([9], np.int64),
        some(rng, np.asarray(2, np.int64))
    ])


RECIPES = {
    "Gelu": unary(),
    "QuickGelu": unary(alpha=lambda rng: float(rng.uniform(0.5, 2))),
    "BiasGelu": bias_gelu,
    "FastGelu": fast_gelu,
    "BiasSoftmax": bias_softmax,
    "BiasAdd": bias_add,
    "FusedMatMul": fused_matmul,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "MatMulInteger16": matmul_integer16,
    "SimplifiedLayerNormalization": simplified_layer_norm,
    "SkipLayerNormalization": skip_norm(False),
    "SkipSimplifiedLayerNormalization": skip_norm(True),
    "EmbedLayerNormalization": embed_layer_norm,
    "QEmbedLayerNormalization": q_embed_layer_norm,
    "Attention": attention,
    "QAttention": q_attention,
    "MultiHeadAttention": multi_head_attention,
    "GroupQueryAttention": grouped_query_attention,
    "RotaryEmbedding": rotary_embedding,
    "MatMulNBits": matmul_nbits,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "QLinearAdd": qlinear_binary,
    "QLinearMul": qlinear_binary,
    "QLinearSigmoid": qlinear_unary(),
    "QLinearLeakyRelu": qlinear_unary(alpha=lambda rng: 0.3),
    "QLinearSoftmax": qlinear_softmax,
    "QLinearConcat": qlinear_concat,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "QLinearWhere": qlinear_where,
    "QLinearReduceMean": qlinear_reduce_mean,
    "QGemm": q_gemm,
    "QLinearConv": qlinear_conv,
    "NhwcMaxPool": nhwc_max_pool,
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "Inverse": inverse,
    "GatherND": gather_nd,
    "Pad": pad,
    "Trilu": trilu,
    "Range": value_range,
    "Unique": lambda rng: Call([rng.integers(0, 4, size(rng, 1, 9)).astype(np.float32)],
                               outputs=["y", "at", "counts"]),
    "ExpandDims": lambda rng: Call(
        [floats(rng, 2, 3), np.asarray(pick(rng, -1, 0, 1, 2), np.int32)], constant=(1, )),
    "TransposeMatMul": lambda rng: Call([floats(rng, 2, 3, 4),
                                         floats(rng, 2, 3, 5)], {"transA": 1, "alpha": 0.5}),
}
