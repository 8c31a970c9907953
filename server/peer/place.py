"""A server to ask: weir up on free ports of this machine, with a folder of small models."""

import json
import os
import pathlib
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 40


def go(*arguments):
    """Run the Go command, as everything of weir is built."""
    environment = os.environ | {"CGO_ENABLED": "0"}
    subprocess.run(["go", *arguments], cwd=ROOT, env=environment, check=True)


def build(folder):
    """The command weir, in the folder."""
    weir = folder / "weir"
    subprocess.run(["deploy/static.sh", weir], cwd=ROOT, check=True)
    return weir


def models(folder):
    """The folder, filled with models."""
    go("run", "-trimpath", "./server/peer/models", folder)
    return folder


class Server:
    """weir up, from the beginning of a with statement to its end."""

    def __init__(self, weir, folder, *flags):
        self.command = [
            weir, "up", "--json", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--metrics",
            "", "--no-cache", "--models", folder, *flags
        ]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        try:
            line = self._first_object()
        except BaseException:
            self.process.kill()
            raise
        self.http = line["http"].removeprefix("http://")
        self.grpc = line["grpc"]
        self.ready = line["ready"]
        return self

    def _first_object(self):
        text = ""
        for line in self.process.stdout:
            text += line
            if line.rstrip() == "}" or (text.startswith("{") and line.rstrip().endswith("}")):
                return json.loads(text)
        raise RuntimeError(f"weir up ended with {self.process.wait()}")

    def memory(self):
        """Bytes that the process has in memory."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        kib = next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]
        return int(kib) * 1024

    def alive(self):
        return self.process.poll() is None

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
