"""Frames of docs/spec/duplex.md, written a second time.

A frame is a type and its members, as in section 3 there. `WRITERS` make the
protobuf of each from the specification alone.
"""

import base64
import json

VARINT, BYTES = 0, 2

# --------------------------------------------------------------------------
# The wire format of protobuf


def varint(number):
    """Seven bits a byte, low ones first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """One field: a bool or number, or a text or bytes or a message."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(int(value))
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def message(fields):
    """Fields by number; what is None is absent."""
    return b"".join(field(number, value) for number, value in sorted(fields.items()) if value is not None)


def plain(value):
    """A field that is not `optional`: absent if it has the value that absence means."""
    return value if value not in (0, "", b"", False) else None


# --------------------------------------------------------------------------
# Frames


def unhex(text):
    """Bytes of hexadecimal."""
    return bytes.fromhex(text)


def unb64url(text):
    """Bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def content(frame):
    """The bytes of `data` or `base64`."""
    return frame["data"].encode() if "data" in frame else base64.b64decode(frame["base64"])


def hello(frame):
    """Section 3.2, Request with Hello."""
    key = frame.get("encryption_key")
    inner = message({
        16: frame.get("event_id"),
        17: frame.get("resume_token"),
        18: None if key is None else unb64url(key),
        19: plain(frame.get("proofs", False)),
    })
    return message({16: inner}) + message({4: frame["idempotency_key"]})


def chunk(frame):
    """Section 3.2, Request with ClientChunk."""
    return message({1: message({1: plain(content(frame))}), 5: frame["seqno"]})


def event(frame):
    """Section 3.2, ServerChunk."""
    if "record" in frame:
        inner = {2: frame["event_id"], 16: base64.b64decode(frame["record"]), 17: frame["number"]}
    else:
        inner = {1: plain(content(frame)), 2: frame["event_id"]}
    return message({1: message(inner)})


def welcome(frame):
    """Section 3.2, WelcomeMessage."""
    inner = message({
        1: plain(frame["message"]),
        2: plain(frame["is_degraded_mode"]),
        16: frame["mode"],
        17: frame.get("reason"),
        18: plain(frame["next_seqno"]),
        19: frame.get("event_id"),
        20: plain(frame["resume_token"]),
        21: plain(frame["resume_expires_in_ms"]),
        22: plain(frame["generation"]),
        23: plain(frame["credit_events"]),
        24: plain(frame["credit_bytes"]),
        25: frame.get("retry_after_ms"),
        26: frame.get("in_stream"),
        27: frame.get("out_stream"),
    })
    return message({3: inner})


def proof(frame):
    """Section 3.2, Proof."""
    fixed = message({
        16: plain(frame["commit"]),
        17: plain(frame["time"]),
        18: plain(frame["number"]),
        19: unhex(frame["head"]),
    })
    steps = [field(20, message({16: plain(step["left"]), 17: unhex(step["node"])})) for step in frame["path"]]
    rest = message({21: unb64url(frame["signature"]), 22: unhex(frame["key"])})
    return message({16: fixed + b"".join(steps) + rest})


def token(frame):
    """Section 3.2, Token."""
    inner = {16: plain(frame["resume_token"]), 17: plain(frame["resume_expires_in_ms"])}
    return message({17: message(inner)})


def error(frame):
    """Section 3.2, Error."""
    inner = {16: frame["code"], 17: plain(frame["message"]), 18: frame.get("retry_after_ms")}
    return message({19: message(inner)})


WRITERS = {
    "client": {
        "hello": hello,
        "chunk": chunk,
        "ack": lambda frame: message({17: message({16: frame.get("event_id")})}),
        "close": lambda frame: message({3: b""}),
        "abort": lambda frame: message({2: b""}),
    },
    "server": {
        "welcome": welcome,
        "ack": lambda frame: message({4: frame["seqno"]}),
        "event": event,
        "proof": proof,
        "token": token,
        "end": lambda frame: message({18: message({16: frame.get("event_id"), 17: plain(frame["aborted"])})}),
        "error": error,
    },
}

# --------------------------------------------------------------------------
# Cases

EVENT_ID = "0000000000000000_0000000000000007"
STREAM = "00112233445566778899aabbccddeeff0011223344556677"

WELCOME = {
    "type": "welcome",
    "mode": "durable",
    "is_degraded_mode": False,
    "message": "",
    "next_seqno": 0,
    "resume_token": "token",
    "resume_expires_in_ms": 900000,
    "generation": 1,
    "credit_events": 64,
    "credit_bytes": 262144,
}

PROOF = {
    "type": "proof",
    "commit": 9,
    "time": 1750000000000,
    "number": 7,
    "head": "ab" * 32,
    "path": [{"left": True, "node": "01" * 32}, {"left": False, "node": "02" * 32}],
    "signature": base64.urlsafe_b64encode(b"\xfb" * 64).rstrip(b"=").decode(),
    "key": "0102030405060708",
}

CLIENT = [
    ("hello of a new duplex", {"type": "hello", "idempotency_key": "k"}),
    (
        "hello with everything",
        {
            "type": "hello",
            "idempotency_key": "A-Z.a_z~0",
            "event_id": EVENT_ID,
            "resume_token": "token",
            "encryption_key": base64.urlsafe_b64encode(b"\xfb" * 32).rstrip(b"=").decode(),
            "proofs": True,
        },
    ),
    ("chunk of text", {"type": "chunk", "seqno": 0, "data": "hello"}),
    ("chunk without bytes", {"type": "chunk", "seqno": 1, "data": ""}),
    ("chunk that is no text", {"type": "chunk", "seqno": 4294967295, "base64": "//79"}),
    ("chunk with quotes", {"type": "chunk", "seqno": 300, "data": '{"a":"b"}\n'}),
    ("ack of the welcome", {"type": "ack"}),
    ("ack of an event", {"type": "ack", "event_id": EVENT_ID}),
    ("close", {"type": "close"}),
    ("abort", {"type": "abort"}),
]

SERVER = [
    ("welcome, new and durable", WELCOME),
    (
        "welcome with everything",
        {
            **WELCOME,
            "mode": "readonly",
            "reason": "the disk is full",
            "is_degraded_mode": True,
            "message": "try later",
            "next_seqno": 5,
            "event_id": EVENT_ID,
            "generation": 18446744073709551615,
            "retry_after_ms": 0,
            "in_stream": STREAM,
            "out_stream": STREAM,
        },
    ),
    ("welcome in memory", {**WELCOME, "mode": "memory", "is_degraded_mode": True}),
    ("ack of the first chunk", {"type": "ack", "seqno": 0}),
    ("ack of a later chunk", {"type": "ack", "seqno": 4294967295}),
    ("event of text", {"type": "event", "event_id": EVENT_ID, "data": "hello"}),
    ("event that is no text", {"type": "event", "event_id": EVENT_ID, "base64": "//79"}),
    ("event as a record", {"type": "event", "event_id": EVENT_ID, "number": 0, "record": "AQID"}),
    ("proof", PROOF),
    ("proof of a commit of one stream", {**PROOF, "path": []}),
    ("token", {"type": "token", "resume_token": "token", "resume_expires_in_ms": 1}),
    ("end without events", {"type": "end", "aborted": False}),
    ("end by an abort", {"type": "end", "event_id": EVENT_ID, "aborted": True}),
    ("error", {"type": "error", "code": "GAP", "message": "chunk 3 is missing"}),
    ("error with a hint", {"type": "error", "code": "READ_ONLY", "message": "", "retry_after_ms": 1000}),
]


def without(frame, member):
    """A frame that lacks a member."""
    return {name: value for name, value in frame.items() if name != member}


def refused_json():
    """Texts that are no frame."""
    chunk0 = {"type": "chunk", "seqno": 0, "data": "a"}
    event0 = {"type": "event", "event_id": EVENT_ID, "data": "a"}
    frames = [
        ("client", "no type", {"seqno": 0}),
        ("client", "a type that is not known", {"type": "chunks"}),
        ("client", "a type of the server", WELCOME),
        ("client", "a type that is no text", {"type": 1}),
        ("client", "a chunk without a seqno", without(chunk0, "seqno")),
        ("client", "a chunk without data", without(chunk0, "data")),
        ("client", "a chunk with both", {**chunk0, "base64": "YQ=="}),
        ("client", "a seqno as text", {**chunk0, "seqno": "0"}),
        ("client", "a seqno below zero", {**chunk0, "seqno": -1}),
        ("client", "a seqno of 33 bits", {**chunk0, "seqno": 2**32}),
        ("client", "a fraction as seqno", {**chunk0, "seqno": 1.5}),
        ("client", "base64 without padding", {**without(chunk0, "data"), "base64": "YQ"}),
        ("client", "base64 with other bits", {**without(chunk0, "data"), "base64": "YR=="}),
        ("client", "base64url", {**without(chunk0, "data"), "base64": "__79"}),
        ("client", "a hello without a key", {"type": "hello"}),
        ("client", "an idempotency key that is too long", {"type": "hello", "idempotency_key": "k" * 129}),
        ("client", "a token that is too long", {"type": "hello", "idempotency_key": "k", "resume_token": "t" * 513}),
        ("client", "a stream key that is too long", {"type": "hello", "idempotency_key": "k", "encryption_key": "A" * 44}),
        ("client", "an event id that is too long", {"type": "ack", "event_id": "e" * 65}),
        ("client", "an event id that is a number", {"type": "ack", "event_id": 7}),
        ("server", "a mode that is not known", {**WELCOME, "mode": "slow"}),
        ("server", "a mode that is degraded and says not", {**WELCOME, "mode": "memory"}),
        ("server", "a welcome without a generation", without(WELCOME, "generation")),
        ("server", "a stream that is none", {**WELCOME, "out_stream": STREAM[2:]}),
        ("server", "a stream in capitals", {**WELCOME, "out_stream": STREAM.upper()}),
        ("server", "a message that is too long", {**WELCOME, "message": "m" * 1025}),
        ("server", "an event without an id", without(event0, "event_id")),
        ("server", "an event with an empty id", {**event0, "event_id": ""}),
        ("server", "a record without a number", {**without(event0, "data"), "record": "AQID"}),
        ("server", "a number without a record", {**event0, "number": 0}),
        ("server", "a record and data", {**event0, "number": 0, "record": "AQID"}),
        ("server", "an error code that is not known", {"type": "error", "code": "gap", "message": ""}),
        ("server", "an end that does not say how", {"type": "end"}),
        ("server", "a head that is too short", {**PROOF, "head": "ab" * 31}),
        ("server", "a head in capitals", {**PROOF, "head": "AB" * 32}),
        ("server", "a signature that is too short", {**PROOF, "signature": PROOF["signature"][:-2]}),
        ("server", "a path of 65 steps", {**PROOF, "path": [{"left": True, "node": "01" * 32}] * 65}),
        ("server", "a step without a side", {**PROOF, "path": [{"node": "01" * 32}]}),
    ]
    for side, name, frame in frames:
        yield side, name, json.dumps(frame)
    yield "client", "nothing", ""
    yield "client", "an array", "[]"
    yield "client", "two objects", '{"type":"close"}{"type":"close"}'
    yield "client", "half an object", '{"type":"close"'
    yield "client", "a member twice", '{"type":"chunk","seqno":0,"seqno":1,"data":"a"}'
    yield "client", "half a surrogate pair", '{"type":"chunk","seqno":0,"data":"\\ud800"}'


def refused_protobuf():
    """Bytes that are no frame."""
    welcome0 = {16: "durable", 20: "token"}
    fields = {16: 9, 17: 1, 18: 7, 19: b"\xab" * 32, 21: b"\xfb" * 64, 22: b"\x01" * 8}
    yield "client", "nothing", b""
    yield "client", "a field that is not known", message({15: 1})
    yield "client", "a chunk without a seqno", message({1: message({1: b"a"})})
    yield "client", "a seqno alone", message({5: 0})
    yield "client", "a hello without a key", message({16: b""})
    yield "client", "an idempotency key that is too long", message({4: "k" * 129, 16: b""})
    yield "client", "a stream key of 33 bytes", message({4: "k", 16: message({18: b"\x00" * 33})})
    yield "client", "a token that is too long", message({4: "k", 16: message({17: "t" * 513})})
    yield "client", "a key that is no text", message({4: b"\xff", 16: b""})
    yield "client", "an event id that is too long", message({17: message({16: "e" * 65})})
    yield "client", "half a chunk", chunk({"seqno": 0, "data": "hello"})[:4]
    yield "client", "a group", b"\x0b\x0c"
    yield "client", "a chunk that is a number", message({1: 1})
    yield "server", "nothing", b""
    yield "server", "a field that is not known", message({2: b""})
    yield "server", "a mode that is not known", message({3: message({**welcome0, 16: "slow"})})
    yield "server", "no mode", message({3: message({20: "token"})})
    yield "server", "a mode that is degraded and says not", message({3: message({**welcome0, 16: "memory"})})
    yield "server", "a stream that is none", message({3: message({**welcome0, 27: STREAM[2:]})})
    yield "server", "an event without an id", message({1: message({1: b"a"})})
    yield "server", "a record without a number", message({1: message({2: "e", 16: b"r"})})
    yield "server", "a number without a record", message({1: message({2: "e", 17: 0})})
    yield "server", "a record and data", message({1: message({1: b"a", 2: "e", 16: b"r", 17: 0})})
    yield "server", "an error code that is not known", message({19: message({16: "gap"})})
    yield "server", "a head that is too short", message({16: message({**fields, 19: b"\xab" * 31})})
    yield "server", "a signature that is too short", message({16: message({**fields, 21: b"\xfb" * 63})})
    yield "server", "a key that is too short", message({16: message({**fields, 22: b"\x01" * 7})})
    yield "server", "a node that is too short", message({16: message({**fields, 20: message({17: b"\x01" * 31})})})
    steps = b"".join(field(20, message({17: b"\x01" * 32})) for _ in range(65))
    yield "server", "a path of 65 steps", message({16: message(fields) + steps})


def vectors():
    """The vector file."""
    frames = []
    for side, cases in (("client", CLIENT), ("server", SERVER)):
        for name, frame in cases:
            data = WRITERS[side][frame["type"]](frame)
            frames.append({"name": name, "side": side, "json": frame, "protobuf": data.hex()})
    also = [
        {"name": name, "side": side, "format": form, "message": text, "same_as": other}
        for name, side, form, text, other in (
            ("members that are not known", "client", "json", '{"x":[{}],"type":"close","seqno":"no"}', "close"),
            ("a deep member that is not known", "client", "json", '{"type":"close","x":' + "[" * 200 + "]" * 200 + "}", "close"),
            ("null is absent", "client", "json", '{"type":"ack","event_id":null}', "ack of the welcome"),
            ("text in base64", "client", "json", '{"type":"chunk","seqno":0,"base64":"aGVsbG8="}', "chunk of text"),
            ("escaped text", "client", "json", '{"type":"chunk","seqno":0,"data":"\\u0068ello"}', "chunk of text"),
            ("spaces", "client", "json", ' { "type" : "abort" } ', "abort"),
            ("a key with a chunk", "client", "protobuf", message({1: message({1: b"hello"}), 4: "k", 5: 0}).hex(), "chunk of text"),
            ("fields that are not known", "client", "protobuf", message({3: b"", 99: 1, 100: b"x"}).hex(), "close"),
            ("fields in another order", "client", "protobuf", (message({5: 0}) + message({1: message({1: b"hello"})})).hex(), "chunk of text"),
        )
    ]
    refused = [
        {"name": name, "side": side, "format": "json", "message": text} for side, name, text in refused_json()
    ] + [
        {"name": name, "side": side, "format": "protobuf", "message": data.hex()}
        for side, name, data in refused_protobuf()
    ]
    return {"format": "handback duplex frame vectors 1", "frames": frames, "also": also, "refused": refused}
