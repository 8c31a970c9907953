"""Triton's own answers to wrong requests, beside weir's.

    python3 server/peer/errors.py             a table of all that are asked, and what differs
    python3 server/peer/errors.py --weir FILE the command, where it is built already

NVIDIA's Triton Inference Server, of the pytriton wheel, and weir up serve the same model, and are
sent the same wrong requests over HTTP, with their bytes as they stand below, and over gRPC.
Compared are the status, and whether the body is {"error": text}; over gRPC the code. Where weir
means to answer otherwise, the reason stands beside the request; any other difference is a failure,
and so is a reason that is no longer needed. The exit code is 1 then, and 3 where the wheel cannot
be fetched.
"""

import argparse
import http.client
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "internal" / "conformance" / "peer")]

import environment  # noqa: E402
import place  # noqa: E402

INFER = "/v2/models/identity/infer"
HEADER = "Inference-Header-Content-Length"


def tensor(**fields):
    """A request with one input, which is right but for the fields."""
    x = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]} | fields
    return json.dumps({"inputs": [{k: v for k, v in x.items() if v is not None}]}).encode()


def binary(count, content, header=None, **fields):
    """A request with binary data."""
    text = tensor(**{"data": None, "parameters": {"binary_data_size": count}} | fields)
    return text + content, {HEADER: str(len(text) if header is None else header)}


def with_outputs(*outputs):
    return json.dumps({"inputs": [json.loads(tensor())["inputs"][0]],
                       "outputs": list(outputs)}).encode()


# Why weir answers otherwise.
READ = "Triton answers 500 where it cannot read what is asked: the client's fault, and 400 here"
KNOWN = "what is not there is 404 at every endpoint here"
TAKEN = "Triton takes it as if it were something else: here it is refused"
CRASH = "Triton ends"

