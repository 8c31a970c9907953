"""Every call of the clients of KServe's SDK, with what its answer must be.

    python sdk.py HTTP-ADDRESS GRPC-ADDRESS

Runs in an environment of its own, whose versions are not those of tritonclient's. Prints, for each
call, a line: the client, the call, ok or FAILED, and words, by tabs.
"""

import asyncio
import sys

import numpy as np
from kserve import (InferenceGRPCClient, InferenceRESTClient, InferInput, InferOutput,
                    InferRequest)
from kserve.inference_client import RESTConfig

assert InferOutput  # of what answers are made


def request(binary):
    """A request to "simple", whose inputs are in JSON or behind it."""
    inputs = []
    for name, value in (("INPUT0", 5), ("INPUT1", 2)):
        one = InferInput(name=name, shape=[1, 16], datatype="INT32")
        one.set_data_from_numpy(np.full((1, 16), value, np.int32), binary_data=binary)
        inputs.append(one)
    return InferRequest(model_name="simple", infer_inputs=inputs, request_id="7")


def right(answer):
    outputs = {o.name: o.as_numpy() for o in answer.outputs}
    assert (outputs["OUTPUT0"] == 7).all() and (outputs["OUTPUT1"] == 3).all(), outputs
    return "sum and difference"


async def health(client, *address):
    assert await client.is_server_live(*address)
    assert await client.is_server_ready(*address)
    assert await client.is_model_ready(*address, model_name="simple")
    return "True"


async def rest(http):
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    address = f"http://{http}"
    yield "is_server_live, is_server_ready, is_model_ready", lambda: health(client, address)
    for binary in (False, True):

        async def infer(binary=binary):
            return right(await client.infer(address, request(binary), model_name="simple"))

        yield f"infer, {'binary' if binary else 'JSON'}", infer

    async def unknown():
        try:
            await client.infer(address, request(False), model_name="nothing")
        except Exception as error:  # httpx's, which has the status in its text
            assert "404" in str(error), error
            return str(error)[:60]
        raise AssertionError("it was not refused")

    yield "infer, unknown model", unknown
    yield "close", lambda: closed(client)


async def closed(client):
    await client.close()
    return "closed"


async def rpc(address):
    client = InferenceGRPCClient(address)
    yield "is_server_live, is_server_ready, is_model_ready", lambda: health(client)
    for binary in (False, True):

        async def infer(binary=binary):
            return right(await client.infer(request(binary)))

        yield f"infer, {'raw' if binary else 'contents'}", infer
    yield "close", lambda: closed(client)


async def main(http, grpc):
    for name, checks in (("rest", rest(http)), ("grpc", rpc(grpc))):
        async for words, check in checks:
            try:
                outcome, said = "ok", await check()
            except Exception as error:  # whatever the client raises
                outcome, said = "FAILED", " ".join(str(error).split()) or type(error).__name__
            print("\t".join([name, words, outcome, said]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
