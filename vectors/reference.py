"""A second implementation of the formats of docs/spec/tokens.md.

It exists to check the first one. Nothing in it is fast, and nothing in it
should be used to guard anything: it compares tags with `==` and keeps keys in
ordinary objects.

    python vectors/reference.py make     write the vector files
    python vectors/reference.py check    recompute everything in them
"""

import base64
import hashlib
import hmac
import json
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESGCMSIV

HERE = Path(__file__).resolve().parent
TOKEN_FILE = HERE / "token-v1.json"
FOREIGN_FILE = HERE / "request-state-foreign.json"
DUPLEX_FILE = HERE / "duplex-frames.json"

# --------------------------------------------------------------------------
# Section 1: notation


def u8(n):
    """One unsigned byte."""
    return struct.pack(">B", n)


def u32be(n):
    """Four bytes, big-endian, unsigned."""
    return struct.pack(">I", n)


def u64be(n):
    """Eight bytes, big-endian, unsigned."""
    return struct.pack(">Q", n)


def lp(data):
    """The data behind its own length."""
    return u32be(len(data)) + data


def raw(text):
    """Text or bytes as bytes."""
    return text.encode("utf-8") if isinstance(text, str) else text


def b64(data):
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


class NotCanonical(ValueError):
    """A text that is not the base64url of any byte string."""


_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def unb64(text):
    """The bytes behind a canonical base64url text; anything else is refused."""
    if len(text) % 4 == 1 or any(c not in _ALPHABET for c in text):
        raise NotCanonical(text)
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if b64(data) != text:
        raise NotCanonical(text)
    return data


# --------------------------------------------------------------------------
# Section 2: keys

STATES = {"active": 1, "accepting": 2, "retired": 3}
MODES = {"signed": 1, "sealed": 2}
ALGORITHMS = {"signed": "hmac-sha256-128", "sealed": "aes-256-gcm-siv"}


def hmac_sha256(key, data):
    """HMAC with SHA-256, all 32 bytes of it."""
    return hmac.new(key, data, hashlib.sha256).digest()


def hkdf_sha256(ikm, salt, info, length):
    """RFC 5869, extract and expand, spelled out."""
    prk = hmac_sha256(salt, ikm)
    okm, block, counter = b"", b"", 1
    while len(okm) < length:
        block = hmac_sha256(prk, block + info + u8(counter))
        okm += block
        counter += 1
    return okm[:length]


def derive(master, a, b):
    """derive(master, a, b) of section 2."""
    return hkdf_sha256(master, b"handback/v1", lp(raw(a)) + lp(raw(b)), 32)


class BadKey(ValueError):
    """A master key that no ring may hold."""


def checked_master(key):
    """The key itself, if it has 32 bytes that are not all the same."""
    if len(key) != 32 or len(set(key)) == 1:
        raise BadKey(key.hex())
    return key


@dataclass
class Slot:
    """One occupied slot."""

    slot: int
    state: str
    mode: str
    since: int
    key: bytes


@dataclass
class Ring:
    """A key ring; `slots` maps slot numbers to the occupied slots."""

    id: bytes
    generation: int
    next_slot: int
    slots: dict = field(default_factory=dict)

    @property
    def text_id(self):
        """The text form of the ring id."""
        return b64(self.id)

    @property
    def active(self):
        """The one slot that seals."""
        (only,) = [s for s in self.slots.values() if s.state == "active"]
        return only

    def key_for(self, slot, purpose):
        """K(slot, purpose)."""
        held = self.slots[slot]
        return derive(checked_master(held.key), purpose, ALGORITHMS[held.mode])

    def fingerprint(self):
        """What people compare: 16 hexadecimal digits."""
        data = lp(b"handback/v1/ring") + self.id + u64be(self.generation)
        for number in sorted(self.slots):
            s = self.slots[number]
            data += u8(number) + u8(STATES[s.state]) + u8(MODES[s.mode])
            data += derive(checked_master(s.key), "check", "none")[:8]
        return hashlib.sha256(data).digest()[:8].hex()


def ring_from_secret(secret, origin, mode):
    """The ring that replicas with one shared secret all arrive at."""
    checked_master(secret)
    key = derive(secret, "slot-0", origin)
    ring = Ring(derive(secret, "ring-id", origin)[:16], 1, 1)
    ring.slots[0] = Slot(0, "active", mode, 0, key)
    return ring


# --------------------------------------------------------------------------
# Section 3: purposes


@dataclass(frozen=True)
class Purpose:
    """One line of the table in section 3; times are in seconds."""

    longest: int
    default_ttl: int
    life: int
    head: int


PURPOSES = {
    "cursor": Purpose(512, 15 * 60, 24 * 3600, 0),
    "state": Purpose(16384, 5 * 60, 3600, 16 + 4),
    "resume": Purpose(512, 15 * 60, 2 * 3600, 16 + 4 + 4),
}

# --------------------------------------------------------------------------
# Section 4: context

FIELD_LIMIT = 65536
CONTEXT_MEMBERS = (
    "audience",
    "operation",
    "name_field",
    "issuer",
    "subject",
    "arguments",
    "tenant",
    "upstream",
    "client",
)


