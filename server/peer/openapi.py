"""An OpenAPI description of what weir up answers below /v2, in JSON on standard output.

    python3 server/peer/openapi.py

The paths of the Open Inference Protocol are described here as its own OpenAPI file describes them
(kserve/open-inference-protocol, specification/protocol/open_inference_rest.yaml), and beside them
those that Triton's extensions add. schema.py holds both files against each other, and the routes of
package server are held against this one by a test of Go.
"""

import json

MODELS = ["simple", "simple_string", "simple_sequence", "simple_identity", "repeat_int32", "none"]
REGIONS = ["r", "s"]
TYPES = ["BOOL", "UINT8", "INT8", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"]

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
ANYTHING = {"type": "object"}


def to(name):
    return {"$ref": f"#/components/schemas/{name}"}


def record(required=(), **fields):
    return {"type": "object", "properties": fields, "required": list(required)}


def many(items, **bounds):
    return {"type": "array", "items": items, **bounds}


TENSOR = {"name": TEXT, "shape": many(WHOLE), "datatype": TEXT}
SCHEMAS = {
    "error": record(["error"], error=TEXT),
    "parameters": {"type": "object", "additionalProperties": {
        "anyOf": [TEXT, WHOLE, {"type": "number"}, {"type": "boolean"}]}},
    "server": record(["name", "version", "extensions"], name=TEXT, version=TEXT,
                     extensions=many(TEXT)),
    "tensor": record(["name", "datatype", "shape"], **TENSOR),
    "model": record(["name", "platform"], name=TEXT, versions=many(TEXT), platform=TEXT,
                    inputs=many(to("tensor")), outputs=many(to("tensor"))),
    # Data in lists in lists is taken as well; without bounds it is generated without end.
    "data": many({"anyOf": [{"type": "number"}, TEXT, {"type": "boolean"},
                            many({"type": "number"}, maxItems=4)]}, maxItems=32),
    "input": record(["name", "shape", "datatype"],
                    name={"type": "string", "enum": ["INPUT0", "INPUT1", "INPUT", "IN", "DELAY"]},
                    shape=many({"type": "integer", "format": "int64"}, maxItems=5),
                    datatype={"type": "string", "enum": TYPES}, data=to("data"),
                    parameters=to("inputParameters")),
    "inputParameters": record(binary_data_size=WHOLE, shared_memory_region=TEXT,
                              shared_memory_offset=WHOLE, shared_memory_byte_size=WHOLE),
    "output": record(["name"], name={"type": "string", "enum": ["OUTPUT0", "OUTPUT1", "OUTPUT"]},
                     parameters=record(classification=WHOLE, binary_data={"type": "boolean"},
                                       shared_memory_region=TEXT, shared_memory_offset=WHOLE,
                                       shared_memory_byte_size=WHOLE)),
    "inference": record(
        ["inputs"], id=TEXT, inputs=many(to("input"), maxItems=4),
        outputs=many(to("output"), maxItems=4),
        parameters=record(sequence_id={"anyOf": [TEXT, WHOLE]}, sequence_start={"type": "boolean"},
                          sequence_end={"type": "boolean"}, priority=WHOLE, timeout=WHOLE,
                          binary_data_output={"type": "boolean"})),
    "answered": record(["name", "shape", "datatype"], **TENSOR, data={"type": "array"},
                       parameters=to("parameters")),
    "answer": record(["model_name", "outputs"], model_name=TEXT, model_version=TEXT, id=TEXT,
                     parameters=to("parameters"), outputs=many(to("answered"))),
    "generation": {"type": "object", "properties": {
        "INPUT0": to("data"), "INPUT1": to("data"), "id": TEXT, "parameters": to("parameters")},
        "additionalProperties": to("data")},
    "health": record(live={"type": "boolean"}, ready={"type": "boolean"}, name=TEXT),
    "index": many(record(["name"], name=TEXT, version=TEXT,
                         state={"type": "string", "enum": ["READY", "LOADING", "UNLOADING",
                                                           "UNAVAILABLE"]}, reason=TEXT)),
    "load": record(parameters={"type": "object", "properties": {
        "config": TEXT, "file:1/model.onnx": {"type": "string", "format": "byte"},
        "unload_dependents": {"type": "boolean"}}}),
    "statistics": record(["model_stats"], model_stats=many(record(["name", "version"], name=TEXT,
                                                                  version=TEXT))),
    "systemRegion": record(["key", "byte_size"], key=TEXT, offset=WHOLE, byte_size=WHOLE),
    "cudaRegion": record(["raw_handle", "byte_size"], raw_handle=record(b64=TEXT),
                         device_id=WHOLE, byte_size=WHOLE),
    "traceSettings": {"type": "object", "properties": {
        "trace_level": {"anyOf": [many(TEXT), TEXT, {"type": "string", "nullable": True}]},
        "trace_rate": {"type": "string", "nullable": True},
        "trace_count": {"type": "string", "nullable": True},
        "log_frequency": {"type": "string", "nullable": True}}},
    "logSettings": record(log_verbose_level=WHOLE, log_info={"type": "boolean"},
                          log_warning={"type": "boolean"}, log_error={"type": "boolean"},
                          log_format=TEXT),
}

BINARY = {"type": "string", "format": "binary"}


def place(name, values):
    return {"name": name, "in": "path", "required": True,
            "schema": {"anyOf": [{"type": "string", "enum": values},
                                 {"type": "string", "minLength": 1, "maxLength": 300}]}}


def said(schema, *others, empty=False, kinds=("application/json", )):
    """The answers of an operation: 200, and the statuses of errors, all of which have a text."""
    well = {"description": "done"}
    if not empty:
        well["content"] = {kind: {"schema": schema} for kind in kinds}
    wrong = {"description": "why not", "content": {"application/json": {"schema": to("error")}}}
    return {"200": well} | {str(code): wrong for code in (400, 405, *others)}


def takes(schema, required=True, **others):
    content = {"application/json": {"schema": schema}}
    return {"required": required, "content": content | others}


PATHS = {}


def add(path, method, answers, body=None, headers=()):
    item = PATHS.setdefault(path, {})
    known = {"MODEL": MODELS, "VERSION": ["1"], "REGION": REGIONS}
    item["parameters"] = [place(name, values) for name, values in known.items()
                          if "{" + name + "}" in path]
    does = {"responses": answers}
    if headers:
        does["parameters"] = list(headers)
    if body:
        does["requestBody"] = body
    item[method] = does


HEADER_LENGTH = {"name": "Inference-Header-Content-Length", "in": "header",
                 "schema": {"type": "integer", "minimum": -5, "maximum": 2**33}}


def protocol():
    """What the protocol itself has."""
    add("/v2", "get", said(to("server")))
    add("/v2/health/live", "get", said(to("health")))
    add("/v2/health/ready", "get", said(to("health")) | {"503": said(to("health"))["200"]})
    for model in ("/v2/models/{MODEL}", "/v2/models/{MODEL}/versions/{VERSION}"):
        add(model, "get", said(to("model"), 404, 503))
        add(model + "/ready", "get", said(to("health"), 404, 503))
        PATHS[model + "/ready"]["get"]["responses"]["503"] = said(to("health"))["200"]
        add(model + "/infer", "post",
            said(to("answer"), 404, 408, 413, 415, 429, 501, 503,
                 kinds=("application/json", "application/octet-stream")),
            takes(to("inference"), **{"application/octet-stream": {"schema": BINARY}}),
            [HEADER_LENGTH])


def extensions():
    """What Triton adds."""
    for model in ("/v2/models/{MODEL}", "/v2/models/{MODEL}/versions/{VERSION}"):
        add(model + "/config", "get", said(ANYTHING, 404, 503))
        add(model + "/stats", "get", said(to("statistics"), 404, 503))
        add(model + "/generate", "post", said(ANYTHING, 404, 408, 413, 429, 501, 503),
            takes(to("generation")))
        add(model + "/generate_stream", "post",
            said(ANYTHING, 404, 408, 413, 429, 501, 503,
                 kinds=("text/event-stream", "application/json")), takes(to("generation")))
    add("/v2/models/stats", "get", said(to("statistics")))
    add("/v2/repository/index", "post", said(to("index")), takes(ANYTHING, required=False))
    for verb in ("load", "unload"):
        add("/v2/repository/models/{MODEL}/" + verb, "post",
            said(None, 404, 413, 501, 503, empty=True), takes(to("load"), required=False))
    for kind in ("system", "cuda"):
        memory = f"/v2/{kind}sharedmemory"
        for below in ("", "/region/{REGION}"):
            add(memory + below + "/status", "get", said(many(ANYTHING), 404, 501))
            add(memory + below + "/unregister", "post", said(None, 404, 501, empty=True))
        add(memory + "/region/{REGION}/register", "post", said(None, 404, 501, empty=True),
            takes(to(kind + "Region")))
    for settings in ("/v2/trace/setting", "/v2/models/{MODEL}/trace/setting"):
        add(settings, "get", said(to("traceSettings"), 404, 503))
        add(settings, "post", said(to("traceSettings"), 404, 501, 503), takes(to("traceSettings")))
    add("/v2/logging", "get", said(to("logSettings"), 501))
    add("/v2/logging", "post", said(to("logSettings"), 501), takes(to("logSettings")))


def description():
    protocol()
    extensions()
    return {"openapi": "3.0.3", "info": {"title": "weir up", "version": "2"}, "paths": PATHS,
            "components": {"schemas": SCHEMAS}}


if __name__ == "__main__":
    print(json.dumps(description(), indent=1))
