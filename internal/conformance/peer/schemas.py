"""Write internal/op/schemas.txt: the attributes of every version of every operator in the ONNX
package that is installed.

    python internal/conformance/peer/schemas.py > internal/op/schemas.txt

One line a domain with the newest version of its operator set, then one line a version of an
operator: domain, name, version, "deprecated" where it is, and attributes as name:kind, with a *
where they are required.
"""

import onnx

HEADER = """\
# The operators of ONNX {version}: the newest operator sets, then each version of each operator with
# its attributes. Written by: python internal/conformance/peer/schemas.py > internal/op/schemas.txt
"""


def name_of(domain):
    return domain or "ai.onnx"


def attributes(schema):
    for name, a in sorted(schema.attributes.items()):
        kind = str(a.type).rsplit(".", 1)[-1].lower()
        yield f"{name}:{kind}{'*' if a.required else ''}"


def main():
    print(HEADER.format(version=onnx.__version__), end="")
    schemas = onnx.defs.get_all_schemas_with_history()
    for domain in sorted({s.domain for s in schemas}):
        print("opset", name_of(domain), max(s.since_version for s in schemas if s.domain == domain))
    for s in sorted(schemas, key=lambda s: (s.domain, s.name, s.since_version)):
        words = [name_of(s.domain), s.name, str(s.since_version)]
        if s.deprecated:
            words.append("deprecated")
        print(*words, *attributes(s))


if __name__ == "__main__":
    main()