def context(purpose, members):
    """ctx, from the purpose and a mapping of CONTEXT_MEMBERS (None: absent).

    `arguments` is 32 bytes or their hexadecimal digits; all else is text.
    """
    values = [purpose] + [members.get(name) for name in CONTEXT_MEMBERS]
    if values[1] is None:
        raise ValueError("a context always has an audience")
    if isinstance(values[6], str):
        values[6] = bytes.fromhex(values[6])
    if values[6] is not None and len(values[6]) != 32:
        raise ValueError("an argument fingerprint has 32 bytes")
    data = lp(b"handback/v1/ctx")
    for number, value in enumerate(values, start=1):
        if value is None:
            data += u8(number) + b"\x00"
            continue
        value = raw(value)
        if len(value) > FIELD_LIMIT:
            raise ValueError("field %d is too long to be bound" % number)
        data += u8(number) + b"\x01" + lp(value)
    return hashlib.sha256(data).digest()


def ring_context(ring, purpose, members):
    """As `context`, with the ring id as the audience where none is given."""
    members = dict(members)
    if members.get("audience") is None:
        members["audience"] = ring.text_id
    return context(purpose, members)


def identified(members):
    """Whether the caller is identified (issuer and subject come together)."""
    have = [members.get("issuer") is not None, members.get("subject") is not None]
    if have[0] != have[1]:
        raise ValueError("issuer and subject come together")
    return have[0]


# --------------------------------------------------------------------------
# Section 5: wire forms

SIGNED, SEALED_1, SEALED_4 = 1, 2, 3
SALT_LENGTH = {SIGNED: 0, SEALED_1: 1, SEALED_4: 4}
SMALLEST = {SIGNED: 21, SEALED_1: 22, SEALED_4: 25}
FORM_MODE = {SIGNED: "signed", SEALED_1: "sealed", SEALED_4: "sealed"}


def siv(key, ctx, hdr, salt, data, opening=False):
    """The AEAD of sections 5 and 10, forwards or (`opening`) backwards."""
    nonce = ctx[: 12 - len(salt)] + salt
    aad = hdr + salt + ctx
    cipher = AESGCMSIV(key)
    return (cipher.decrypt if opening else cipher.encrypt)(nonce, data, aad)


def mac_tag(key, ctx, hdr, exp, body):
    """The 16-byte tag of the signed form; `exp` is its four bytes."""
    return hmac_sha256(key, lp(b"handback/v1/mac") + ctx + hdr + exp + body)[:16]


def seal_bytes(ring, slot, purpose, ctx, form, salt, exp, body):
    """Token bytes for exactly these values, whatever the rules for minting say."""
    assert len(salt) == SALT_LENGTH[form]
    hdr = u8(form << 4 | slot)
    key = ring.key_for(slot, purpose)
    if form == SIGNED:
        return hdr + u32be(exp) + body + mac_tag(key, ctx, hdr, u32be(exp), body)
    return hdr + salt + siv(key, ctx, hdr, salt, u32be(exp) + body)


class MintRefused(Exception):
    """Why nothing was minted: too_large, ttl, life_over or clock."""

    def __init__(self, why):
        super().__init__(why)
        self.why = why


@dataclass
class Opened:
    """What an accepted token says."""

    payload: bytes
    exp: int
    slot: int
    salt: bytes
    id: bytes = None
    born: int = None
    generation: int = None


