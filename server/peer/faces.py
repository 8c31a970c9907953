"""tritonclient's four clients, each asked in the same way."""

import inspect

import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio

TIMEOUT_S = 30


class Face:
    """One of the clients. Answers of gRPC are dictionaries, as those of HTTP are."""

    def __init__(self, name, server):
        self.name = name
        self.grpc = name.startswith("grpc")
        self.module = {
            "http": tritonclient.http,
            "http.aio": tritonclient.http.aio,
            "grpc": tritonclient.grpc,
            "grpc.aio": tritonclient.grpc.aio
        }[name]
        self.server = server
        self.client = self.new()

    def new(self, **options):
        """Another client of the same kind."""
        url = self.server.grpc if self.grpc else self.server.http
        return self.module.InferenceServerClient(url, **options)

    def methods(self):
        """The names of all calls."""
        return [
            name for name, _ in inspect.getmembers(self.module.InferenceServerClient,
                                                   inspect.isroutine)
            if not name.startswith("_") and "plugin" not in name
        ]

    async def call(self, method, *arguments, **options):
        function = getattr(self.client, method)
        if self.grpc and "as_json" in inspect.signature(function).parameters:
            options["as_json"] = True
        answer = function(*arguments, **options)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer

    async def close(self, client=None):
        done = (client or self.client).close()
        if inspect.isawaitable(done):
            await done

    def input(self, name, array, datatype, **options):
        made = self.module.InferInput(name, list(array.shape), datatype)
        made.set_data_from_numpy(array, **options)
        return made

    def output(self, name, **options):
        return self.module.InferRequestedOutput(name, **options)
