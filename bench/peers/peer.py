"""A server of another's with one model, "identity", whose output y is its input x.

    python peer.py triton|mlserver

Prints {"name": ..., "version": ..., "http": "host:port", "grpc": "host:port"} once it answers, and
ends with its standard input. Triton is the binary of the pytriton wheel with its Python backend,
the one backend that it has; MLServer computes in its own process, which costs it the least.
"""

import importlib.metadata
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "internal" / "conformance" / "peer")]

import environment  # noqa: E402

TRITON_CONFIG = """
backend: "python"
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""

TRITON_MODEL = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb.InferenceResponse([pb.Tensor("y", x)]) for x in inputs]
"""

MLSERVER_MODEL = """
from mlserver import MLModel
from mlserver.types import InferenceResponse, ResponseOutput


class Identity(MLModel):
    async def predict(self, payload):
        x = payload.inputs[0]
        y = ResponseOutput(name="y", shape=x.shape, datatype=x.datatype, data=x.data)
        return InferenceResponse(model_name=self.name, outputs=[y])
"""


def free():
    """A port that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wheels():
    """The folder of what is installed."""
    return pathlib.Path(sys.prefix) / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"


def triton(folder, ports):
    """The command that begins Triton."""
    home = wheels() / "pytriton" / "tritonserver"
    backends = folder / "backends"
    shutil.copytree(home / "backends", backends)
    stub = "triton_python_backend_stub"
    shutil.copy(home / "python_backend_stubs" / f"3.{sys.version_info[1]}" / stub,
                backends / "python" / stub)
    os.chmod(backends / "python" / stub, 0o755)
    model = folder / "models" / "identity"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(TRITON_CONFIG)
    (model / "1" / "model.py").write_text(TRITON_MODEL)
    binary = home / "bin" / "tritonserver"
    os.chmod(binary, 0o755)
    return [
        binary, f"--model-repository={folder / 'models'}", f"--backend-directory={backends}",
        f"--http-port={ports[0]}", f"--grpc-port={ports[1]}", "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1", "--allow-metrics=false", "--log-info=false"
    ]


def mlserver(folder, ports):
    """The command that begins MLServer."""
    (folder / "identity.py").write_text(MLSERVER_MODEL)
    (folder / "model-settings.json").write_text(json.dumps({
        "name": "identity", "implementation": "identity.Identity"}))
    (folder / "settings.json").write_text(json.dumps({
        "host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1], "parallel_workers": 0,
        "metrics_port": free(), "debug": False, "use_structured_logging": False}))
    return [pathlib.Path(sys.prefix) / "bin" / "mlserver", "start", folder]


def answers(address, process):
    """Wait until a server says that its model is ready."""
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"it ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://{address}/v2/models/identity/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit("it is not ready after a minute")


def main(which):
    environment.enter_or_exit(HERE / "requirements.txt")
    ports = [free(), free()]
    with tempfile.TemporaryDirectory(prefix="weir-peer-") as made:
        folder = pathlib.Path(made)
        command = {"triton": triton, "mlserver": mlserver}[which](folder, ports)
        there = {"PATH": os.pathsep.join([str(pathlib.Path(sys.prefix) / "bin"),
                                          os.environ["PATH"]]),
                 "LD_LIBRARY_PATH": str(wheels() / "nvidia_pytriton.libs")}
        said = (folder / "said").open("w+")
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=said, env=os.environ | there)
        try:
            try:
                answers(f"127.0.0.1:{ports[0]}", process)
            except SystemExit:
                said.seek(0)
                print(said.read(), file=sys.stderr)
                raise
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/v2") as about:
                told = json.load(about)
            version = told.get("version") or importlib.metadata.version(which)
            print(json.dumps({"name": which, "version": version,
                              "http": f"127.0.0.1:{ports[0]}",
                              "grpc": f"127.0.0.1:{ports[1]}"}), flush=True)
            sys.stdin.read()
        finally:
            process.terminate()
            process.wait(60)


main(*sys.argv[1:])