# What is asked: a name, the method, the path, the body, headers, and why weir answers otherwise.
OVER_HTTP = [
    ("right", "POST", INFER, tensor(), {}, None),
    ("unknown model", "POST", "/v2/models/none/infer", tensor(), {}, None),
    ("unknown version", "POST", "/v2/models/identity/versions/9/infer", tensor(), {}, None),
    ("version in words", "POST", "/v2/models/identity/versions/x/infer", tensor(), {}, None),
    ("metadata of an unknown model", "GET", "/v2/models/none", None, {}, None),
    ("readiness of an unknown model", "GET", "/v2/models/none/ready", None, {}, KNOWN),
    ("configuration of an unknown model", "GET", "/v2/models/none/config", None, {}, None),
    ("statistics of an unknown model", "GET", "/v2/models/none/stats", None, {}, KNOWN),
    ("unknown path", "GET", "/v2/none", None, {}, None),
    ("unknown path of a model", "GET", "/v2/models/identity/none", None, {}, None),
    ("no path", "GET", "/none", None, {}, None),
    ("wrong method", "GET", INFER, None, {}, None),
    ("wrong method of metadata", "POST", "/v2/models/identity", b"{}", {}, None),
    ("no body", "POST", INFER, b"", {}, TAKEN),
    ("no JSON", "POST", INFER, b"none", {}, READ),
    ("JSON that ends", "POST", INFER, tensor()[:-3], {}, READ),
    ("JSON and more", "POST", INFER, tensor() + b"}", {}, READ),
    ("a list", "POST", INFER, b"[]", {}, READ),
    ("no inputs", "POST", INFER, b"{}", {}, READ),
    ("empty inputs", "POST", INFER, b'{"inputs":[]}', {}, None),
    ("inputs that are no list", "POST", INFER, b'{"inputs":{}}', {}, READ),
    ("no name", "POST", INFER, tensor(name=None), {}, READ),
    ("another name", "POST", INFER, tensor(name="z"), {}, None),
    ("no type", "POST", INFER, tensor(datatype=None), {}, READ),
    ("unknown type", "POST", INFER, tensor(datatype="FP99"), {}, None),
    ("another type", "POST", INFER, tensor(datatype="INT32"), {}, None),
    ("no shape", "POST", INFER, tensor(shape=None), {}, READ),
    ("another rank", "POST", INFER, tensor(shape=[1, 2]), {}, None),
    ("negative shape", "POST", INFER, tensor(shape=[-2]), {}, READ),
    ("shape in words", "POST", INFER, tensor(shape=["2"]), {}, READ),
    ("shape that overflows", "POST", INFER, tensor(shape=[2**62]), {}, CRASH),
    ("too few numbers", "POST", INFER, tensor(data=[1]), {}, READ),
    ("too many numbers", "POST", INFER, tensor(data=[1, 2, 3]), {}, READ),
    ("words in place of numbers", "POST", INFER, tensor(data=["a", "b"]), {}, READ),
    ("no data", "POST", INFER, tensor(data=None), {}, None),
    ("unknown output", "POST", INFER, with_outputs({"name": "z"}), {}, None),
    ("classes of none", "POST", INFER,
     with_outputs({"name": "y", "parameters": {"classification": -1}}), {}, READ),
    ("too little binary data", "POST", INFER, *binary(8, b"1234"), None),
    ("too much binary data", "POST", INFER, *binary(8, b"1" * 12), None),
    ("binary data of another size", "POST", INFER, *binary(4, b"1234"), None),
    ("a header beyond the body", "POST", INFER, *binary(8, b"12345678", header=10**6), None),
    ("a negative header", "POST", INFER, *binary(8, b"12345678", header=-1), None),
    ("a header in words", "POST", INFER, *binary(8, b"12345678", header="x"), TAKEN),
    ("raw data of another size", "POST", INFER, b"12345", {HEADER: "0"}, None),
    ("no gzip", "POST", INFER, tensor(), {"Content-Encoding": "gzip"}, TAKEN),
    ("unknown encoding", "POST", INFER, tensor(), {"Content-Encoding": "br"},
     "415 is HTTP's status for it"),
    ("an unknown field", "POST", INFER, tensor(extra=[1]), {}, None),
    ("both kinds of data", "POST", INFER, *binary(8, struct.pack("<2f", 1, 2), data=[1, 2]), None),
    ("load", "POST", "/v2/repository/models/identity/load", b"", {}, None),
    ("unload", "POST", "/v2/repository/models/identity/unload", b"", {}, None),
    ("index with a wrong body", "POST", "/v2/repository/index", b"none", {}, READ),
    ("index of what is ready", "POST", "/v2/repository/index", b'{"ready":true}', {}, None),
    ("index with words", "POST", "/v2/repository/index", b'{"ready":"yes"}', {}, READ),
    ("shared memory without a key", "POST", "/v2/systemsharedmemory/region/a/register", b"{}", {},
     None),
    ("shared memory that is not there", "POST", "/v2/systemsharedmemory/region/a/register",
     b'{"key":"/none-of-that","offset":0,"byte_size":8}', {}, READ),
    ("status of unknown shared memory", "GET", "/v2/systemsharedmemory/region/none/status", None,
     {}, None),
    ("end of unknown shared memory", "POST", "/v2/systemsharedmemory/region/none/unregister", b"",
     {}, "a body that is JSON"),
    ("input of unknown shared memory", "POST", INFER, tensor(data=None, parameters={
        "shared_memory_region": "none", "shared_memory_byte_size": 8}), {}, None),
    ("unknown trace setting", "POST", "/v2/trace/setting", b'{"none":["1"]}', {}, TAKEN),
    ("unknown log setting", "POST", "/v2/logging", b'{"none":1}', {}, TAKEN),
    ("generate of an unknown model", "POST", "/v2/models/none/generate", b"{}", {}, None),
    ("generate without inputs", "POST", "/v2/models/identity/generate", b"{}", {}, None),
]


def ask(address, method, path, body, headers):
    """The status, and how the body is made."""
    connection = http.client.HTTPConnection(address, timeout=20)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
    except (http.client.HTTPException, OSError) as error:
        return type(error).__name__, "", ""
    finally:
        connection.close()
    try:
        made = json.loads(text)
    except ValueError:
        made = None
    kind = "text" if text else "empty"
    if isinstance(made, dict):
        kind = "error" if list(made) == ["error"] else "object"
    return answer.status, kind, text.decode(errors="replace").strip()[:160]


