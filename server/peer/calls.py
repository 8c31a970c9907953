"""Every call of tritonclient's four clients, with what its answer must be.

A check is a function of a Face that returns, in words, what came; an AssertionError or anything
else that it raises is a failure. METHODS are those of the clients' methods, CASES what a method
has beside its plain form.
"""

import asyncio
import json
import queue
import time
import uuid

import numpy as np
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

METHODS = {}
CASES = {}
STOPPED_S = 30


def method(*names):
    """Names of the methods that a check calls."""

    def add(function):
        for name in names:
            METHODS[name] = function
        return function

    return add


def case(words, only=("http", "http.aio", "grpc", "grpc.aio")):

    def add(function):
        CASES[words] = (function, only)
        return function

    return add


def numbers():
    return np.arange(16, dtype=np.int32).reshape(1, 16), np.full((1, 16), 2, np.int32)


def simple_inputs(face):
    a, b = numbers()
    return [face.input("INPUT0", a, "INT32"), face.input("INPUT1", b, "INT32")]


def right(result):
    """That the answer of "simple" is a sum and a difference."""
    a, b = numbers()
    assert np.array_equal(result.as_numpy("OUTPUT0"), a + b), result.as_numpy("OUTPUT0")
    assert np.array_equal(result.as_numpy("OUTPUT1"), a - b), result.as_numpy("OUTPUT1")
    return "sum and difference"


async def refused(face, words, name, *arguments, **options):
    """That a call is refused; the answer is what it says."""
    try:
        await face.call(name, *arguments, **options)
    except InferenceServerException as error:
        assert any(w in f"{error.status()} {error.message()}" for w in words), error
        return f"{error.status()}: {error.message()[:60]}"
    raise AssertionError("it was not refused")


@method("is_server_live", "is_server_ready")
async def health(face):
    assert await face.call("is_server_live") is True
    assert await face.call("is_server_ready") is True
    return "True"


@method("is_model_ready")
async def model_ready(face):
    assert await face.call("is_model_ready", "simple") is True
    assert await face.call("is_model_ready", "simple", "1") is True
    assert await face.call("is_model_ready", "nothing") is False
    return "True, and False for a model that is not there"


@method("get_server_metadata")
async def server_metadata(face):
    about = await face.call("get_server_metadata")
    assert about["name"] and about["version"] and "statistics" in about["extensions"], about
    return f"{about['name']}, {len(about['extensions'])} extensions"


@method("get_model_metadata")
async def model_metadata(face):
    about = await face.call("get_model_metadata", "simple")
    assert about["name"] == "simple" and about["versions"] == ["1"], about
    first = about["inputs"][0]
    assert (first["name"], first["datatype"]) == ("INPUT0", "INT32"), first
    assert [int(d) for d in first["shape"]] == [-1, 16], first
    return f"{len(about['inputs'])} inputs, {len(about['outputs'])} outputs"


@method("get_model_config")
async def model_config(face):
    config = await face.call("get_model_config", "simple")
    config = config.get("config", config)
    assert config["name"] == "simple", config
    assert config["input"][0]["data_type"] == "TYPE_INT32", config
    return f"max_batch_size {config.get('max_batch_size', 0)}"


@method("get_model_repository_index")
async def index(face):
    listed = await face.call("get_model_repository_index")
    listed = listed.get("models", []) if face.grpc else listed
    states = {m["name"]: m["state"] for m in listed}
    assert states["simple"] == "READY", states
    return f"{len(states)} models"


@method("load_model", "unload_model")
async def load(face):
    await face.call("unload_model", "simple_int8")
    until = time.monotonic() + STOPPED_S
    while await face.call("is_model_ready", "simple_int8"):
        assert time.monotonic() < until, "it is still ready"
        await asyncio.sleep(0.05)
    await face.call("load_model", "simple_int8")
    assert await face.call("is_model_ready", "simple_int8")
    return "gone, and there again"


@method("get_inference_statistics")
async def statistics(face):
    await face.call("infer", "simple", simple_inputs(face))
    got = await face.call("get_inference_statistics", "simple")
    one = got["model_stats"][0]
    success = one["inference_stats"]["success"]
    assert int(one["inference_count"]) > 0 and int(success["ns"]) > 0, one
    everything = await face.call("get_inference_statistics")
    assert len(everything["model_stats"]) > 1, everything
    return f"{success['count']} requests of simple"


@method("get_trace_settings", "update_trace_settings")
async def trace(face):
    before = await face.call("get_trace_settings")
    before = before.get("settings", before)
    assert "trace_level" in before, before
    after = await face.call("update_trace_settings", settings={"trace_rate": "17"})
    after = after.get("settings", after)
    rate = after["trace_rate"]
    assert (rate["value"][0] if face.grpc else rate) == "17", after
    await face.call("update_trace_settings", settings={"trace_rate": None})
    return f"{len(before)} settings, one changed"


