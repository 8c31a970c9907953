"""Operator census of ONNX models: what a runtime must implement to load them.

For every model: format versions, inputs and outputs, and for every operator
(subgraphs of If, Loop and Scan included) how often it occurs, with which
attribute values, which of its inputs are present, absent or constant, and on
which element types. Written as Markdown.
"""

import collections
import dataclasses

import onnx
from onnx import AttributeProto, TensorProto

MAX_VALUES = 8  # distinct attribute values listed before the rest is only counted


@dataclasses.dataclass
class OperatorUse:
    """How one operator is used in one model."""

    count: int = 0
    depth: int = 0  # deepest subgraph nesting at which it occurs
    attributes: dict = dataclasses.field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    signatures: collections.Counter = dataclasses.field(default_factory=collections.Counter)


def type_name(elem_type):
    return TensorProto.DataType.Name(elem_type).lower() if elem_type else "?"


def shape_text(value):
    """A value's declared type and shape; symbolic dimensions by name, unknown ones as '?'."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return f"{type_name(tensor.elem_type)} (rank unknown)"
    dims = [
        d.dim_param or (str(d.dim_value) if d.HasField("dim_value") else "?")
        for d in tensor.shape.dim
    ]
    return f"{type_name(tensor.elem_type)} [{', '.join(dims)}]"


def attribute_text(attribute):
    """One attribute's value, short enough for a table."""
    if attribute.type == AttributeProto.TENSOR:
        tensor = attribute.t
        text = f"{type_name(tensor.data_type)}{list(tensor.dims)}"
        if len(tensor.dims) == 0 or list(tensor.dims) == [1]:
            text += f"={onnx.numpy_helper.to_array(tensor).ravel()[0]}"
        return text
    if attribute.type == AttributeProto.GRAPH:
        graph = attribute.g
        return f"graph({len(graph.node)} nodes, {len(graph.output)} outputs)"
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


class Census:
    """Walks a model and gathers OperatorUse per operator."""

    def __init__(self, model):
        self.model = model
        self.uses = collections.defaultdict(OperatorUse)
        self.types = {}
        self.constants = set()
        self.shadowed = 0  # initializers also listed as graph inputs (IR version 3 style)
        inferred = onnx.shape_inference.infer_shapes(model)
        self._collect_types(inferred.graph)
        self._walk(model.graph, 0)
        input_names = {value.name for value in model.graph.input}
        self.shadowed = sum(t.name in input_names for t in model.graph.initializer)

    def _collect_types(self, graph):
        for value in [*graph.input, *graph.output, *graph.value_info]:
            self.types[value.name] = value.type.tensor_type.elem_type
        for tensor in graph.initializer:
            self.types[tensor.name] = tensor.data_type
            self.constants.add(tensor.name)
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants.add(node.output[0])
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    self._collect_types(attribute.g)

    def _walk(self, graph, depth):
        for node in graph.node:
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            use = self.uses[name]
            use.count += 1
            use.depth = max(use.depth, depth)
            use.signatures[self._signature(node)] += 1
            for attribute in node.attribute:
                use.attributes[attribute.name][attribute_text(attribute)] += 1
                if attribute.type == AttributeProto.GRAPH:
                    self._walk(attribute.g, depth + 1)

    def _signature(self, node):
        """Input element types in order; a trailing ' marks a constant, - an absent input."""
        parts = []
        for name in node.input:
            if not name:
                parts.append("-")
                continue
            parts.append(
                type_name(self.types.get(name, 0)) + ("'" if name in self.constants else ""))
        if len(parts) > 4 and len(set(parts)) == 1:
            parts = [f"{parts[0]}..."]
        return f"({', '.join(parts)}) -> {sum(bool(o) for o in node.output)}"

    def operators(self):
        return sorted(self.uses)


def counted(counter):
    """'value x count' for the most frequent values."""
    items = counter.most_common(MAX_VALUES)
    text = ", ".join(f"`{value}` x{count}" for value, count in items)
    rest = len(counter) - len(items)
    return text + (f", and {rest} more" if rest else "")


def markdown(name, model, inputs_tested):
    """The census of one model as a Markdown section."""
    census = Census(model)
    opsets = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import)
    weights = sum(len(t.raw_data) for t in model.graph.initializer)
    lines = [
        f"## {name}",
        "",
        f"IR {model.ir_version}, opsets: {opsets}; producer: "
        f"{model.producer_name or 'unnamed'} {model.producer_version}; "
        f"{sum(u.count for u in census.uses.values())} nodes (subgraphs included), "
        f"{len(model.graph.initializer)} initializers ({weights} raw bytes), "
        f"{census.shadowed} of them also graph inputs.",
        "",
    ]
    initializers = {t.name for t in model.graph.initializer}
    lines += [
        f"- input `{v.name}`: {shape_text(v)}" for v in model.graph.input
        if v.name not in initializers
    ]
    lines += [f"- output `{v.name}`: {shape_text(v)}" for v in model.graph.output]
    lines += [
        f"- tested with {inputs_tested}", "",
        "| operator | count | depth | inputs -> outputs | attributes |",
        "| --- | --- | --- | --- | --- |"
    ]
    for operator in census.operators():
        use = census.uses[operator]
        attributes = "; ".join(f"{a}: {counted(v)}" for a, v in sorted(use.attributes.items()))
        lines.append(
            f"| {operator} | {use.count} | {use.depth} | {counted(use.signatures)} | {attributes} |"
        )
    return "\n".join(lines) + "\n"


def union(models):
    """The operators of all models together: operator -> names of the models that use it."""
    users = collections.defaultdict(list)
    for name, model in models:
        for operator in Census(model).operators():
            users[operator].append(name)
    lines = ["## All operators", "", "| operator | models |", "| --- | --- |"]
    lines += [f"| {operator} | {', '.join(names)} |" for operator, names in sorted(users.items())]
    return "\n".join(lines) + "\n"