class Triton:
    """The peer, from the beginning of a with statement to its end."""

    def __enter__(self):
        self.crashes = 0
        self.begin()
        return self

    def ask(self, *request):
        """As ask does; a server that the request has ended is begun again."""
        answer = ask(self.http, *request)
        if isinstance(answer[0], str):
            self.__exit__()
            self.crashes += 1
            self.begin()
        return answer

    def begin(self):
        script = HERE.parents[1] / "bench" / "peers" / "peer.py"
        self.process = subprocess.Popen([sys.executable, script, "triton"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(self.process.wait())
        about = json.loads(line)
        self.http, self.grpc, self.version = about["http"], about["grpc"], about["version"]

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)


def over_http(triton, weir):
    """Print the table, and return how many rows are not as they are meant."""
    bad = 0
    for name, method, path, body, headers, reason in OVER_HTTP:
        theirs = triton.ask(method, path, body, headers)
        ours = ask(weir.http, method, path, body, headers)
        bad += row(name, f"{theirs[0]} {theirs[1]}", f"{ours[0]} {ours[1]}", theirs[2], ours[2],
                   reason)
    return bad


def grpc_requests(pb):
    """What is asked over gRPC: a name, the call, its message, and why weir answers otherwise."""
    def infer(model="identity", version="", raw=b"12345678", outputs=(), contents=None, **fields):
        x = {"name": "x", "datatype": "FP32", "shape": [2]} | fields
        request = pb.ModelInferRequest(model_name=model, model_version=version)
        tensor_ = request.inputs.add(**x)
        if contents is not None:
            tensor_.contents.fp32_contents.extend(contents)
        for name in outputs:
            request.outputs.add(name=name)
        if raw is not None:
            request.raw_input_contents.append(raw)
        return "ModelInfer", request

    yield "right", *infer(), None
    yield "unknown model", *infer(model="none"), None
    yield "unknown version", *infer(version="9"), None
    yield "version in words", *infer(version="x"), KNOWN
    yield "no inputs", "ModelInfer", pb.ModelInferRequest(model_name="identity"), None
    yield "another name", *infer(name="z"), None
    yield "unknown type", *infer(datatype="FP99"), None
    yield "another type", *infer(datatype="INT32"), None
    yield "another rank", *infer(shape=[1, 2]), None
    yield "negative shape", *infer(shape=[-2]), None
    yield "too little data", *infer(raw=b"1234"), None
    yield "too much data", *infer(raw=b"1" * 12), None
    yield "no data", *infer(raw=None), None
    yield "too few numbers", *infer(raw=None, contents=[1]), None
    yield "both kinds of data", *infer(contents=[1, 2]), None
    yield "unknown output", *infer(outputs=["z"]), None
    yield "metadata of an unknown model", "ModelMetadata", pb.ModelMetadataRequest(
        name="none"), None
    yield "readiness of an unknown model", "ModelReady", pb.ModelReadyRequest(name="none"), None
    yield "configuration of an unknown model", "ModelConfig", pb.ModelConfigRequest(
        name="none"), None
    yield "statistics of an unknown model", "ModelStatistics", pb.ModelStatisticsRequest(
        name="none"), KNOWN
    yield "load", "RepositoryModelLoad", pb.RepositoryModelLoadRequest(
        model_name="identity"), None
    yield "shared memory that is not there", "SystemSharedMemoryRegister", \
        pb.SystemSharedMemoryRegisterRequest(name="a", key="/none-of-that", byte_size=8), READ
    yield "status of unknown shared memory", "SystemSharedMemoryStatus", \
        pb.SystemSharedMemoryStatusRequest(name="none"), None
    yield "trace settings of an unknown model", "TraceSetting", pb.TraceSettingRequest(
        model_name="none"), KNOWN


def over_grpc(triton, weir):
    """As over_http."""
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    def answer(address, call, request):
        with grpc.insecure_channel(address) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            try:
                getattr(stub, call)(request, timeout=20)
            except grpc.RpcError as error:
                return error.code().name, error.details()[:160]
        return "OK", ""

    bad = 0
    for name, call, request, reason in grpc_requests(service_pb2):
        theirs, ours = (answer(at.grpc, call, request) for at in (triton, weir))
        bad += row(f"gRPC, {name}", theirs[0], ours[0], theirs[1], ours[1], reason)
    return bad


def row(name, theirs, ours, said, says, reason):
    """Print what came, and return whether it is not as it is meant."""
    same = theirs == ours
    verdict = "same" if same else "meant" if reason else "DIFFERS"
    if same and reason:
        verdict = "NO LONGER"
    print(f"{verdict:9}  {name}: {theirs}, weir {ours}")
    if not same:
        print(f"           Triton: {said}\n           weir:   {says}\n           {reason or ''}")
    return verdict.isupper()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weir", type=pathlib.Path, metavar="FILE")
    asked = parser.parse_args()
    environment.enter_or_exit(HERE / "requirements.txt")
    with tempfile.TemporaryDirectory(prefix="weir-peer-") as made:
        folder = pathlib.Path(made)
        weir = asked.weir or place.build(folder)
        models = place.models(folder / "models")
        flags = ["--id", "triton", "--shared-memory", "/", "--control", "none"]
        with Triton() as triton, place.Server(weir, models, *flags) as server:
            print(f"Triton {triton.version}")
            bad = over_http(triton, server) + over_grpc(triton, server)
            print(f"{bad} not as meant; requests that ended Triton: {triton.crashes}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