@method("get_log_settings", "update_log_settings")
async def log(face):
    before = await face.call("get_log_settings")
    before = before.get("settings", before)
    assert "log_info" in before, before
    await face.call("update_log_settings", settings={"log_verbose_level": 1})
    after = await face.call("get_log_settings")
    after = after.get("settings", after)
    level = after["log_verbose_level"]
    assert (level["uint32_param"] if face.grpc else level) == 1, after
    await face.call("update_log_settings", settings={"log_verbose_level": 0})
    return f"{len(before)} settings, one changed"


def rows_of(status):
    """The regions that a status lists, by name, of either protocol."""
    return status.get("regions", {}) if isinstance(status, dict) else {r["name"]: r for r in status}


@method("register_system_shared_memory", "get_system_shared_memory_status",
        "unregister_system_shared_memory")
async def shared_memory(face):
    key = f"/weir-{uuid.uuid4().hex[:12]}"
    region = shm.create_shared_memory_region("peer", key, 256)
    try:
        return await through(face, region, key)
    finally:
        await face.call("unregister_system_shared_memory")
        shm.destroy_shared_memory_region(region)


async def through(face, region, key):
    """An inference whose inputs and outputs are in a region of 256 bytes."""
    shm.set_shared_memory_region(region, list(numbers()))
    await face.call("register_system_shared_memory", "peer", key, 256)
    status = rows_of(await face.call("get_system_shared_memory_status"))
    assert int(status["peer"]["byte_size"]) == 256 and status["peer"]["key"] == key, status
    await refused(face, ["already"], "register_system_shared_memory", "peer", key, 256)
    inputs = []
    for place, name in enumerate(("INPUT0", "INPUT1")):
        one = face.module.InferInput(name, [1, 16], "INT32")
        one.set_shared_memory("peer", 64, offset=64 * place)
        inputs.append(one)
    outputs = [face.output("OUTPUT0"), face.output("OUTPUT1")]
    outputs[0].set_shared_memory("peer", 64, offset=128)
    outputs[1].set_shared_memory("peer", 64, offset=192)
    await face.call("infer", "simple", inputs, outputs=outputs)
    a, b = numbers()
    assert np.array_equal(shm.get_contents_as_numpy(region, np.int32, [1, 16], 128), a + b)
    assert np.array_equal(shm.get_contents_as_numpy(region, np.int32, [1, 16], 192), a - b)
    outputs[1].set_shared_memory("peer", 64, offset=224)
    await refused(face, ["region"], "infer", "simple", inputs, outputs=outputs)
    await face.call("unregister_system_shared_memory", "peer")
    await refused(face, ["peer"], "infer", "simple", inputs)
    return "inputs and outputs of 4 x 64 bytes"


@method("register_cuda_shared_memory", "get_cuda_shared_memory_status",
        "unregister_cuda_shared_memory")
async def cuda(face):
    await face.call("unregister_cuda_shared_memory")
    assert not rows_of(await face.call("get_cuda_shared_memory_status"))
    return await refused(face, ["501", "UNIMPLEMENTED"], "register_cuda_shared_memory", "peer",
                         b"AAAA" if not face.grpc else b"\0" * 64, 0, 64)


@method("infer")
async def infer(face):
    result = await face.call("infer", "simple", simple_inputs(face), request_id="7")
    response = result.get_response()
    assert (response.id if face.grpc else response["id"]) == "7", response
    return right(result)


@method("async_infer")
async def async_infer(face):
    if not face.grpc:
        return right(face.client.async_infer("simple", simple_inputs(face)).get_result())
    answers = queue.Queue()
    face.client.async_infer("simple", simple_inputs(face),
                            callback=lambda result, error: answers.put((result, error)))
    result, error = answers.get(timeout=STOPPED_S)
    assert error is None, error
    return right(result)


@method("generate_request_body", "parse_response_body")
async def bodies(face):
    body, size = face.module.InferenceServerClient.generate_request_body(simple_inputs(face))
    answer, header = await post(face.server, "/v2/models/simple/infer", body, size)
    read = face.module.InferenceServerClient.parse_response_body
    return right(read(answer, header_length=header))


async def post(server, path, body, size=None):
    """The body of the answer of a POST without tritonclient, and the length of its JSON."""
    import urllib.request
    headers = {} if size is None else {"Inference-Header-Content-Length": str(size)}
    request = urllib.request.Request(f"http://{server.http}{path}", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=STOPPED_S) as answer:
        length = answer.headers.get("Inference-Header-Content-Length")
        return answer.read(), length and int(length)