def expiry(purpose, now, ttl, born=None):
    """exp, by the rules of section 5."""
    life = PURPOSES[purpose].life
    if not 1 <= ttl <= life:
        raise MintRefused("ttl")
    exp = now + ttl
    if purpose == "cursor":
        exp = -(-exp // 60) * 60
        if exp > now + life:
            exp = (now + life) // 60 * 60
    else:
        exp = min(exp, born + life)
    if exp >= 2**32:
        raise MintRefused("clock")
    return exp


class Draw:
    """A source of randomness that is known beforehand."""

    def __init__(self, data):
        self.data, self.used = data, 0

    def take(self, n):
        """The next n bytes."""
        part = self.data[self.used : self.used + n]
        assert len(part) == n, "too few random bytes"
        self.used += n
        return part


def mint(ring, purpose, members, now, ttl, draw, payload, after=None):
    """A token text and its exp; `after` is the `Opened` that it follows."""
    life = PURPOSES[purpose].life
    ctx = ring_context(ring, purpose, members)
    born, generation = now, 0
    if after is not None and purpose != "cursor":
        born = after.born
        if purpose == "resume":
            generation = after.generation + 1
        if now >= born + life or generation > 2**32 - 1:
            raise MintRefused("life_over")
    exp = expiry(purpose, now, ttl, born)
    head = b""
    if purpose != "cursor":
        head = draw.take(16) + u32be(born)
    if purpose == "resume":
        head += u32be(generation)
    active = ring.active
    if active.mode == "signed":
        form, salt = SIGNED, b""
    elif purpose == "cursor" and identified(members):
        form, salt = SEALED_1, b"\x00"
        if after is not None and len(after.salt) == 1:
            salt = u8((after.salt[0] + 1) % 256)
    else:
        form, salt = SEALED_4, draw.take(4)
    text = b64(seal_bytes(ring, active.slot, purpose, ctx, form, salt, exp, head + payload))
    if len(text) > PURPOSES[purpose].longest:
        raise MintRefused("too_large")
    return text, exp


# --------------------------------------------------------------------------
# Section 6: opening


class Refused(Exception):
    """Why a token was not accepted, for inside and for outside."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason
        self.outside = "expired" if reason in ("expired", "retired_key") else "invalid"


def open_token(ring, purpose, members, now, text):
    """Checks 1 to 9 of section 6, in their order."""
    rules = PURPOSES[purpose]
    ctx = ring_context(ring, purpose, members)
    if len(raw(text)) > rules.longest:
        raise Refused("too_long")
    try:
        token = unb64(text)
    except NotCanonical:
        raise Refused("malformed") from None
    form, number = (token[0] >> 4, token[0] & 15) if token else (0, 0)
    if form not in SMALLEST or len(token) < SMALLEST[form]:
        raise Refused("malformed")
    if number not in ring.slots:
        raise Refused("unknown_slot")
    slot = ring.slots[number]
    if FORM_MODE[form] != slot.mode:
        raise Refused("malformed")
    hdr, key = token[:1], ring.key_for(number, purpose)
    salt = token[1 : 1 + SALT_LENGTH[form]]
    rest = token[1 + len(salt) :]
    if form == SIGNED:
        plain = rest[:-16]
        if mac_tag(key, ctx, hdr, plain[:4], plain[4:]) != rest[-16:]:
            raise Refused("not_opened")
    else:
        try:
            plain = siv(key, ctx, hdr, salt, rest, opening=True)
        except InvalidTag:
            raise Refused("not_opened") from None
    if slot.state == "retired":
        raise Refused("retired_key")
    exp, body = int.from_bytes(plain[:4], "big"), plain[4:]
    if len(body) < rules.head:
        raise Refused("malformed")
    opened = Opened(body[rules.head :], exp, number, salt)
    if rules.head:
        opened.id, opened.born = body[:16], int.from_bytes(body[16:20], "big")
    if purpose == "resume":
        opened.generation = int.from_bytes(body[20:24], "big")
    born = opened.born
    if now >= exp + 60 or (born is not None and now >= born + rules.life + 60):
        raise Refused("expired")
    if exp > now + rules.life + 60 or (born is not None and born > now + 60):
        raise Refused("too_far")
    return opened


# --------------------------------------------------------------------------
# Section 7: payloads


def leb128(n):
    """An unsigned integer, seven bits to the byte, lowest first."""
    out = b""
    while n >= 0x80:
        out += u8(n & 0x7F | 0x80)
        n >>= 7
    return out + u8(n)


def page_payload(page_index, opaque_state):
    """The payload of a page cursor."""
    if not 0 <= page_index < 2**32 or len(opaque_state) > 256:
        raise ValueError("outside the limits of a page cursor")
    return leb128(page_index) + opaque_state


def read_page_payload(payload):
    """Page index and opaque state; ValueError for anything not minimal."""
    value = 0
    for at, byte in enumerate(payload[:5]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            break
    else:
        raise ValueError("no end of the page index")
    state = payload[at + 1 :]
    if page_payload(value, state) != payload:
        raise ValueError("page index not minimal")
    return value, state


BINDING_MEMBERS = {
    0: (),
    1: ("issuer", "subject"),
    2: ("operation", "name_field", "issuer", "subject"),
    3: ("operation", "name_field", "issuer", "subject", "arguments"),
}


def codec_members(binding, members):
    """The context members that a binding keeps."""
    return {name: members[name] for name in BINDING_MEMBERS[binding]}


def codec_mint(ring, binding, members, now, ttl, draw, state):
    """A request state text."""
    kept = codec_members(binding, members)
    return mint(ring, "state", kept, now, ttl, draw, u8(binding) + state)[0]


def codec_open(ring, binding, members, now, text):
    """The state inside; Refused otherwise."""
    opened = open_token(ring, "state", codec_members(binding, members), now, text)
    if opened.payload[:1] != u8(binding):
        raise Refused("not_opened")
    return opened.payload[1:]


# --------------------------------------------------------------------------
# Section 8: JSON, read strictly, and its fingerprint


class BadJson(ValueError):
    """Not the JSON that section 8 accepts."""


class Number:
    """A number as it was written."""

    def __init__(self, literal, whole, fraction, exponent):
        self.literal = literal
        self.plain = not fraction and not exponent
        self.negative = literal.startswith("-")
        digits = whole + fraction[1:]
        self.scale = int(exponent[1:] or 0) - len(fraction[1:])
        self.digits = digits.strip("0")
        if self.digits:
            self.scale += len(digits) - len(digits.rstrip("0"))
        else:
            self.scale = 0

    def integer(self):
        """The value, if it is an integer of magnitude below 2^128, else None."""
        if self.scale < 0 or len(self.digits) + self.scale > 39:
            return None
        value = int(self.digits or "0") * 10**self.scale
        if value >= 2**128:
            return None
        return -value if self.negative else value


class Reader:
    """A recursive reader of RFC 8259; objects come out as dicts, arrays as tuples."""

    ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

    def __init__(self, text, deepest):
        self.text, self.at, self.deepest = text, 0, deepest

    def fail(self, why):
        """Stop, saying where."""
        raise BadJson("%s at character %d" % (why, self.at))

    def peek(self):
        """The next character, or an empty text at the end."""
        return self.text[self.at : self.at + 1]

    def skip(self):
        """Pass over white space."""
        while self.peek() and self.peek() in " \t\n\r":
            self.at += 1

    def expect(self, literal):
        """Pass over exactly this text."""
        if not self.text.startswith(literal, self.at):
            self.fail("expected " + literal)
        self.at += len(literal)

    def document(self):
        """One value, with nothing but white space around it."""
        self.skip()
        value = self.value(0)
        self.skip()
        if self.peek():
            self.fail("something after the value")
        return value

    def value(self, depth):
        """Any value, inside `depth` arrays and objects."""
        c = self.peek()
        if c and c in "[{":
            if depth + 1 > self.deepest:
                self.fail("too deep")
            return self.array(depth + 1) if c == "[" else self.object(depth + 1)
        if c == '"':
            return self.string()
        for literal, value in (("true", True), ("false", False), ("null", None)):
            if self.text.startswith(literal, self.at):
                self.at += len(literal)
                return value
        return self.number()

    def array(self, depth):
        """An array, as a tuple."""
        items = []
        self.expect("[")
        self.skip()
        if self.peek() != "]":
            while True:
                self.skip()
                items.append(self.value(depth))
                self.skip()
                if self.peek() != ",":
                    break
                self.at += 1
        self.expect("]")
        return tuple(items)

    def object(self, depth):
        """An object, as a dict; a repeated key is an error."""
        members = {}
        self.expect("{")
        self.skip()
        if self.peek() != "}":
            while True:
                self.skip()
                key = self.string()
                if key in members:
                    self.fail("repeated key")
                self.skip()
                self.expect(":")
                self.skip()
                members[key] = self.value(depth)
                self.skip()
                if self.peek() != ",":
                    break
                self.at += 1
        self.expect("}")
        return members

    def hex4(self):
        """The code unit after \\u."""
        part = self.text[self.at : self.at + 4]
        if len(part) != 4 or any(c not in "0123456789abcdefABCDEF" for c in part):
            self.fail("bad escape")
        self.at += 4
        return int(part, 16)

    def string(self):
        """A string, unescaped."""
        out = []
        self.expect('"')
        while True:
            c = self.peek()
            if not c or c < " ":
                self.fail("bad character in a string")
            self.at += 1
            if c == '"':
                return "".join(out)
            if c != "\\":
                out.append(c)
                continue
            c = self.peek()
            self.at += 1
            if c != "u":
                if not c or c not in self.ESCAPES:
                    self.fail("bad escape")
                out.append(self.ESCAPES[c])
                continue
            unit = self.hex4()
            if 0xD800 <= unit < 0xDC00 and self.text.startswith("\\u", self.at):
                self.at += 2
                low = self.hex4()
                if not 0xDC00 <= low < 0xE000:
                    self.fail("lone surrogate")
                unit = 0x10000 + (unit - 0xD800 << 10) + (low - 0xDC00)
            elif 0xD800 <= unit < 0xE000:
                self.fail("lone surrogate")
            out.append(chr(unit))

    def digits(self):
        """One or more decimal digits."""
        start = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        if start == self.at:
            self.fail("expected a digit")
        return self.text[start : self.at]

    def number(self):
        """A number, kept as written."""
        start = self.at
        if self.peek() == "-":
            self.at += 1
        whole = self.digits()
        if len(whole) > 1 and whole[0] == "0":
            self.fail("leading zero")
        fraction = exponent = ""
        if self.peek() == ".":
            self.at += 1
            fraction = "." + self.digits()
        if self.peek() and self.peek() in "eE":
            self.at += 1
            exponent = "e"
            if self.peek() and self.peek() in "+-":
                exponent += self.peek()
                self.at += 1
            exponent += self.digits()
        return Number(self.text[start : self.at], whole, fraction, exponent)


def read_json(data, deepest=32):
    """One JSON value out of bytes or text."""
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8")
        except UnicodeDecodeError:
            raise BadJson("not UTF-8") from None
    return Reader(data, deepest).document()


def ecmascript(x):
    """A finite double as ECMAScript's Number::toString writes it."""
    if x == 0:
        return "0"
    if x < 0:
        return "-" + ecmascript(-x)
    mantissa, _, exponent = repr(x).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)
    point -= len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0")
    k = len(digits)
    if k <= point <= 21:
        return digits + "0" * (point - k)
    if 0 < point <= 21:
        return digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    sign = "+" if point > 0 else "-"
    tail = "." + digits[1:] if k > 1 else ""
    return "%s%se%s%d" % (digits[0], tail, sign, abs(point - 1))


