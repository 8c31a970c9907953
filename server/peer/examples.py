"""The self-checking examples of Triton's client, as they are, against weir up.

Each ends with an exit code other than 0 where an answer is not what it expects. Left out are those
that need a GPU or models of pictures. Where one has the ports 8000 and 8001 in its text, a copy
with the server's is run.
"""

import shutil
import subprocess
import sys

import place

REPOSITORY = "https://github.com/triton-inference-server/client"
INSIDE = "src/python/examples"
CLONE_TIMEOUT_S = 120
SCRIPT_TIMEOUT_S = 120

HTTP, GRPC = ("http", ), ("grpc", )
# Of each script: which address it takes, and with which flags it is run.
SCRIPTS = {
    "grpc_client.py": (GRPC, [[]]),
    "grpc_explicit_byte_content_client.py": (GRPC, [[]]),
    "grpc_explicit_int8_content_client.py": (GRPC, [[]]),
    "grpc_explicit_int_content_client.py": (GRPC, [[]]),
    "memory_growth_test.py": ((), [["-i", "http", "-r", "100"], ["-i", "grpc", "-r", "100"]]),
    "reuse_infer_objects_client.py": (("http", "grpc"), [["-i", "http"], ["-i", "grpc"]]),
    "simple_grpc_aio_infer_client.py": (GRPC, [[]]),
    "simple_grpc_aio_sequence_stream_infer_client.py": (GRPC, [[], ["-d"]]),
    "simple_grpc_async_infer_client.py": (GRPC, [[]]),
    "simple_grpc_custom_args_client.py": (GRPC, [[]]),
    "simple_grpc_custom_repeat.py": (GRPC, [[]]),
    "simple_grpc_health_metadata.py": (GRPC, [[]]),
    "simple_grpc_infer_client.py": (GRPC, [[], ["-C", "gzip"]]),
    "simple_grpc_keepalive_client.py": (GRPC, [[]]),
    "simple_grpc_sequence_stream_infer_client.py": (GRPC, [[], ["-d"]]),
    "simple_grpc_sequence_sync_infer_client.py": (GRPC, [[], ["-d"]]),
    "simple_grpc_shm_client.py": (GRPC, [[]]),
    "simple_grpc_shm_string_client.py": (GRPC, [[]]),
    "simple_grpc_string_infer_client.py": (GRPC, [[]]),
    "simple_http_aio_infer_client.py": (HTTP, [[]]),
    "simple_http_async_infer_client.py": (HTTP, [[]]),
    "simple_http_health_metadata.py": (HTTP, [[]]),
    "simple_http_infer_client.py": (HTTP, [[],
                                           ["--request-compression-algorithm", "gzip",
                                            "--response-compression-algorithm", "deflate"]]),
    "simple_http_sequence_sync_infer_client.py": (HTTP, [[], ["-d"]]),
    "simple_http_shm_client.py": (HTTP, [[]]),
    "simple_http_shm_string_client.py": (HTTP, [[]]),
    "simple_http_string_infer_client.py": (HTTP, [[]]),
}
# These expect a server of their own that has loaded nothing, with so many models in its folder.
CONTROL = {"simple_http_model_control.py": 7, "simple_grpc_model_control.py": 8}
CONTROL_FLAGS = ["--id", "triton", "--control", "explicit"]
CONTROL_FIRST = "simple"  # which they load
NO_SCRIPTS = {
    "ensemble_image_client.py": "needs a model of pictures",
    "grpc_image_client.py": "needs a model of pictures",
    "image_client.py": "needs a model of pictures",
    "simple_grpc_cudashm_client.py": "needs a GPU",
    "simple_http_cudashm_client.py": "needs a GPU",
}


class Unreachable(Exception):
    """The repository of the examples does not answer."""


def clone(scratch):
    """The folder of the examples, from the repository."""
    to = scratch / "client"
    command = ["git", "clone", "--quiet", "--depth", "1", REPOSITORY, to]
    try:
        subprocess.run(command, check=True, timeout=CLONE_TIMEOUT_S, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unreachable(f"{REPOSITORY} cannot be cloned ({type(error).__name__}): name a "
                          "folder that has the examples by --examples") from None
    return to / INSIDE


def run_all(table, server, weir, models, folder, scratch):
    for name, (addresses, variants) in SCRIPTS.items():
        for flags in variants:
            table.row("example", " ".join([name, *flags]),
                      lambda: run(server, folder, name, addresses, flags, scratch))
    for name, count in CONTROL.items():
        some = few(models, scratch / f"models-{count}", count)
        with place.Server(weir, some, *CONTROL_FLAGS) as own:
            table.row("example", name,
                      lambda: run(own, folder, name, HTTP if "http" in name else GRPC, [], scratch))
    known = SCRIPTS | CONTROL | NO_SCRIPTS
    table.row("example", "all scripts of the folder are known", lambda: all_known(folder, known))


def all_known(folder, known):
    others = sorted(p.name for p in folder.glob("*.py") if p.name not in known)
    assert not others, ", ".join(others)
    return f"{len(known) - len(NO_SCRIPTS)} run; {len(NO_SCRIPTS)} need a GPU or pictures"


def few(models, folder, count):
    """A folder of so many of the models."""
    names = sorted(p.name for p in models.iterdir())
    names.insert(0, names.pop(names.index(CONTROL_FIRST)))
    for name in names[:count]:
        shutil.copytree(models / name, folder / name)
    return folder


def run(server, folder, name, addresses, flags, scratch):
    """Run one script; what it said last is the answer."""
    script = folder / name
    if not addresses:
        text = script.read_text().replace("localhost:8000", server.http)
        script = scratch / name
        script.write_text(text.replace("localhost:8001", server.grpc))
    elif len(addresses) > 1:
        flags = [*flags, "-u", server.http if "http" in flags else server.grpc]
    else:
        flags = [*flags, "-u", server.http if addresses == HTTP else server.grpc]
    done = subprocess.run([sys.executable, script, *flags], capture_output=True, text=True,
                          timeout=SCRIPT_TIMEOUT_S)
    said = (done.stdout + done.stderr).split("\n")
    last = next((line for line in reversed(said) if line.strip()), "")
    assert done.returncode == 0, f"exit code {done.returncode}: {last}"
    return last