@method("start_stream", "async_stream_infer", "stop_stream")
async def stream(face):
    answers = queue.Queue()
    face.client.start_stream(callback=lambda result, error: answers.put((result, error)))
    for i in range(3):
        face.client.async_stream_infer("simple", simple_inputs(face), request_id=str(i))
    face.client.async_stream_infer("nothing", simple_inputs(face), request_id="3")
    for i in range(3):
        result, error = answers.get(timeout=STOPPED_S)
        assert error is None and result.get_response().id == str(i), error
        right(result)
    _, error = answers.get(timeout=STOPPED_S)
    assert error is not None
    face.client.stop_stream()
    return "3 answers in order, and an error"


@method("stream_infer")
async def aio_stream(face):

    async def requests():
        for i in range(3):
            yield {"model_name": "simple", "inputs": simple_inputs(face), "request_id": str(i)}

    count = 0
    async for result, error in face.client.stream_infer(requests()):
        assert error is None and result.get_response().id == str(count), error
        right(result)
        count += 1
    assert count == 3, count
    return "3 answers in order"


@method("close")
async def close(face):
    other = face.new()
    await face.close(other)
    return "closed"


@case("infer: request and answer compressed")
async def compressed(face):
    if face.grpc:
        for how in ("gzip", "deflate"):
            right(await face.call("infer", "simple", simple_inputs(face),
                                  compression_algorithm=how))
        return "requests by gzip, deflate"
    for how in ("gzip", "deflate"):
        right(await face.call("infer", "simple", simple_inputs(face),
                              request_compression_algorithm=how,
                              response_compression_algorithm=how))
    return "gzip, deflate"


@case("infer: classification")
async def classified(face):
    outputs = [face.output("OUTPUT0", class_count=2)]
    result = await face.call("infer", "simple", simple_inputs(face), outputs=outputs)
    got = result.as_numpy("OUTPUT0").ravel()
    assert [g.decode().split(":")[1] for g in got] == ["15", "14"], got
    return f"{got[0].decode()}"


@case("infer: an ensemble")
async def ensemble(face):
    a, b = numbers()
    inputs = [face.input("A", a, "INT32"), face.input("B", b, "INT32")]
    result = await face.call("infer", "simple_ensemble", inputs)
    assert np.array_equal(result.as_numpy("TWICE_A"), 2 * a), result.as_numpy("TWICE_A")
    assert np.array_equal(result.as_numpy("TWICE_B"), 2 * b), result.as_numpy("TWICE_B")
    config = await face.call("get_model_config", "simple_ensemble")
    config = config.get("config", config)
    steps = config["ensemble_scheduling"]["step"]
    assert config["platform"] == "ensemble" and len(steps) == 2, config
    return config["parameters"]["ensemble"]["string_value"]


@case("infer: an answer that is kept")
async def kept(face):

    async def counted():
        got = await face.call("get_inference_statistics", "simple_cached")
        stats = got["model_stats"][0]["inference_stats"]
        return [int(stats[what].get("count", 0)) for what in ("cache_hit", "cache_miss")]

    before = await counted()
    right(await face.call("infer", "simple_cached", simple_inputs(face)))
    right(await face.call("infer", "simple_cached", simple_inputs(face)))
    hits, misses = await counted()
    assert hits + misses == sum(before) + 2 and misses <= 1 and hits > before[0], (before, hits)
    return f"{hits} hits, {misses} miss"


@case("infer: JSON both ways", only=("http", "http.aio"))
async def plain(face):
    a, b = numbers()
    inputs = [face.input("INPUT0", a, "INT32", binary_data=False),
              face.input("INPUT1", b, "INT32", binary_data=False)]
    outputs = [face.output(n, binary_data=False) for n in ("OUTPUT0", "OUTPUT1")]
    return right(await face.call("infer", "simple", inputs, outputs=outputs))


@case("infer: strings")
async def strings(face):
    text = np.array([["", "weir", "\u00e9", "\0"]], dtype=object)
    inputs = [face.input("INPUT0", text, "BYTES")]
    result = await face.call("infer", "simple_identity", inputs)
    got = [g.decode() for g in result.as_numpy("OUTPUT0").ravel()]
    assert got == list(text.ravel()), got
    return "as they came"


@case("infer: priority, timeout and parameters")
async def parameters(face):
    return right(await face.call("infer", "simple", simple_inputs(face), priority=1,
                                 timeout=10_000_000, parameters={"mine": "x", "and": 3}))


@case("infer: sequence of integers")
async def sequence(face):
    return await in_sequence(face, 42, 42)


@case("infer: sequence with a string")
async def named_sequence(face):
    name = f"sequence-{uuid.uuid4().hex}"
    got = []
    for i in range(3):
        value = np.full((1, 1), 10 * i, np.int32)
        result = await face.call("infer", "simple_sequence",
                                 [face.input("INPUT", value, "INT32")], sequence_id=name,
                                 sequence_start=i == 0, sequence_end=i == 2)
        got.append(int(result.as_numpy("OUTPUT")[0][0]))
    assert got == [1, 10, 20], got
    return str(got)