def canonical_double(x):
    """A double by its exact value."""
    if x in (float("inf"), float("-inf")):
        raise BadJson("not finite")
    if x == int(x) and abs(x) < 2.0**128:
        return str(int(x))
    return ecmascript(x)


def number_as_written(number):
    """The way in for relayed texts."""
    exact = number.integer()
    if exact is not None:
        return str(exact)
    if number.plain:
        raise BadJson("integer too large")
    return canonical_double(float(number.literal))


def number_as_parsed(number):
    """The way in for values that a parser has already made."""
    if number.plain and number.literal != "-0":
        value = int(number.literal)
        if -(2**63) <= value < 2**64:
            return str(value)
    return canonical_double(float(number.literal))


SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def canonical_string(text):
    """A string with the escapes of section 8."""
    out = []
    for c in text:
        if c in SHORT_ESCAPES:
            out.append(SHORT_ESCAPES[c])
        elif c < " ":
            out.append("\\u%04x" % ord(c))
        else:
            out.append(c)
    return '"' + "".join(out) + '"'


def canonical(value, write_number):
    """Canonical JSON of a value that `read_json` gave."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return canonical_string(value)
    if isinstance(value, Number):
        return write_number(value)
    if isinstance(value, tuple):
        return "[" + ",".join(canonical(v, write_number) for v in value) + "]"
    keys = sorted(value, key=lambda k: k.encode("utf-16-be"))
    members = (canonical_string(k) + ":" + canonical(value[k], write_number) for k in keys)
    return "{" + ",".join(members) + "}"


def fingerprint_arguments(data, exclude, write_number):
    """Canonical text and fingerprint of one JSON text."""
    value = read_json(data)
    if isinstance(value, dict):
        # What is left out is still checked.
        canonical(value, write_number)
        value = {k: v for k, v in value.items() if k not in exclude}
    text = canonical(value, write_number)
    return text, hashlib.sha256(text.encode("utf-8")).digest()


# --------------------------------------------------------------------------
# Section 9: handles

BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"


class BadHandle(ValueError):
    """Why a handle is not one: malformed or mistyped."""


def base32(value, characters):
    """An integer as that many characters, most significant first."""
    return "".join(BASE32[value >> 5 * at & 31] for at in reversed(range(characters)))


def handle_checksum(data):
    """The three characters behind the 26."""
    digest = hashlib.sha256(lp(b"handback/v1/handle") + data).digest()
    return base32(int.from_bytes(digest[:2], "big") >> 1, 3)


def handle(data):
    """The text of 16 bytes."""
    assert len(data) == 16
    return "h" + base32(int.from_bytes(data, "big"), 26) + handle_checksum(data)


def read_handle(text):
    """The 16 bytes of a handle."""
    if len(text) != 30 or text[0] != "h" or any(c not in BASE32 for c in text[1:]):
        raise BadHandle("malformed")
    value = 0
    for c in text[1:27]:
        value = value << 5 | BASE32.index(c)
    if value >> 128:
        raise BadHandle("malformed")
    data = value.to_bytes(16, "big")
    if handle_checksum(data) != text[27:]:
        raise BadHandle("mistyped")
    return data


# --------------------------------------------------------------------------
# Sections 10 and 11: wrapped keys, token fingerprints

WRAP_ALGORITHM = ALGORITHMS["sealed"]


def wrap_under(ring, slot, purpose, name, salt, key):
    """The text of a wrapped key, under any slot."""
    assert len(salt) == 4 and len(key) == 32
    ctx = ring_context(ring, purpose, {"name_field": name})
    hdr = u8(0x40 | slot)
    wrapping = derive(checked_master(ring.slots[slot].key), purpose, WRAP_ALGORITHM)
    return b64(hdr + salt + siv(wrapping, ctx, hdr, salt, key))


def wrap(ring, purpose, name, draw, key):
    """The text of a newly wrapped key: always under the active slot."""
    return wrap_under(ring, ring.active.slot, purpose, name, draw.take(4), key)


def unwrap(ring, purpose, name, text):
    """The 32 bytes; Refused otherwise. Slots of every state unwrap."""
    try:
        data = unb64(text)
    except NotCanonical:
        raise Refused("malformed") from None
    if len(text) != 71 or data[0] >> 4 != 4:
        raise Refused("malformed")
    slot = data[0] & 15
    if slot not in ring.slots:
        raise Refused("unknown_slot")
    ctx = ring_context(ring, purpose, {"name_field": name})
    wrapping = derive(checked_master(ring.slots[slot].key), purpose, WRAP_ALGORITHM)
    try:
        return siv(wrapping, ctx, data[:1], data[1:5], data[5:], opening=True)
    except InvalidTag:
        raise Refused("not_opened") from None


def token_fingerprint(text):
    """What stands for a token in audit lines."""
    return hashlib.sha256(raw(text)).digest()[:8].hex()


# --------------------------------------------------------------------------
# Section 12: key file

KEY_FILE_FORMAT = "handback-keys/1"
KEY_FILE_LIMIT = 16384


class BadKeyFile(ValueError):
    """A key file that is refused, and why."""


def key_file(ring):
    """The ring as the text of a key file, members in the order of the tables."""
    slots = [
        {"slot": n, "state": s.state, "mode": s.mode, "since": s.since, "key": b64(s.key)}
        for n, s in sorted(ring.slots.items())
    ]
    return json.dumps(
        {
            "format": KEY_FILE_FORMAT,
            "id": ring.text_id,
            "generation": ring.generation,
            "next_slot": ring.next_slot,
            "slots": slots,
        },
        separators=(",", ":"),
    )


def _members(value, names):
    """The members of an object that has exactly these."""
    if not isinstance(value, dict) or set(value) != set(names):
        raise BadKeyFile("not an object with exactly %s" % ", ".join(names))
    return [value[name] for name in names]


def _integer(value, low, high):
    """An integer written as one (no fraction, no exponent), within bounds."""
    if not isinstance(value, Number) or not value.plain or value.negative:
        raise BadKeyFile("not an unsigned integer")
    if not low <= int(value.literal) <= high:
        raise BadKeyFile("integer out of range")
    return int(value.literal)


def _bytes(value, length):
    """That many bytes in canonical base64url."""
    if not isinstance(value, str):
        raise BadKeyFile("not a string")
    try:
        data = unb64(value)
    except NotCanonical:
        raise BadKeyFile("not canonical base64url") from None
    if len(data) != length:
        raise BadKeyFile("not %d bytes" % length)
    return data


def read_key_file(text):
    """The ring in a key file; BadKeyFile for everything section 12 excludes."""
    if len(raw(text)) > KEY_FILE_LIMIT:
        raise BadKeyFile("too long")
    try:
        top = read_json(text)
    except BadJson as error:
        raise BadKeyFile(str(error)) from None
    names = ("format", "id", "generation", "next_slot", "slots")
    kind, ring_id, generation, next_slot, slots = _members(top, names)
    if kind != KEY_FILE_FORMAT:
        raise BadKeyFile("unknown format")
    ring = Ring(_bytes(ring_id, 16), _integer(generation, 1, 2**53 - 1), _integer(next_slot, 0, 15))
    if not isinstance(slots, tuple) or not 1 <= len(slots) <= 16:
        raise BadKeyFile("not 1 to 16 slots")
    for entry in slots:
        number, state, mode, since, key = _members(entry, ("slot", "state", "mode", "since", "key"))
        number = _integer(number, 0, 15)
        if not isinstance(state, str) or state not in STATES:
            raise BadKeyFile("unknown state")
        if not isinstance(mode, str) or mode not in MODES:
            raise BadKeyFile("unknown mode")
        if number in ring.slots:
            raise BadKeyFile("slot given twice")
        try:
            key = checked_master(_bytes(key, 32))
        except BadKey:
            raise BadKeyFile("worthless key") from None
        ring.slots[number] = Slot(number, state, mode, _integer(since, 0, 2**64 - 1), key)
    held = list(ring.slots.values())
    if [s.state for s in held].count("active") != 1:
        raise BadKeyFile("not exactly one active slot")
    if len({s.key for s in held}) != len(held):
        raise BadKeyFile("two slots with the same key")
    return ring


# --------------------------------------------------------------------------
# The foreign request state format, `v1.` and `v1e.`

ZERO_SALT = bytes(32)
AES_INFO = b"mcp.requestState aes-256-gcm key"
BIND_INFO = b"mcp.requestState bind-hmac key"
PAYLOAD_INFO = b"mcp.requestState payload-hmac key"


def foreign_keys(schedule, key):
    """The AES key, the bind key and the payload MAC key of a schedule."""
    assert len(key) >= 32
    if schedule == "raw":
        return key[:32], key, key
    aes, bind, mac = (hkdf_sha256(key, ZERO_SALT, info, 32) for info in (AES_INFO, BIND_INFO, PAYLOAD_INFO))
    return (aes, bind, bind) if schedule == "two" else (aes, bind, mac)


def foreign_bind_tag(schedule, key, binding, subject, method, target_name):
    """64 hexadecimal digits for whom, and for what, a state is."""
    material = b""
    if binding != "none":
        material = raw(subject)
    if binding == "authSubjectAndTool":
        material += b"\x00"
        if schedule == "three":
            material += raw(method) + b"\x00"
        material += raw(target_name)
    return hmac_sha256(foreign_keys(schedule, key)[1], material).hex()


def foreign_signed(schedule, key, payload):
    """A `v1.` text around these payload bytes."""
    return "v1." + b64(payload) + "." + b64(hmac_sha256(foreign_keys(schedule, key)[2], payload))


def foreign_encrypted(schedule, key, bind_tag, nonce, payload):
    """A `v1e.` text around these payload bytes."""
    aes = foreign_keys(schedule, key)[0]
    return "v1e." + b64(nonce + AESGCM(aes).encrypt(nonce, payload, raw(bind_tag)))


def foreign_payload(schedule, key, mode, bind_tag, text):
    """The authenticated payload bytes; Refused otherwise."""
    aes, _, mac = foreign_keys(schedule, key)
    try:
        if mode == "signed":
            version, payload, tag = text.split(".")
            payload, tag = unb64(payload), unb64(tag)
            if version == "v1" and tag == hmac_sha256(mac, payload):
                return payload
        elif text.startswith("v1e."):
            blob = unb64(text[4:])
            if len(blob) >= 12 + 16:
                return AESGCM(aes).decrypt(blob[:12], blob[12:], raw(bind_tag))
    except (ValueError, InvalidTag):
        pass
    raise Refused("not_opened")


def foreign_open(case):
    """State and exp of a foreign case, as its opener sees them."""
    schedule, key = case["schedule"], bytes.fromhex(case["key"])
    bind_tag = foreign_bind_tag(
        schedule, key, case["binding"], case["subject"], case["method"], case["target_name"]
    )
    payload = foreign_payload(schedule, key, case["mode"], bind_tag, case["text"])
    try:
        value = read_json(payload)
    except BadJson:
        raise Refused("malformed") from None
    if not isinstance(value, dict):
        raise Refused("malformed")
    state, exp, tag = value.get("s"), value.get("exp"), value.get("b")
    if not isinstance(state, str) or not isinstance(tag, str):
        raise Refused("malformed")
    if not isinstance(exp, Number) or not exp.plain:
        raise Refused("malformed")
    if tag != bind_tag:
        raise Refused("not_opened")
    if int(exp.literal) < case["now"]:
        raise Refused("expired")
    return state, int(exp.literal)


def mint_case(ring, case):
    """Text, exp and the number of random bytes used, for a case of `mint`."""
    after = None
    if case["after"] is not None:
        before = case["after"]
        after = open_token(ring, case["purpose"], case["context"], before["now"], before["text"])
    draw = Draw(bytes.fromhex(case["random"]))
    text, exp = mint(
        ring,
        case["purpose"],
        case["context"],
        case["now"],
        case["ttl"],
        draw,
        bytes.fromhex(case["payload"]),
        after,
    )
    return text, exp, draw.used


def expect_open(ring, case):
    """The `expect` member for a case of `open`."""
    try:
        opened = open_token(ring, case["purpose"], case["context"], case["now"], case["text"])
    except Refused as refused:
        return {"reason": refused.reason, "outside": refused.outside}
    out = {
        "payload": opened.payload.hex(),
        "exp": opened.exp,
        "slot": opened.slot,
        "salt": opened.salt.hex(),
    }
    if opened.id is not None:
        out.update(id=opened.id.hex(), born=opened.born)
    if opened.generation is not None:
        out.update(generation=opened.generation)
    return out


def expect_foreign(case):
    """The `expect` member for a foreign case; what opens must say what it was made of."""
    try:
        state, exp = foreign_open(case)
    except Refused as refused:
        return "expired" if refused.reason == "expired" else "refused"
    assert (state, exp) == (case["state"], case["exp"]), case["name"]
    return "opens"


# --------------------------------------------------------------------------
# Checking the files

PRIMITIVES = (
    (
        "RFC 5869, test case 1",
        lambda: hkdf_sha256(
            b"\x0b" * 22, bytes.fromhex("000102030405060708090a0b0c"), bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"), 42
        ),
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    (
        "RFC 4231, test case 2",
        lambda: hmac_sha256(b"Jefe", b"what do ya want for nothing?"),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
    (
        "RFC 8452, appendix C.2, plaintext of 8 bytes",
        lambda: AESGCMSIV(b"\x01" + bytes(31)).encrypt(b"\x03" + bytes(11), b"\x01" + bytes(7), b""),
        "c2ef328e5c71c83b843122130f7364b761e0b97427e3df28",
    ),
    (
        "RFC 8452, appendix C.2, plaintext of 8 bytes, 1 byte of additional data",
        lambda: AESGCMSIV(b"\x01" + bytes(31)).encrypt(b"\x03" + bytes(11), b"\x02" + bytes(7), b"\x01"),
        "1de22967237a813291213f267e3b452f02d01ae33e4ec854",
    ),
)


def refuses(error, call, *arguments):
    """Whether the call raises this error."""
    try:
        call(*arguments)
    except error:
        return True
    return False


def ring_of(entry):
    """A ring out of the `rings` section."""
    ring = Ring(bytes.fromhex(entry["id"]), entry["generation"], entry["next_slot"])
    for s in entry["slots"]:
        ring.slots[s["slot"]] = Slot(s["slot"], s["state"], s["mode"], s["since"], bytes.fromhex(s["key"]))
    return ring


class Check:
    """One method for each section; each takes a case and says whether it holds."""

    def __init__(self, data):
        self.data = data
        self.held = {name: ring_of(entry) for name, entry in data["rings"].items()}

    def ring(self, case):
        """The ring that a case names."""
        return self.held[case["ring"]]

    def derive(self, case):
        return derive(bytes.fromhex(case["master"]), case["a"], case["b"]).hex() == case["key"]

    def rings(self, entry):
        ring = ring_of(entry)
        return ring.fingerprint() == entry["fingerprint"] and read_key_file(entry["file"]) == ring

    def secret_rings(self, case):
        ring = ring_from_secret(bytes.fromhex(case["secret"]), case["origin"], case["mode"])
        got = (ring.id.hex(), ring.slots[0].key.hex(), ring.fingerprint())
        return got == (case["id"], case["master"], case["fingerprint"])

    def ring_files_accepted(self, case):
        return read_key_file(case["text"]).fingerprint() == case["fingerprint"]

    def ring_files_refused(self, case):
        return refuses(BadKeyFile, read_key_file, case["text"])

    def contexts(self, case):
        return context(case["purpose"], case).hex() == case["ctx"]

    def mint(self, case):
        """The text is made again, and opens at the time it was made."""
        text, exp, used = mint_case(self.ring(case), case)
        opened = open_token(self.ring(case), case["purpose"], case["context"], case["now"], case["text"])
        same = (text, exp, used * 2) == (case["text"], case["exp"], len(case["random"]))
        return same and (opened.payload.hex(), opened.exp) == (case["payload"], exp)

    def mint_refused(self, case):
        try:
            mint_case(self.ring(case), case)
        except MintRefused as refused:
            return refused.why == case["why"]
        return False

    def open(self, case):
        return expect_open(self.ring(case), case) == case["expect"]

    def cursor_issuer(self, case):
        payload = bytes.fromhex(case["payload"])
        if case.get("refused"):
            return refuses(ValueError, read_page_payload, payload)
        page, state = read_page_payload(payload)
        made = page_payload(page, state) == payload
        return made and (page, state.hex()) == (case["page_index"], case["opaque_state"])

    def request_state_codec(self, case):
        ring, state = self.ring(case), bytes.fromhex(case["state"])
        draw = Draw(bytes.fromhex(case["random"]))
        text = codec_mint(ring, case["binding"], case, case["now"], case["ttl"], draw, state)
        opened = codec_open(ring, case["binding"], case, case["now"], case["text"])
        return text == case["text"] and opened == state

    def request_state_refused(self, case):
        try:
            codec_open(self.ring(case), case["binding"], case, case["now"], case["text"])
        except Refused as refused:
            return refused.reason == case["reason"]
        return False

    def _fingerprint(self, case, way):
        data = bytes.fromhex(case["text_hex"]) if "text_hex" in case else raw(case["text"])
        if case.get("refused"):
            return refuses(BadJson, fingerprint_arguments, data, case["exclude"], way)
        text, digest = fingerprint_arguments(data, case["exclude"], way)
        return (text, digest.hex()) == (case["canonical"], case["fingerprint"])

    def fingerprints_text(self, case):
        return self._fingerprint(case, number_as_written)

    def fingerprints_value(self, case):
        return self._fingerprint(case, number_as_parsed)

    def handles(self, case):
        data = bytes.fromhex(case["bytes"])
        return handle(data) == case["text"] and read_handle(case["text"]) == data

    def handles_refused(self, case):
        try:
            read_handle(case["text"])
        except BadHandle as error:
            return str(error) == case["why"]
        return False

    def wrapped(self, case):
        draw, key = Draw(bytes.fromhex(case["random"])), bytes.fromhex(case["key"])
        text = wrap(self.ring(case), case["purpose"], case["name_field"], draw, key)
        return text == case["text"] and self.unwrapped(case)

    def unwrapped(self, case):
        key = unwrap(self.ring(case), case["purpose"], case["name_field"], case["text"])
        return key.hex() == case["key"]

    def wrapped_refused(self, case):
        return refuses(Refused, unwrap, self.ring(case), case["purpose"], case["name_field"], case["text"])

    def token_fingerprints(self, case):
        return token_fingerprint(case["text"]) == case["fingerprint"]


def check_foreign(case):
    """A foreign case; what opens unchanged is also made again."""
    if expect_foreign(case) != case["expect"]:
        return False
    if case["expect"] == "refused":
        return True
    key, payload = bytes.fromhex(case["key"]), raw(case["payload"])
    if case["mode"] == "signed":
        return foreign_signed(case["schedule"], key, payload) == case["text"]
    tag = foreign_bind_tag(
        case["schedule"], key, case["binding"], case["subject"], case["method"], case["target_name"]
    )
    nonce = bytes.fromhex(case["nonce"])
    return foreign_encrypted(case["schedule"], key, tag, nonce, payload) == case["text"]


# --------------------------------------------------------------------------
# Command line


def written(vectors):
    """The text of a vector file."""
    return json.dumps(vectors, indent=1, ensure_ascii=True) + "\n"


def files():
    """The vector files, as they ought to be."""
    import cases
    import duplex

    return (
        (TOKEN_FILE, cases.token_vectors()),
        (FOREIGN_FILE, cases.foreign_vectors()),
        (DUPLEX_FILE, duplex.vectors()),
    )


def make():
    """Write the vector files."""
    for path, vectors in files():
        path.write_text(written(vectors), encoding="ascii", newline="\n")
        print("%s: %d bytes" % (path.name, path.stat().st_size))
    return 0


class Tally:
    """Counts what passed and what failed, and prints it."""

    def __init__(self):
        self.passed = self.failed = 0

    def section(self, name, cases, holds):
        """Run one section."""
        bad = []
        for label, case in cases:
            try:
                fine = holds(case)
            except Exception as error:
                fine, label = False, "%s (%s: %s)" % (label, type(error).__name__, error)
            if not fine:
                bad.append(label)
        self.passed += len(cases) - len(bad)
        self.failed += len(bad)
        print("%-24s %5d cases%s" % (name, len(cases), ", %d FAILED" % len(bad) if bad else ""))
        for label in bad[:20]:
            print("    failed: %s" % label)


def labelled(section):
    """The cases of a section with something to call them by."""
    if isinstance(section, dict):
        return list(section.items())
    return [(case.get("name", str(at)), case) for at, case in enumerate(section)]


def check():
    """Recompute every expectation in the vector files."""
    tally = Tally()
    primitives = [(name, (call, want)) for name, call, want in PRIMITIVES]
    tally.section("primitives", primitives, lambda case: case[0]().hex() == case[1])
    tokens = json.loads(TOKEN_FILE.read_text(encoding="ascii"))
    checks = Check(tokens)
    for name, section in tokens.items():
        if name != "format":
            tally.section(name, labelled(section), getattr(checks, name))
    foreign = json.loads(FOREIGN_FILE.read_text(encoding="ascii"))
    tally.section("foreign", labelled(foreign["cases"]), check_foreign)
    same = [(path.name, (path, vectors)) for path, vectors in files()]
    tally.section("files as made", same, lambda case: case[0].read_bytes() == written(case[1]).encode("ascii"))
    print("%d passed, %d failed" % (tally.passed, tally.failed))
    return 1 if tally.failed else 0


def main(arguments):
    """Run one of the two commands."""
    commands = {"make": make, "check": check}
    if len(arguments) != 1 or arguments[0] not in commands:
        print("usage: python vectors/reference.py make|check", file=sys.stderr)
        return 2
    return commands[arguments[0]]()


if __name__ == "__main__":
    # Under its own name, so that `cases` sees the same module.
    sys.dont_write_bytecode = True
    import reference

    sys.exit(reference.main(sys.argv[1:]))
