"""Hold weir's messages against those of tritonclient: by the names, numbers and types of fields.

weir's are asked for by reflection, so that what is compared is what a server says of itself.
"""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from tritonclient.grpc import model_config_pb2, service_pb2

SERVICE = "inference.GRPCInferenceService"
FILE_BY_SYMBOL = 4  # field file_containing_symbol of a ServerReflectionRequest
FILE_BY_NAME = 3
FILES = (4, 1)  # file_descriptor_response, then file_descriptor_proto


def varint(number):
    out = b""
    while number > 0x7f:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def text_field(number, text):
    raw = text.encode()
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def fields(message):
    """The length-delimited fields of a message; others have none that are needed here."""
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        value, at = read_varint(message, at)
        if tag & 7 == 2:
            yield tag >> 3, message[at:at + value]
            at += value


def read_varint(message, at):
    number, shift = 0, 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7f) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def reflected(address):
    """A pool of what the server at an address says of its service."""
    pool = descriptor_pool.DescriptorPool()
    with grpc.insecure_channel(address) as channel:
        ask = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        seen, wanted = {}, [text_field(FILE_BY_SYMBOL, SERVICE)]
        while wanted:
            for answer in ask(iter([wanted.pop()])):
                for number, response in fields(answer):
                    if number != FILES[0]:
                        continue
                    for _, raw in fields(response):
                        file = descriptor_pb2.FileDescriptorProto.FromString(raw)
                        if file.name not in seen:
                            seen[file.name] = file
                            wanted += [text_field(FILE_BY_NAME, d) for d in file.dependency]
        add(pool, seen)
    return pool


def add(pool, files):
    """Each file after those that it needs."""
    done = set()

    def one(name):
        if name in done:
            return
        done.add(name)
        for needed in files[name].dependency:
            one(needed)
        pool.Add(files[name])

    for name in files:
        one(name)


def described(message):
    """What is on the wire of a message: its fields by number."""
    return {
        field.number: (field.name, field.type, field.is_repeated, kind(field), chosen(field))
        for field in message.fields
    }


def kind(field):
    """The name of the type of a field that has one, and an enumeration's values."""
    if field.message_type is not None:
        return field.message_type.full_name
    if field.enum_type is not None:
        return tuple((v.name, v.number) for v in field.enum_type.values)
    return None


def chosen(field):
    """The name of the choice that a field is one of."""
    return field.containing_oneof and field.containing_oneof.name


def compare(address):
    """What differs, in words; and how many methods and messages were held against each other."""
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    pool = reflected(address)
    ours = pool.FindServiceByName(SERVICE)
    differences = []
    for method in theirs.methods:
        mine = ours.methods_by_name.get(method.name)
        if mine is None:
            differences.append(f"{method.name} is missing")
        elif (mine.input_type.full_name, mine.output_type.full_name) != (
                method.input_type.full_name, method.output_type.full_name):
            differences.append(f"{method.name} has other messages")
    count = 0
    for file in (service_pb2, model_config_pb2):
        for message in every(file.DESCRIPTOR.message_types_by_name.values()):
            count += 1
            differences += of_message(pool, message)
    return differences, len(theirs.methods), count


def every(messages):
    for message in messages:
        yield message
        yield from every(message.nested_types)


def of_message(pool, theirs):
    """How weir's message differs from that of the same name. Fields that weir leaves out are
    skipped by whoever reads, and are no difference: one with another meaning is."""
    try:
        ours = pool.FindMessageTypeByName(theirs.full_name)
    except KeyError:
        return []  # of an extension that weir's configurations do not have
    mine, want = described(ours), described(theirs)
    return [
        f"{theirs.full_name}, field {number}: {have}, and tritonclient has {want.get(number)}"
        for number, have in mine.items() if have != want.get(number)
    ]