async def in_sequence(face, identity, added):
    got = []
    for i in range(3):
        value = np.full((1, 1), 10 * i, np.int32)
        result = await face.call("infer", "simple_dyna_sequence",
                                 [face.input("INPUT", value, "INT32")], sequence_id=identity,
                                 sequence_start=i == 0, sequence_end=i == 2)
        got.append(int(result.as_numpy("OUTPUT")[0][0]))
    assert got == [1, 10, 20 + added], got
    return str(got)


@case("infer: a sequence that was not begun is refused")
async def not_begun(face):
    value = np.zeros((1, 1), np.int32)
    return await refused(face, ["sequence"], "infer", "simple_sequence",
                         [face.input("INPUT", value, "INT32")], sequence_id=987654)


@case("infer: state that the server keeps")
async def state(face):
    identity, got = str(time.time_ns() % 1_000_000), []
    for i in range(4):
        value = np.full((1, 1), i + 1, np.int32)
        result = await face.call("infer", "simple_string_dyna_sequence",
                                 [face.input("INPUT", value, "INT32")], sequence_id=identity,
                                 sequence_start=i == 0, sequence_end=i == 3)
        got.append(int(result.as_numpy("OUTPUT")[0][0]))
    assert got == [1, 3, 6, 10 + int(identity)], got
    return str(got)


@case("errors: unknown model, shape, type, name")
async def errors(face):
    a, b = numbers()
    text = await refused(face, ["unknown model"], "infer", "nothing", simple_inputs(face))
    wrong = [face.input("INPUT0", a.reshape(16, 1), "INT32"), face.input("INPUT1", b, "INT32")]
    await refused(face, ["400", "INVALID_ARGUMENT"], "infer", "simple", wrong)
    wrong = [face.input("INPUT0", a.astype(np.float32), "FP32"), face.input("INPUT1", b, "INT32")]
    await refused(face, ["400", "INVALID_ARGUMENT"], "infer", "simple", wrong)
    await refused(face, ["400", "INVALID_ARGUMENT"], "infer", "simple", simple_inputs(face),
                  outputs=[face.output("OUTPUT9")])
    await refused(face, ["400", "INVALID_ARGUMENT"], "infer", "simple", simple_inputs(face)[:1])
    await refused(face, ["unknown model"], "get_model_config", "nothing")
    await refused(face, ["failed to load"], "load_model", "nothing")
    return text


@case("stream: several answers for one request", only=("grpc", ))
async def decoupled(face):
    answers = queue.Queue()
    face.client.start_stream(callback=lambda result, error: answers.put((result, error)))
    numbered = np.arange(4, dtype=np.int32)
    inputs = [
        face.input("IN", numbered, "INT32"),
        face.input("DELAY", np.zeros(4, np.uint32), "UINT32"),
        face.input("WAIT", np.zeros(1, np.uint32), "UINT32")
    ]
    face.client.async_stream_infer("repeat_int32", inputs, request_id="9",
                                   enable_empty_final_response=True)
    got, last = [], False
    while not last:
        result, error = answers.get(timeout=STOPPED_S)
        assert error is None, error
        response = result.get_response()
        last = response.parameters["triton_final_response"].bool_param
        if response.outputs:
            got.append(int(result.as_numpy("OUT")[0]))
    face.client.stop_stream()
    assert got == [0, 1, 2, 3], got
    return f"{len(got)} answers, and the empty last one"


@case("infer: a model with several answers is refused")
async def decoupled_refused(face):
    inputs = [
        face.input("IN", np.zeros(2, np.int32), "INT32"),
        face.input("DELAY", np.zeros(2, np.uint32), "UINT32"),
        face.input("WAIT", np.zeros(1, np.uint32), "UINT32")
    ]
    return await refused(face, ["decoupled"], "infer", "repeat_int32", inputs)


@case("generate and generate_stream", only=("http", ))
async def generate(face):
    body = json.dumps({"id": "5", "IN": [3, 4], "DELAY": [0, 0], "WAIT": [0]}).encode()
    answer, _ = await post(face.server, "/v2/models/repeat_int32/generate_stream", body)
    events = [json.loads(e[6:]) for e in answer.decode().split("\n\n") if e.startswith("data: ")]
    assert [e["OUT"] for e in events] == [3, 4], events
    a, b = numbers()
    body = json.dumps({"INPUT0": a.tolist(), "INPUT1": b.tolist()}).encode()
    answer, _ = await post(face.server, "/v2/models/simple/generate", body)
    assert json.loads(answer)["OUTPUT0"] == (a + b).ravel().tolist(), answer
    return f"{len(events)} events, and one answer"
