"""Which cases the vector files hold.

Every function here returns one section. What the cases expect is computed by
`reference`; nothing is written by hand except the names, the inputs and, where
a case is about one reason, that reason (which is then compared).
"""

import hashlib
import json

import reference as ref

NOW = 1_750_000_000  # not a multiple of 60
LAST = 2**32 - 1
PURPOSES = ("cursor", "state", "resume")
OPERATIONS = ("call", "prompt", "read", "list", "query", "duplex")


def stuff(label, length):
    """Bytes that look random and are always the same for a label."""
    out, counter = b"", 0
    while len(out) < length:
        out += hashlib.sha256(b"handback vectors/%s/%d" % (label.encode(), counter)).digest()
        counter += 1
    return out[:length]


# --------------------------------------------------------------------------
# Rings


def make_ring(label, slots, generation=1, next_slot=None):
    """A ring of (slot, state, mode) triples, with keys made from the label."""
    ring = ref.Ring(stuff("ring id " + label, 16), generation, 0)
    for number, state, mode in slots:
        key = stuff("master %s %d" % (label, number), 32)
        ring.slots[number] = ref.Slot(number, state, mode, NOW - 86400 + 7 * number, key)
    ring.next_slot = (max(ring.slots) + 1) % 16 if next_slot is None else next_slot
    return ring


def full_ring():
    """All 16 slots, in every state and both modes; slot 5 is active."""
    slots = []
    for number in range(16):
        state = "active" if number == 5 else ("accepting", "retired")[number // 2 % 2]
        slots.append((number, state, ("sealed", "signed")[number % 2 ^ (number == 5)]))
    return make_ring("full", slots, generation=2**53 - 1, next_slot=6)


def make_rings():
    """Every ring that a case refers to, by name."""
    rings = {
        "sealed": make_ring("sealed", [(0, "active", "sealed")]),
        "signed": make_ring("signed", [(0, "active", "signed")]),
        "rotated": make_ring("rotated", [(0, "accepting", "sealed"), (1, "active", "sealed")], 2),
        "rotated-signed": make_ring(
            "rotated-signed", [(0, "accepting", "signed"), (1, "active", "signed")], 2
        ),
        "to-sealed": make_ring("to-sealed", [(0, "accepting", "signed"), (1, "active", "sealed")], 2),
        "to-signed": make_ring("to-signed", [(0, "accepting", "sealed"), (1, "active", "signed")], 2),
        "gone-round": make_ring(
            "gone-round",
            [(0, "active", "sealed"), (14, "retired", "sealed"), (15, "accepting", "signed")],
            2**32 + 17,
            next_slot=1,
        ),
        "full": full_ring(),
    }
    for mode in ("sealed", "signed"):
        for slot in range(16):
            name = "%s-%d" % (mode, slot)
            rings[name] = make_ring(name, [(slot, "active", mode)], generation=1 + slot)
    return rings


RINGS = make_rings()


def rings():
    """The `rings` section."""
    out = {}
    for name, ring in RINGS.items():
        out[name] = {
            "id": ring.id.hex(),
            "generation": ring.generation,
            "next_slot": ring.next_slot,
            "slots": [
                {"slot": s.slot, "state": s.state, "mode": s.mode, "since": s.since, "key": s.key.hex()}
                for s in ring.slots.values()
            ],
            "fingerprint": ring.fingerprint(),
            "file": ref.key_file(ring),
        }
    return out


def derivations():
    """The `derive` section."""
    master = stuff("derive", 32)
    other = stuff("derive other", 32)
    pairs = [
        (purpose, label)
        for purpose in (*PURPOSES, "wrap-data", "wrap-sign")
        for label in ("aes-256-gcm-siv", "hmac-sha256-128")
    ]
    pairs += [("check", "none"), ("ring-id", "secret"), ("slot-0", "secret")]
    pairs += [("ring-id", "atd"), ("slot-0", "atd")]
    pairs += [("", ""), ("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("x" * 300, "y")]
    out = []
    for which, key in (("first", master), ("second", other)):
        for a, b in pairs:
            short = (a if len(a) < 20 else "%s x %d" % (a[0], len(a)), b)
            out.append(
                {
                    "name": "%s key, '%s' and '%s'" % (which, *short),
                    "master": key.hex(),
                    "a": a,
                    "b": b,
                    "key": ref.derive(key, a, b).hex(),
                }
            )
    return out


def secret_rings():
    """The `secret_rings` section."""
    out = []
    secrets = [("one", stuff("secret one", 32)), ("two", stuff("secret two", 32))]
    secrets.append(("almost constant", bytes(31) + b"\x01"))
    secrets.append(("printable", b"0123456789abcdef0123456789abcdef"))
    for name, secret in secrets:
        for origin in ("secret", "atd"):
            for mode in ("sealed", "signed"):
                ring = ref.ring_from_secret(secret, origin, mode)
                out.append(
                    {
                        "name": "%s, %s, %s" % (name, origin, mode),
                        "secret": secret.hex(),
                        "origin": origin,
                        "mode": mode,
                        "id": ring.id.hex(),
                        "master": ring.slots[0].key.hex(),
                        "fingerprint": ring.fingerprint(),
                    }
                )
    return out


# --------------------------------------------------------------------------
# Key files


def _file(**changes):
    """A good key file as a value, with top-level members changed."""
    return {**json.loads(ref.key_file(RINGS["rotated"])), **changes}


def _slot_file(at=0, **changes):
    """A good key file with one slot changed; a member set to None is left out."""
    value = _file()
    entry = {**value["slots"][at], **changes}
    value["slots"][at] = {k: v for k, v in entry.items() if v is not None}
    return value


def ring_files_accepted():
    """Key files that are laid out in other ways, and what they hold."""
    plain = ref.key_file(RINGS["rotated"])
    value = json.loads(plain)
    backwards = {k: value[k] for k in reversed(value)}
    backwards["slots"] = [{k: s[k] for k in reversed(s)} for s in reversed(value["slots"])]
    texts = [
        ("as written", plain),
        ("indented", json.dumps(value, indent=2) + "\n"),
        ("backwards, slots and members", json.dumps(backwards)),
        ("escaped characters", plain.replace('"format"', '"\\u0066ormat"').replace("keys/1", "keys\\/1")),
        ("white space around it", " \t\r\n" + plain + "\n\n"),
        ("as long as allowed", plain + " " * (ref.KEY_FILE_LIMIT - len(plain))),
        ("since 0", json.dumps(_slot_file(since=0))),
        ("smallest generation", json.dumps(_file(generation=1))),
        ("largest generation", json.dumps(_file(generation=2**53 - 1))),
        ("next_slot 15", json.dumps(_file(next_slot=15))),
        ("next_slot on a slot in use", json.dumps(_file(next_slot=1))),
    ]
    return [
        {"name": name, "text": text, "fingerprint": ref.read_key_file(text).fingerprint()}
        for name, text in texts
    ]


def ring_files_refused():
    """The `ring_files_refused` section."""
    plain = ref.key_file(RINGS["rotated"])
    good = _file()
    key0, key1 = good["slots"][0]["key"], good["slots"][1]["key"]
    seventeen = [{**good["slots"][0], "slot": n} for n in range(17)]
    texts = [
        ("empty", ""),
        ("white space only", " \n"),
        ("not JSON", "handback-keys/1"),
        ("cut off", plain[:-1]),
        ("trailing comma", plain[:-1] + ",}"),
        ("trailing garbage", plain + "x"),
        ("two objects", plain + plain),
        ("a byte order mark", "\ufeff" + plain),
        ("a comment", "/* keys */" + plain),
        ("an array around it", "[" + plain + "]"),
        ("null", "null"),
        ("a string", json.dumps(plain)),
        ("an empty object", "{}"),
        ("unknown member", json.dumps(_file(comment="spare"))),
        ("unknown member that is null", json.dumps(_file(comment=None))),
        ("unknown member of a slot", json.dumps(_slot_file(note="x"))),
        ("repeated member, same value", plain[:-1] + ',"next_slot":2}'),
        ("repeated member, other value", plain[:-1] + ',"generation":3}'),
        ("repeated member, spelled with an escape", plain[:-1] + ',"i\\u0064":"%s"}' % good["id"]),
        ("repeated member of a slot", plain.replace('"slot":0', '"slot":0,"slot":0')),
        ("member names in upper case", plain.replace('"id"', '"ID"')),
        ("format of a later version", json.dumps(_file(format="handback-keys/2"))),
        ("format in upper case", json.dumps(_file(format="HANDBACK-KEYS/1"))),
        ("format a number", json.dumps(_file(format=1))),
        ("over 16384 bytes", plain + " " * (ref.KEY_FILE_LIMIT + 1 - len(plain))),
    ]
    for name in good:
        texts.append(("no " + name, json.dumps({k: v for k, v in good.items() if k != name})))
        texts.append((name + " null", json.dumps(_file(**{name: None}))))
    for name in good["slots"][0]:
        texts.append(("a slot without " + name, json.dumps(_slot_file(**{name: None}))))
    for name, ring_id in (
        ("short id", ref.b64(bytes(range(15)))),
        ("long id", ref.b64(bytes(range(17)))),
        ("padded id", good["id"] + "=="),
        ("id with tail bits", good["id"][:-1] + "B"),
        ("id in hexadecimal", RINGS["rotated"].id.hex()),
        ("id empty", ""),
        ("id a number", 7),
    ):
        texts.append((name, json.dumps(_file(id=ring_id))))
    for name, generation in (
        ("generation 0", 0),
        ("generation -1", -1),
        ("generation 2^53", 2**53),
        ("generation 2^64", 2**64),
        ("generation 1.5", 1.5),
        ("generation 1.0", 1.0),
        ("generation a string", "1"),
        ("generation true", True),
    ):
        texts.append((name, json.dumps(_file(generation=generation))))
    texts.append(("generation 1e0", plain.replace('"generation":2', '"generation":1e0')))
    texts.append(("generation 02", plain.replace('"generation":2', '"generation":02')))
    for name, next_slot in (("16", 16), ("-1", -1), ("0.5", 0.5), ("a string", "2")):
        texts.append(("next_slot " + name, json.dumps(_file(next_slot=next_slot))))
    for name, slots in (
        ("empty slots", []),
        ("slots an object", {"0": good["slots"][0]}),
        ("a slot that is null", [good["slots"][1], None]),
        ("seventeen slots", seventeen),
        ("none active", [good["slots"][0]]),
    ):
        texts.append((name, json.dumps(_file(slots=slots))))
    for name, changes in (
        ("two active", {"state": "active"}),
        ("state unknown", {"state": "dropped"}),
        ("state in upper case", {"state": "Retired"}),
        ("state a number", {"state": 2}),
        ("mode unknown", {"mode": "open"}),
        ("mode a number", {"mode": 2}),
        ("duplicate slot number", {"slot": 1}),
        ("slot 16", {"slot": 16}),
        ("slot -1", {"slot": -1}),
        ("slot 0.5", {"slot": 0.5}),
        ("slot 256", {"slot": 256}),
        ("slot a string", {"slot": "0"}),
        ("since -1", {"since": -1}),
        ("since 1.5", {"since": 1.5}),
        ("since a string", {"since": "2025-06-15"}),
        ("short key", {"key": ref.b64(stuff("short", 31))}),
        ("long key", {"key": ref.b64(stuff("long", 33))}),
        ("empty key", {"key": ""}),
        ("padded key", {"key": key0 + "="}),
        ("key with a newline", {"key": key0 + "\n"}),
        ("key with tail bits", {"key": ref.b64(bytes(range(32)))[:-1] + "9"}),
        ("key in the alphabet of plain base64", {"key": "+" + key0[1:]}),
        ("key in hexadecimal", {"key": stuff("hex", 32).hex()}),
        ("key a number", {"key": 5}),
        ("all-zero key", {"key": ref.b64(bytes(32))}),
        ("constant key", {"key": ref.b64(b"\xa5" * 32)}),
        ("all-ones key", {"key": ref.b64(b"\xff" * 32)}),
        ("same key twice", {"key": key1}),
    ):
        texts.append((name, json.dumps(_slot_file(**changes))))
    for name, text in texts:
        try:
            ref.read_key_file(text)
        except ref.BadKeyFile:
            continue
        raise AssertionError("key file accepted: " + name)
    return [{"name": name, "text": text} for name, text in texts]


# --------------------------------------------------------------------------
# Contexts

ARGUMENTS = hashlib.sha256(b'{"q":"a"}').hexdigest()


def members(**given):
    """All context members, absent unless given."""
    assert set(given) <= set(ref.CONTEXT_MEMBERS)
    return {name: given.get(name) for name in ref.CONTEXT_MEMBERS}


ALICE = {"issuer": "idp", "subject": "alice"}
CALL = members(operation="call", name_field="find", **ALICE)
NOBODY = members(operation="call", name_field="find")
EVERYTHING = members(
    audience="https://tools.example/mcp",
    operation="query",
    name_field="orders",
    arguments=ARGUMENTS,
    tenant="acme",
    upstream="backend-1",
    client="desk",
    **ALICE,
)


def contexts():
    """The `contexts` section."""
    out = []

    def add(name, purpose="cursor", **given):
        given = members(**{"audience": "aud", **given})
        ctx = ref.context(purpose, given).hex()
        out.append({"name": name, "purpose": purpose, **given, "ctx": ctx})

    for purpose in PURPOSES:
        add("only purpose and audience, " + purpose, purpose)
        add("every field, " + purpose, purpose, **EVERYTHING)
    for operation in OPERATIONS:
        add("operation " + operation, operation=operation)
        add("everything, operation " + operation, **{**EVERYTHING, "operation": operation})
    values = (
        ("empty", ""),
        ("one byte", "x"),
        ("NUL", "\x00"),
        ("a space", " "),
        ("255 bytes", "y" * 255),
        ("256 bytes", "z" * 256),
        ("non-ASCII", "M\u00fcller \u6771\u4eac \U0001f511"),
        ("decomposed", "Mu\u0308ller"),
    )
    for label, value in values:
        add("audience " + label, audience=value)
        for name in ("name_field", "tenant", "upstream", "client"):
            add("%s %s" % (name, label), **{name: value})
            if label in ("empty", "one byte"):
                add("everything, %s %s" % (name, label), **{**EVERYTHING, name: value})
        add("issuer %s" % label, issuer=value, subject="s")
        add("subject %s" % label, issuer="i", subject=value)
    for name in ref.CONTEXT_MEMBERS[1:]:
        if name not in ("issuer", "subject"):
            add("everything but " + name, **{**EVERYTHING, name: None})
    add("everything, unauthenticated", **{**EVERYTHING, "issuer": None, "subject": None})
    add("issuer and subject empty", issuer="", subject="")
    add("issuer and subject", issuer="left", subject="right")
    add("issuer and subject swapped", issuer="right", subject="left")
    for left, right in zip(
        ("audience", "issuer", "tenant", "upstream"), ("name_field", "subject", "upstream", "client")
    ):
        for a, b in (("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")):
            add("%s '%s', %s '%s'" % (left, a, right, b), **{left: a, right: b})
    add("arguments", arguments=ARGUMENTS)
    add("arguments all zero", arguments="00" * 32)
    add("name that looks like the next field", name_field="a\x05\x01\x00\x00\x00\x01i")
    add("name of 4096 bytes", name_field="n" * 4096)
    add("name of 65536 bytes", name_field="n" * 65536)
    add("issuer of 65536 bytes", issuer="i" * 65536, subject="s")
    add("client of 65536 bytes", client="c" * 65536)
    return out


# --------------------------------------------------------------------------
# Minting


class Minting:
    """Collects cases of the `mint` and `mint_refused` sections."""

    def __init__(self):
        self.made, self.refused = [], []

    def _case(self, name, ring, purpose, given, payload, now, ttl, after):
        ring_ = RINGS[ring]
        need = 0 if purpose == "cursor" else 16
        one_byte = purpose == "cursor" and given["issuer"] is not None
        if ring_.active.mode == "sealed" and not one_byte:
            need += 4
        case = {
            "name": name,
            "ring": ring,
            "purpose": purpose,
            "context": dict(given),
            "now": now,
            "ttl": ref.PURPOSES[purpose].default_ttl if ttl is None else ttl,
            "random": stuff("random " + name, need).hex(),
            "after": after,
            "payload": payload.hex(),
        }
        return case

    def add(self, name, ring, purpose, given=CALL, payload=b"payload", now=NOW, ttl=None, after=None, salt=None):
        """A token that is minted; returns its text."""
        case = self._case(name, ring, purpose, given, payload, now, ttl, after)
        text, exp, used = ref.mint_case(RINGS[ring], case)
        assert used * 2 == len(case["random"]), name
        if salt is not None:
            assert ref.unb64(text)[1] == salt, name
        self.made.append({**case, "text": text, "exp": exp})
        return text

    def refuse(self, name, why, ring, purpose, given=CALL, payload=b"payload", now=NOW, ttl=None, after=None):
        """A token that is not minted, for this reason."""
        case = self._case(name, ring, purpose, given, payload, now, ttl, after)
        try:
            ref.mint_case(RINGS[ring], case)
        except ref.MintRefused as refused:
            assert refused.why == why, (name, refused.why)
        else:
            raise AssertionError("minted: " + name)
        self.refused.append({**case, "why": why})


def head_of(purpose, label, born, generation=0):
    """The head of a body, with an id made from the label."""
    if purpose == "cursor":
        return b""
    head = stuff("id " + label, 16) + ref.u32be(born)
    return head + ref.u32be(generation) if purpose == "resume" else head


def crafted(label, ring, purpose, given=CALL, slot=None, form=None, salt=None, exp=None, born=NOW, generation=0, body=None):
    """A token text with every value chosen, sealed by a holder of the keys."""
    ring = RINGS[ring]
    slot = ring.active.slot if slot is None else slot
    if form is None:
        sealed = ring.slots[slot].mode == "sealed"
        form = (ref.SEALED_1 if purpose == "cursor" else ref.SEALED_4) if sealed else ref.SIGNED
    if salt is None:
        salt = stuff("salt " + label, ref.SALT_LENGTH[form])
    exp = NOW + 600 if exp is None else exp
    if body is None:
        body = head_of(purpose, label, born, generation) + b"payload"
    ctx = ref.ring_context(ring, purpose, given)
    return ref.b64(ref.seal_bytes(ring, slot, purpose, ctx, form, salt, exp, body))


def biggest_payload(ring, purpose, given):
    """How many bytes of payload still fit the text."""
    mode = RINGS[ring].active.mode
    form = ref.SIGNED if mode == "signed" else ref.SEALED_4
    if mode == "sealed" and purpose == "cursor" and given["issuer"] is not None:
        form = ref.SEALED_1
    rules = ref.PURPOSES[purpose]
    return rules.longest * 3 // 4 - ref.SMALLEST[form] - rules.head


def _mint_sizes(m):
    """Every purpose, both modes, with and without a caller, many sizes."""
    for purpose in PURPOSES:
        for ring in ("sealed", "signed"):
            for who, given in (("identified", CALL), ("unauthenticated", NOBODY)):
                biggest = biggest_payload(ring, purpose, given)
                for size in (0, 1, 15, 16, 17, 48, 256, biggest):
                    name = "%s, %s, %s, %d bytes" % (purpose, ring, who, size)
                    if purpose == "state" and size == biggest and (given is NOBODY or ring == "signed"):
                        continue  # large; one of them is in `_mint_signed`
                    m.add(name, ring, purpose, given, stuff(name, size))
                if purpose != "state" or (ring == "sealed" and given is CALL):
                    name = "%s, %s, %s, one byte too many" % (purpose, ring, who)
                    m.refuse(name, "too_large", ring, purpose, given, stuff(name, biggest + 1))


def _mint_rings(m):
    """Every active slot, every context field, rings with a past."""
    for slot in range(16):
        for mode in ("sealed", "signed"):
            ring = "%s-%d" % (mode, slot)
            for purpose in PURPOSES if slot % 5 == 0 else PURPOSES[slot % 3 :][:1]:
                m.add("%s, slot %d, %s" % (purpose, slot, mode), ring, purpose)
    for ring in ("rotated", "rotated-signed", "to-sealed", "to-signed", "gone-round", "full"):
        for purpose in PURPOSES:
            m.add("%s, ring %s" % (purpose, ring), ring, purpose)
    for ring in ("sealed", "signed"):
        for purpose in PURPOSES:
            m.add("%s, %s, every context field" % (purpose, ring), ring, purpose, EVERYTHING)
            m.add("%s, %s, no context" % (purpose, ring), ring, purpose, members())
    text_id = RINGS["sealed"].text_id
    given = members(audience=text_id, **ALICE)
    spelled = m.add("cursor, audience spelled out as the ring id", "sealed", "cursor", given)
    implied = m.add("cursor, audience left to the default", "sealed", "cursor", members(**ALICE))
    assert spelled == implied
    given = members(issuer="", subject="")
    m.add("cursor, identified by two empty texts", "sealed", "cursor", given, salt=0)


def _mint_salts(m):
    """Chains of cursors: how the one-byte salt goes on."""
    text, now = None, NOW
    for salt in range(4):
        after = None if text is None else {"text": text, "now": now - 1}
        text = m.add("cursor chain, link %d" % salt, "sealed", "cursor", now=now, after=after, salt=salt)
        now += 100
    for before in (0, 1, 127, 128, 254, 255):
        text = crafted("salt %d" % before, "sealed", "cursor", salt=bytes([before]))
        name = "cursor after salt %d" % before
        m.add(name, "sealed", "cursor", after={"text": text, "now": NOW}, salt=(before + 1) % 256)
    text = crafted("four", "sealed", "cursor", form=ref.SEALED_4, salt=b"\x01\x02\x03\x04")
    m.add("cursor after a 4-byte salt", "sealed", "cursor", after={"text": text, "now": NOW}, salt=0)
    text = crafted("old key", "rotated", "cursor", slot=0, salt=b"\x09")
    m.add("cursor after one of the former key", "rotated", "cursor", after={"text": text, "now": NOW}, salt=10)
    text = crafted("signed before", "to-sealed", "cursor", slot=0)
    m.add("sealed cursor after a signed one", "to-sealed", "cursor", after={"text": text, "now": NOW}, salt=0)
    text = crafted("sealed before", "to-signed", "cursor", slot=0, salt=b"\x05")
    m.add("signed cursor after a sealed one", "to-signed", "cursor", after={"text": text, "now": NOW})
    text = crafted("signed", "signed", "cursor")
    m.add("signed cursor after a signed one", "signed", "cursor", after={"text": text, "now": NOW})
    for form, salt in ((ref.SEALED_1, b"\x07"), (ref.SEALED_4, b"\x07\x08\x09\x0a")):
        text = crafted("nobody %d" % form, "sealed", "cursor", NOBODY, form=form, salt=salt)
        after = {"text": text, "now": NOW}
        m.add("unauthenticated cursor after form %d" % form, "sealed", "cursor", NOBODY, after=after)
    text = crafted("late", "sealed", "cursor", salt=b"\x02", exp=NOW - 59)
    m.add("cursor after one within its grace", "sealed", "cursor", after={"text": text, "now": NOW}, salt=3)


def _mint_rounds(m):
    """State and resume tokens that follow others."""
    for ring in ("sealed", "signed"):
        for purpose in ("state", "resume"):
            life = ref.PURPOSES[purpose].life
            text, now = None, NOW
            for turn in range(4):
                after = None if text is None else {"text": text, "now": now}
                name = "%s, %s, round %d" % (purpose, ring, turn)
                text = m.add(name, ring, purpose, payload=b"round %d" % turn, now=now, after=after)
                now += 200
            label = "%s, %s, " % (purpose, ring)
            for left in (1, 60, 299, 300, 301):
                text = crafted(label + str(left), ring, purpose, exp=NOW + 60, born=NOW - life + left)
                after = {"text": text, "now": NOW}
                m.add(label + "%d s of life left" % left, ring, purpose, ttl=300, after=after)
            for over in (0, 1, 59):
                text = crafted(label + "over %d" % over, ring, purpose, exp=NOW + 1, born=NOW - life - over)
                after = {"text": text, "now": NOW}
                m.refuse(label + "life over since %d s" % over, "life_over", ring, purpose, after=after)
            text = crafted(label + "later", ring, purpose, exp=NOW + 1, born=NOW - life + 10)
            after = {"text": text, "now": NOW}
            m.refuse(label + "life over after opening", "life_over", ring, purpose, now=NOW + 10, after=after)
            m.add(label + "minted after opening", ring, purpose, now=NOW + 9, after=after)
            text = crafted(label + "ahead", ring, purpose, exp=NOW + 60, born=NOW + 60)
            after = {"text": text, "now": NOW}
            m.add(label + "born in the future", ring, purpose, ttl=life, after=after)
        for generation in (0, 1, 255, 65535, LAST - 1):
            text = crafted("generation %d" % generation, ring, "resume", generation=generation)
            name = "resume, %s, after generation %d" % (ring, generation)
            m.add(name, ring, "resume", after={"text": text, "now": NOW})
        text = crafted("generation last", ring, "resume", generation=LAST)
        name = "resume, %s, after the last generation" % ring
        m.refuse(name, "life_over", ring, "resume", after={"text": text, "now": NOW})
    text = crafted("former key", "rotated", "resume", slot=0, generation=6)
    m.add("resume after one of the former key", "rotated", "resume", after={"text": text, "now": NOW})


def _mint_times(m):
    """Expiry: rounding, maximum, and the end of 32 bits."""
    start = NOW // 60 * 60
    for purpose in PURPOSES:
        life = ref.PURPOSES[purpose].life
        for now in (start, start + 1, start + 59) if purpose == "cursor" else (start + 1,):
            for ttl in (1, 59, 60, 61, life - 60, life - 59, life - 1, life):
                m.add("%s, %d s past the minute, ttl %d" % (purpose, now - start, ttl), "sealed", purpose, now=now, ttl=ttl)
        for ring in ("sealed", "signed"):
            for ttl in (0, life + 1, LAST + 1):
                m.refuse("%s, %s, ttl %d" % (purpose, ring, ttl), "ttl", ring, purpose, ttl=ttl)
        m.add("%s at time 0" % purpose, "signed", purpose, now=0)
        m.refuse("%s, now beyond 32 bits" % purpose, "clock", "sealed", purpose, now=2**32)
        m.refuse("%s, now at the last second" % purpose, "clock", "sealed", purpose, now=LAST, ttl=1)
        # For cursors the last whole minute counts, which is 15 s before the end.
        last = LAST if purpose != "cursor" else LAST // 60 * 60
        m.add("%s, latest exp" % purpose, "sealed", purpose, now=last - 100, ttl=100)
        m.refuse("%s, exp one too late" % purpose, "clock", "sealed", purpose, now=last - 100, ttl=101)
    life = ref.PURPOSES["cursor"].life
    m.add("cursor, exp fits once rounded down", "sealed", "cursor", now=LAST - life, ttl=life)
    for purpose in ("state", "resume"):
        life = ref.PURPOSES[purpose].life
        text = crafted("end of time", "sealed", purpose, born=LAST - life, exp=LAST)
        after = {"text": text, "now": LAST - 10}
        name = "%s, exp fits because of born" % purpose
        m.add(name, "sealed", purpose, now=LAST - 10, ttl=300, after=after)


def _mint_signed(m):
    """Limits in signed mode that the parts above try in sealed mode only."""
    biggest = biggest_payload("signed", "state", CALL)
    name = "state, signed, identified, %d bytes" % biggest
    text = m.add(name, "signed", "state", payload=stuff(name, biggest))
    assert len(text) == ref.PURPOSES["state"].longest
    name = "state, signed, identified, one byte too many"
    m.refuse(name, "too_large", "signed", "state", payload=stuff(name, biggest + 1))
    for purpose in PURPOSES:
        label = "%s, signed, " % purpose
        last = LAST if purpose != "cursor" else LAST // 60 * 60
        m.refuse(label + "now beyond 32 bits", "clock", "signed", purpose, now=2**32)
        m.refuse(label + "now at the last second", "clock", "signed", purpose, now=LAST, ttl=1)
        m.refuse(label + "exp one too late", "clock", "signed", purpose, now=last - 100, ttl=101)


def minting():
    """The sections `mint` and `mint_refused`."""
    m = Minting()
    for part in (_mint_sizes, _mint_rings, _mint_salts, _mint_rounds, _mint_times, _mint_signed):
        part(m)
    return m.made, m.refused


# --------------------------------------------------------------------------
# Opening


class Opening:
    """Collects cases of the `open` section."""

    def __init__(self):
        self.made = []

    def add(self, name, ring, purpose, text, given=CALL, now=NOW, want=None):
        """A text and what comes of it; `want` is the reason, or "opens"."""
        case = {"name": name, "ring": ring, "purpose": purpose, "context": dict(given), "now": now, "text": text}
        case["expect"] = ref.expect_open(RINGS[ring], case)
        got = case["expect"].get("reason", "opens")
        assert want in (None, got), (name, got)
        self.made.append(case)


SHORT = members(issuer="i", subject="s")


def short_tokens():
    """One short token of each form, of a cursor."""
    return (
        ("sealed, 1-byte salt", "sealed", crafted("short", "sealed", "cursor", SHORT, salt=b"\x00", body=b"ok")),
        ("signed", "signed", crafted("short", "signed", "cursor", SHORT, body=b"ok")),
        ("sealed, 4-byte salt", "sealed", crafted("short", "sealed", "cursor", SHORT, form=ref.SEALED_4, body=b"ok")),
    )


def _open_edits(o):
    """Texts that were changed on the way."""
    for form, ring, text in short_tokens():
        token = ref.unb64(text)
        o.add(form + ", as made", ring, "cursor", text, SHORT, want="opens")
        flip = range(5 * 8) if "4-byte" in form else range(len(token) * 8)
        for bit in flip:
            edited = bytearray(token)
            edited[bit // 8] ^= 0x80 >> bit % 8
            want = None if bit < 8 else "not_opened"
            o.add("%s, bit %d flipped" % (form, bit), ring, "cursor", ref.b64(bytes(edited)), SHORT, want=want)
        for length in range(len(token)):
            want = "malformed" if length < ref.SMALLEST[token[0] >> 4] else "not_opened"
            o.add("%s, first %d bytes" % (form, length), ring, "cursor", ref.b64(token[:length]), SHORT, want=want)
        if "4-byte" not in form:
            for length in range(len(text)):
                o.add("%s, first %d characters" % (form, length), ring, "cursor", text[:length], SHORT)
        for extra in (b"\x00", b"\xff", bytes(16)):
            name = "%s, lengthened by %s" % (form, extra.hex())
            o.add(name, ring, "cursor", ref.b64(token + extra), SHORT, want="not_opened")
        o.add(form + ", first byte left out", ring, "cursor", ref.b64(token[1:]), SHORT)
        o.add(form + ", twice", ring, "cursor", ref.b64(token + token), SHORT, want="not_opened")
        for high in (0, *range(4, 16)):
            edited = ref.b64(bytes([high << 4]) + token[1:])
            o.add("%s, form %d" % (form, high), ring, "cursor", edited, SHORT, want="malformed")
        for high in (1, 2, 3):
            edited = ref.b64(bytes([high << 4]) + token[1:])
            o.add("%s, header of form %d" % (form, high), ring, "cursor", edited, SHORT)


def _open_texts(o):
    """Texts that are not canonical base64url."""
    given = CALL
    for ring in ("sealed", "signed"):
        # 23 bytes leave 2 tail bits, 22 bytes leave 4.
        three = crafted("tail 2", ring, "cursor", body=b"o" if ring == "sealed" else b"ok")
        two = crafted("tail 4", ring, "cursor", body=b"" if ring == "sealed" else b"o")
        whole = crafted("no tail", ring, "cursor", body=b"ok" if ring == "sealed" else b"okk")
        assert [len(t) % 4 for t in (three, two, whole)] == [3, 2, 0]
        digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        for text, bits in ((three, 2), (two, 4)):
            o.add("%s, %d tail bits zero" % (ring, bits), ring, "cursor", text, given, want="opens")
            for tail in range(1, 1 << bits):
                edited = text[:-1] + digits[digits.index(text[-1]) + tail]
                o.add("%s, %d tail bits %d" % (ring, bits, tail), ring, "cursor", edited, given, want="malformed")
        edits = (
            ("one padding character", three + "="),
            ("two padding characters", two + "=="),
            ("padding without need", whole + "===="),
            ("one more character", whole + "A"),
            ("a space before", " " + whole),
            ("a space after", whole + " "),
            ("a newline after", whole + "\n"),
            ("a line break inside", whole[:8] + "\r\n" + whole[8:]),
            ("a tab inside", whole[:4] + "\t" + whole[4:]),
            ("a NUL after", whole + "\x00"),
            ("a plus sign", whole[:5] + "+" + whole[6:]),
            ("a slash", whole[:5] + "/" + whole[6:]),
            ("a full stop", whole[:5] + "." + whole[6:]),
            ("a percent escape", whole[:5] + "%2D" + whole[6:]),
            ("a non-ASCII letter", whole[:5] + "\u00e9" + whole[6:]),
            ("a fullwidth letter", whole[:5] + "\uff21" + whole[6:]),
            ("a character beyond 16 bits", whole[:5] + "\U0001d400" + whole[6:]),
            ("a zero width space after", whole + "\u200b"),
            ("quoted", '"' + whole + '"'),
        )
        for name, text in edits:
            o.add("%s, %s" % (ring, name), ring, "cursor", text, given, want="malformed")
    for purpose in PURPOSES:
        for name, text in (
            ("empty text", ""),
            ("one character", "A"),
            ("two characters", "IA"),
            ("a space", " "),
            ("padding only", "===="),
            ("a JSON text", '{"page":2}'),
            ("a handle", ref.handle(stuff("handle as token", 16))),
            ("a wrapped key", ref.wrap_under(RINGS["sealed"], 0, "wrap-data", "store", bytes(4), bytes(32))),
        ):
            o.add("%s: %s" % (purpose, name), "sealed", purpose, text, want="malformed")


def _open_lengths(o):
    """The longest text, and longer ones."""
    for ring in ("sealed", "signed"):
        for purpose in PURPOSES:
            if purpose == "state" and ring == "signed":
                continue
            longest = ref.PURPOSES[purpose].longest
            head = head_of(purpose, "long", NOW)
            room = longest * 3 // 4 - {"sealed": 22 if purpose == "cursor" else 25, "signed": 21}[ring]
            body = head + stuff("long", room - len(head))
            text = crafted("long", ring, purpose, body=body)
            assert len(text) == longest
            o.add("%s, %s, as long as allowed" % (purpose, ring), ring, purpose, text, want="opens")
            if purpose == "state":
                continue  # too long: see `_open_heads_refused` and `request_state_refused`
            over = text + "A"
            o.add("%s, %s, one character more" % (purpose, ring), ring, purpose, over, want="too_long")
            text = crafted("longer", ring, purpose, body=body + b"x")
            o.add("%s, %s, good but too long" % (purpose, ring), ring, purpose, text, want="too_long")
    for tail, want in (("\u00e9", "malformed"), ("A\u00e9", "too_long"), ("\u20ac", "too_long")):
        name = "%d characters, %d bytes" % (510 + len(tail), 510 + len(tail.encode()))
        o.add("cursor, " + name, "sealed", "cursor", "A" * 510 + tail, want=want)
    o.add("cursor, 513 spaces", "sealed", "cursor", " " * 513, want="too_long")
    o.add("cursor, 512 spaces", "sealed", "cursor", " " * 512, want="malformed")
    o.add("state, as long as no cursor may be", "sealed", "state", "A" * 516, want="malformed")


def _open_contexts(o):
    """Tokens shown where they do not belong."""
    for purpose, ring in (("cursor", "sealed"), ("state", "signed"), ("resume", "sealed")):
        label = "%s, %s: " % (purpose, ring)
        full = crafted("full " + label, ring, purpose, EVERYTHING)
        bare = crafted("bare " + label, ring, purpose, members())
        o.add(label + "every field", ring, purpose, full, EVERYTHING, want="opens")
        o.add(label + "no field", ring, purpose, bare, members(), want="opens")
        for name in ref.CONTEXT_MEMBERS:
            other = {"operation": "list", "arguments": "11" * 32}.get(name, EVERYTHING[name] + "x")
            changed = {**EVERYTHING, name: other}
            o.add(label + name + " changed", ring, purpose, full, changed, want="not_opened")
            if name in ("issuer", "subject"):
                continue
            absent = {**EVERYTHING, name: None}
            o.add(label + name + " absent at opening", ring, purpose, full, absent, want="not_opened")
            present = members(**{name: EVERYTHING[name]})
            o.add(label + name + " only at opening", ring, purpose, bare, present, want="not_opened")
            if name in ("name_field", "tenant", "upstream", "client"):
                empty = members(**{name: ""})
                o.add(label + name + " empty at opening", ring, purpose, bare, empty, want="not_opened")
                text = crafted("empty " + label + name, ring, purpose, empty)
                o.add(label + name + " empty at both ends", ring, purpose, text, empty, want="opens")
                o.add(label + name + " empty when made", ring, purpose, text, members(), want="not_opened")
        nobody = {**EVERYTHING, "issuer": None, "subject": None}
        o.add(label + "caller absent at opening", ring, purpose, full, nobody, want="not_opened")
        o.add(label + "caller only at opening", ring, purpose, bare, members(**ALICE), want="not_opened")
        hollow = members(issuer="", subject="")
        o.add(label + "caller of empty texts at opening", ring, purpose, bare, hollow, want="not_opened")
        swapped = {**EVERYTHING, "issuer": EVERYTHING["subject"], "subject": EVERYTHING["issuer"]}
        o.add(label + "issuer and subject swapped", ring, purpose, full, swapped, want="not_opened")
        for left, right in (("issuer", "subject"), ("tenant", "upstream"), ("upstream", "client")):
            text = crafted(label + left, ring, purpose, members(**{left: "ab", right: "c"}))
            for a, b in (("a", "bc"), ("abc", ""), ("c", "ab")):
                shifted = members(**{left: a, right: b})
                name = "%s%s and %s become '%s' and '%s'" % (label, left, right, a, b)
                o.add(name, ring, purpose, text, shifted, want="not_opened")
        composed, decomposed = members(tenant="M\u00fcller"), members(tenant="Mu\u0308ller")
        text = crafted("composed " + label, ring, purpose, composed)
        o.add(label + "composed tenant", ring, purpose, text, composed, want="opens")
        o.add(label + "decomposed tenant", ring, purpose, text, decomposed, want="not_opened")
        text = crafted("case " + label, ring, purpose, members(tenant="acme"))
        o.add(label + "tenant in another case", ring, purpose, text, members(tenant="ACME"), want="not_opened")
        explicit = {**members(), "audience": RINGS[ring].text_id}
        o.add(label + "default audience spelled out", ring, purpose, bare, explicit, want="opens")
        for other in PURPOSES:
            if other != purpose:
                o.add(label + "shown as " + other, ring, other, full, EVERYTHING, want="not_opened")
    for mode in ("sealed", "signed"):
        given = {**CALL, "audience": "shared"}
        text = crafted("other ring", mode, "cursor", given)
        o.add(mode + ", a ring with another key", mode + "-0", "cursor", text, given, want="not_opened")


def _open_slots(o):
    """Slots in every state, and forms that do not fit them."""
    full = RINGS["full"]
    for number, slot in full.slots.items():
        label = "full ring, slot %d (%s, %s), " % (number, slot.state, slot.mode)
        want = "retired_key" if slot.state == "retired" else "opens"
        for purpose in PURPOSES:
            text = crafted(label + purpose, "full", purpose, slot=number)
            o.add(label + purpose, "full", purpose, text, want=want)
        token = bytearray(ref.unb64(text))
        token[-1] ^= 1
        o.add(label + "broken tag", "full", "resume", ref.b64(bytes(token)), want="not_opened")
        token[-1] ^= 1
        moved = bytes([token[0] & 0xF0 | (number + 2) % 16]) + bytes(token[1:])
        o.add(label + "moved two slots on", "full", "resume", ref.b64(moved))
    for mode in ("sealed", "signed"):
        for number in range(16):
            text = crafted("own slot", "%s-%d" % (mode, number), "cursor")
            name = "%s, slot %d only" % (mode, number)
            o.add(name, "%s-%d" % (mode, number), "cursor", text, want="opens")
            token = ref.unb64(text)
            other = (number + 1) % 16
            moved = ref.b64(bytes([token[0] & 0xF0 | other]) + token[1:])
            o.add(name + ", empty slot %d" % other, "%s-%d" % (mode, number), "cursor", moved, want="unknown_slot")
    for ring, slot, form, want in (
        ("sealed", 0, 1, "malformed"),
        ("signed", 0, 2, "malformed"),
        ("signed", 0, 3, "malformed"),
        ("sealed", 9, 1, "unknown_slot"),
        ("signed", 9, 2, "unknown_slot"),
        ("signed", 9, 3, "unknown_slot"),
        ("full", 2, 1, "malformed"),
        ("full", 3, 2, "malformed"),
        ("full", 3, 3, "malformed"),
        ("full", 2, 2, "not_opened"),
        ("full", 3, 1, "not_opened"),
        ("sealed", 9, 0, "malformed"),
        ("sealed", 9, 4, "malformed"),
    ):
        text = ref.b64(bytes([form << 4 | slot]) + stuff("noise", 40))
        o.add("noise, ring %s, slot %d, form %d" % (ring, slot, form), ring, "cursor", text, want=want)
        if form in ref.SMALLEST:
            text = ref.b64(bytes([form << 4 | slot]) + stuff("noise", ref.SMALLEST[form] - 2))
            name = "short noise, ring %s, slot %d, form %d" % (ring, slot, form)
            o.add(name, ring, "cursor", text, want="malformed")
    # The body of one form behind the header of another, under a slot that has
    # the right mode for the new header.
    for ring, slot in (("to-sealed", 0), ("to-signed", 0)):
        token = ref.unb64(crafted("cross", ring, "cursor", slot=slot))
        for form in (1, 2, 3):
            text = ref.b64(bytes([form << 4 | 1]) + token[1:])
            o.add("ring %s, body of slot 0 as form %d of slot 1" % (ring, form), ring, "cursor", text)
    # Both salt lengths are read for every purpose and caller.
    for purpose in PURPOSES:
        for who, given in (("identified", CALL), ("unauthenticated", NOBODY)):
            for form in (ref.SEALED_1, ref.SEALED_4):
                text = crafted("any salt", "sealed", purpose, given, form=form)
                o.add("%s, %s, form %d" % (purpose, who, form), "sealed", purpose, text, given, want="opens")


def _open_heads(o):
    """Bodies that are too short for the head, under good tags."""
    for ring in ("sealed", "signed"):
        for purpose in ("state", "resume"):
            need = ref.PURPOSES[purpose].head
            head = head_of(purpose, "short head", NOW, 3)
            for length in sorted({0, 1, 15, 16, 19, 20, need - 1, need, need + 1}):
                text = crafted("head %d" % length, ring, purpose, body=(head + b"x")[:length])
                want = "malformed" if length < need else "opens"
                o.add("%s, %s, body of %d bytes" % (purpose, ring, length), ring, purpose, text, want=want)
            text = crafted("old head", ring, purpose, body=head[: need - 1], exp=5)
            o.add("%s, %s, short body, expired" % (purpose, ring), ring, purpose, text, want="malformed")
            text = crafted("far head", ring, purpose, body=head[: need - 1], exp=LAST)
            o.add("%s, %s, short body, too far" % (purpose, ring), ring, purpose, text, want="malformed")
    for slot in (2, 3):
        for purpose in ("state", "resume"):
            text = crafted("retired head", "full", purpose, slot=slot, body=b"short")
            o.add("%s, retired slot %d, short body" % (purpose, slot), "full", purpose, text, want="retired_key")


def _open_times(o):
    """Expiry, birth, and which of two failures is the answer."""

    def add(name, ring, purpose, want, now=NOW, slot=None, **chosen):
        text = crafted(name, ring, purpose, slot=slot, **chosen)
        o.add(name, ring, purpose, text, now=now, want=want)

    for ring in ("sealed", "signed"):
        for purpose in PURPOSES:
            life = ref.PURPOSES[purpose].life
            label = "%s, %s, " % (purpose, ring)
            for past, want in ((0, "opens"), (1, "opens"), (59, "opens"), (60, "expired"), (61, "expired")):
                add(label + "exp %d s ago" % past, ring, purpose, want, exp=NOW - past)
            for ahead, want in ((-1, "opens"), (0, "opens"), (59, "opens"), (60, "opens"), (61, "too_far")):
                name = label + "exp %d s beyond the maximum life" % ahead
                add(name, ring, purpose, want, exp=NOW + life + ahead)
            add(label + "exp 0", ring, purpose, "expired", exp=0)
            add(label + "exp 2^32 - 1", ring, purpose, "too_far", exp=LAST)
            for now, want in ((0, "opens"), (59, "opens"), (60, "expired")):
                add(label + "exp 0 at time %d" % now, ring, purpose, want, now=now, exp=0, born=0)
            for back in (0, life, life + 60, life + 61):
                name = label + "exp 2^32 - 1, %d s before" % back
                want = "too_far" if back > life + 60 else "opens"
                add(name, ring, purpose, want, now=LAST - back, exp=LAST, born=LAST - life)
            for on, want in ((1, "opens"), (59, "opens"), (60, "expired")):
                name = label + "exp 2^32 - 1, %d s after" % on
                add(name, ring, purpose, want, now=LAST + on, exp=LAST, born=LAST)
            if purpose == "cursor":
                continue
            for past, want in ((-1, "opens"), (0, "opens"), (59, "opens"), (60, "expired"), (61, "expired")):
                name = label + "life over since %d s" % past
                add(name, ring, purpose, want, exp=NOW + 30, born=NOW - life - past)
            for ahead, want in ((0, "opens"), (1, "opens"), (60, "opens"), (61, "too_far")):
                name = label + "born %d s ahead" % ahead
                add(name, ring, purpose, want, exp=NOW + 30, born=NOW + ahead)
            add(label + "born 0", ring, purpose, "expired", born=0)
            add(label + "born 2^32 - 1", ring, purpose, "too_far", born=LAST)
            add(label + "expired, born too far ahead", ring, purpose, "expired", exp=NOW - 60, born=LAST)
            add(label + "life over, exp too far ahead", ring, purpose, "expired", exp=LAST, born=0)
            add(label + "expired and life over", ring, purpose, "expired", exp=0, born=0)
            add(label + "exp and born too far ahead", ring, purpose, "too_far", exp=LAST, born=LAST)
            add(label + "exp before born", ring, purpose, "opens", exp=NOW - 30, born=NOW + 30)
    for generation in (0, 1, 2**31, LAST):
        for ring in ("sealed", "signed"):
            name = "resume, %s, generation %d" % (ring, generation)
            add(name, ring, "resume", "opens", generation=generation)
    for slot in (2, 3):
        for purpose in PURPOSES:
            label = "%s, retired slot %d, " % (purpose, slot)
            add(label + "expired", "full", purpose, "retired_key", slot=slot, exp=0)
            add(label + "too far", "full", purpose, "retired_key", slot=slot, exp=LAST)
            if purpose != "cursor":
                add(label + "life over", "full", purpose, "retired_key", slot=slot, born=0)
    for ring in ("sealed", "signed"):
        text = crafted("elsewhere", ring, "cursor", exp=0)
        name = "cursor, %s, expired and of another caller" % ring
        o.add(name, ring, "cursor", text, NOBODY, want="not_opened")
        token = ref.unb64(text)
        moved = ref.b64(bytes([token[0] | 1]) + token[1:])
        o.add("cursor, %s, expired and of an empty slot" % ring, ring, "cursor", moved, want="unknown_slot")
        o.add("cursor, %s, expired and with a newline" % ring, ring, "cursor", text + "\n", want="malformed")


def _open_heads_refused(o):
    """Purposes with a head: texts that are refused before the tag is looked at."""
    for ring in ("sealed", "signed"):
        for purpose in ("state", "resume"):
            label = "%s, %s, " % (purpose, ring)
            longest = ref.PURPOSES[purpose].longest
            head = head_of(purpose, "over", NOW)
            room = longest * 3 // 4 - {"sealed": 25, "signed": 21}[ring]
            text = crafted(label + "over", ring, purpose, body=head + stuff("over", room - len(head)))
            assert len(text) == longest
            # `_open_lengths` has resume tokens with a letter more.
            name, extra = ("one character more", "A") if purpose == "state" else ("one padding character more", "=")
            o.add(label + name, ring, purpose, text + extra, want="too_long")
            token = ref.unb64(crafted(label + "moved", ring, purpose))
            moved = ref.b64(bytes([token[0] | 9]) + token[1:])
            o.add(label + "moved to an empty slot", ring, purpose, moved, want="unknown_slot")


def opening():
    """The `open` section."""
    o = Opening()
    for part in (
        _open_edits,
        _open_texts,
        _open_lengths,
        _open_contexts,
        _open_slots,
        _open_heads,
        _open_times,
        _open_heads_refused,
    ):
        part(o)
    return o.made


# --------------------------------------------------------------------------
# Payloads


def cursor_issuer():
    """The `cursor_issuer` section."""
    out = []
    for page in (0, 1, 127, 128, 129, 255, 16383, 16384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**31, LAST):
        for state in (b"", b"\x00", b"\x80", stuff("page %d" % page, 11)):
            name = "page %d, state of %d bytes (%s)" % (page, len(state), state[:1].hex())
            payload = ref.page_payload(page, state)
            out.append({"name": name, "payload": payload.hex(), "page_index": page, "opaque_state": state.hex()})
    for page in (0, LAST):
        for size in (255, 256):
            state = stuff("page state", size)
            payload = ref.page_payload(page, state)
            name = "page %d, state of %d bytes" % (page, size)
            out.append({"name": name, "payload": payload.hex(), "page_index": page, "opaque_state": state.hex()})
    refused = (
        ("empty", ""),
        ("0 in two bytes", "8000"),
        ("0 in three bytes", "808000"),
        ("0 in five bytes", "8080808000"),
        ("1 in two bytes", "8100"),
        ("127 in two bytes", "ff00"),
        ("128 in three bytes", "808100"),
        ("2^28 - 1 in five bytes", "ffffffff00"),
        ("no last byte, one byte", "80"),
        ("no last byte, four bytes", "ffffffff"),
        ("no last byte, five bytes", "8080808080"),
        ("2^32", "8080808010"),
        ("2^32 + 1", "8180808010"),
        ("2^35 - 1", "ffffffff7f"),
        ("six bytes", "808080808001"),
        ("six bytes of 0", "808080808000"),
        ("ten bytes", "ffffffffffffffffff01"),
        ("state of 257 bytes", "00" + stuff("page state", 257).hex()),
        ("state of 257 bytes, last page", "ffffffff0f" + stuff("page state", 257).hex()),
        ("not minimal, with a state", "8000" + "616263"),
    )
    for name, payload in refused:
        try:
            ref.read_page_payload(bytes.fromhex(payload))
        except ValueError:
            out.append({"name": name, "payload": payload, "refused": True})
        else:
            raise AssertionError("page payload accepted: " + name)
    return out


CODEC_CALL = {"operation": "call", "name_field": "orders.cancel", **ALICE, "arguments": ARGUMENTS}


def request_state():
    """The sections `request_state_codec` and `request_state_refused`."""
    made, refused = [], []

    def add(name, ring, binding, state, now=NOW, ttl=300, **changes):
        given = {**CODEC_CALL, **changes}
        need = 20 if RINGS[ring].active.mode == "sealed" else 16
        draw = ref.Draw(stuff("codec " + name, need))
        text = ref.codec_mint(RINGS[ring], binding, given, now, ttl, draw, state)
        case = {"name": name, "ring": ring, "binding": binding, **given, "now": now, "ttl": ttl}
        made.append({**case, "random": draw.data.hex(), "state": state.hex(), "text": text})
        return text

    def refuse(name, reason, ring, binding, text, now=NOW, **changes):
        given = {**CODEC_CALL, **changes}
        try:
            ref.codec_open(RINGS[ring], binding, given, now, text)
        except ref.Refused as error:
            assert error.reason == reason, (name, error.reason)
        else:
            raise AssertionError("opened: " + name)
        case = {"name": name, "ring": ring, "binding": binding, **given, "now": now}
        refused.append({**case, "text": text, "reason": reason})

    nobody = {"issuer": None, "subject": None}
    for ring in ("sealed", "signed", "rotated", "full"):
        for binding in range(4):
            label = "%s, binding %d" % (ring, binding)
            text = add(label, ring, binding, b'{"step":1}')
            add(label + ", empty state", ring, binding, b"")
            if ring not in ("sealed", "signed"):
                continue
            add(label + ", state of 300 bytes", ring, binding, stuff(label, 300))
            add(label + ", longest ttl", ring, binding, b"x", ttl=3600)
            add(label + ", unauthenticated", ring, binding, b"x", **nobody)
            for other in range(4):
                if other != binding:
                    refuse(label + ", opened as %d" % other, "not_opened", ring, other, text)
            for name, since, changes in (
                ("subject", 1, {"subject": "bob"}),
                ("issuer", 1, {"issuer": "https://other.example"}),
                ("caller", 1, nobody),
                ("name", 2, {"name_field": "orders.search"}),
                ("operation", 2, {"operation": "prompt"}),
                ("arguments", 3, {"arguments": "22" * 32}),
            ):
                if binding >= since:
                    refuse(label + ", other " + name, "not_opened", ring, binding, text, **changes)
            refuse(label + ", expired", "expired", ring, binding, text, now=NOW + 360)
            refuse(label + ", cut off", "malformed", ring, binding, text[:-1] + "=")
        # The same context on both sides, so that only the byte tells.
        text = add(ring + ", binding 0, no caller", ring, 0, b"s", **nobody)
        refuse(ring + ", 0 opened as 1, no caller", "not_opened", ring, 1, text, **nobody)
        text = add(ring + ", binding 1, no caller", ring, 1, b"s", **nobody)
        refuse(ring + ", 1 opened as 0, no caller", "not_opened", ring, 0, text, **nobody)
        for byte in (4, 0x30, 0xFF):
            text = crafted("byte %d" % byte, ring, "state", members(), body=head_of("state", "b", NOW) + bytes([byte]))
            refuse("%s, binding byte %d" % (ring, byte), "not_opened", ring, 0, text)
        text = crafted("no byte", ring, "state", members(), body=head_of("state", "b", NOW))
        refuse(ring + ", no binding byte", "not_opened", ring, 0, text)
        text = crafted("no head", ring, "state", members(), body=b"\x00" * 19)
        refuse(ring + ", no head", "malformed", ring, 0, text)
        text = crafted("too far", ring, "state", members(), exp=NOW + 3661, body=head_of("state", "b", NOW) + b"\x00s")
        refuse(ring + ", exp too far", "too_far", ring, 0, text)
    text = crafted("retired", "full", "state", members(), slot=2, body=head_of("state", "b", NOW) + b"\x00s")
    refuse("full, retired key", "retired_key", "full", 0, text)
    refuse("sealed, too long", "too_long", "sealed", 0, "A" * 16385)
    text = crafted("cursor", "sealed", "cursor", members(), body=head_of("state", "b", NOW) + b"\x00s")
    refuse("sealed, a cursor", "not_opened", "sealed", 0, text)
    return made, refused


# --------------------------------------------------------------------------
# Handles, wrapped keys, token fingerprints


def handles():
    """The `handles` section."""
    values = [bytes(16), b"\xff" * 16, bytes(range(16)), bytes(15) + b"\x01", b"\x80" + bytes(15)]
    values += [bytes(at) + b"\x5a" + bytes(15 - at) for at in range(16)]
    values += [stuff("handle %d" % n, 16) for n in range(20)]
    return [{"bytes": value.hex(), "text": ref.handle(value)} for value in values]


def handles_refused():
    """The `handles_refused` section."""
    text = ref.handle(stuff("handle refused", 16))
    texts = ["", "h", text[:-1], text + "0", text[1:], "H" + text[1:], "g" + text[1:], " " + text, text + "\n"]
    texts += [text.upper(), text[:7] + "-" + text[8:], text[:7] + "\u00e9" + text[8:], text[:7] + " " + text[8:]]
    texts += [text[:9] + c + text[10:] for c in "ilouILOUA_+/=\u0660"]
    texts += [text[:-1] + "u", "h" + "z" * 29, "h" + "0" * 29]
    # One of the two leading bits is set, or both.
    texts += ["h" + c + text[2:] for c in ref.BASE32[8:]]
    # One character mistyped, in every place.
    for at in range(1, 30):
        index = ref.BASE32.index(text[at])
        texts.append(text[:at] + ref.BASE32[index ^ 1] + text[at + 1 :])
    # Two neighbours exchanged.
    for at in range(2, 29):
        if text[at] != text[at + 1]:
            texts.append(text[:at] + text[at + 1] + text[at] + text[at + 2 :])
    out = []
    for text in texts:
        try:
            ref.read_handle(text)
        except ref.BadHandle as error:
            out.append({"text": text, "why": str(error)})
        else:
            # One in 32768 wrong checksums is right by chance.
            raise AssertionError("handle accepted: " + text)
    return out


def wrapped():
    """The sections `wrapped`, `unwrapped` and `wrapped_refused`."""
    made, opened, refused = [], [], []
    for ring in ("sealed", "signed", "rotated", "to-sealed", "to-signed", "gone-round", "full", "sealed-15", "signed-7"):
        for purpose in ("wrap-data", "wrap-sign"):
            for field in ("store-1", "", "Ablage \u00fc \U0001f5dd"):
                name = "%s, %s, '%s'" % (ring, purpose, field)
                salt, key = stuff("wrap salt " + name, 4), stuff("wrapped " + name, 32)
                text = ref.wrap(RINGS[ring], purpose, field, ref.Draw(salt), key)
                case = {"name": name, "ring": ring, "purpose": purpose, "name_field": field}
                made.append({**case, "random": salt.hex(), "key": key.hex(), "text": text})
    for number, slot in RINGS["full"].slots.items():
        name = "full ring, slot %d (%s, %s)" % (number, slot.state, slot.mode)
        key = stuff("wrapped " + name, 32)
        text = ref.wrap_under(RINGS["full"], number, "wrap-data", "store-1", stuff("salt " + name, 4), key)
        case = {"name": name, "ring": "full", "purpose": "wrap-data", "name_field": "store-1"}
        opened.append({**case, "key": key.hex(), "text": text})

    def refuse(name, text, ring="sealed", purpose="wrap-data", field="store-1"):
        try:
            ref.unwrap(RINGS[ring], purpose, field, text)
        except ref.Refused:
            case = {"name": name, "ring": ring, "purpose": purpose, "name_field": field}
            refused.append({**case, "text": text})
        else:
            raise AssertionError("unwrapped: " + name)

    text, token = made[0]["text"], ref.unb64(made[0]["text"])
    assert len(text) == 71
    refuse("other purpose", text, purpose="wrap-sign")
    refuse("other name", text, field="store-2")
    refuse("empty name", text, field="")
    refuse("other ring", text, ring="signed")
    refuse("other ring with the same slot and mode", text, ring="sealed-0")
    for at in range(len(token)):
        edited = bytearray(token)
        edited[at] ^= 1 << at % 8
        refuse("bit %d of byte %d flipped" % (at % 8, at), ref.b64(bytes(edited)))
    for bit in range(1, 8):
        refuse("bit %d of the header flipped" % bit, ref.b64(bytes([token[0] ^ 1 << bit]) + token[1:]))
    for length in (0, 1, 20, 21, 52):
        refuse("first %d bytes" % length, ref.b64(token[:length]))
    refuse("a byte more", ref.b64(token + b"\x00"))
    refuse("padded", text + "=")
    refuse("a newline after", text + "\n")
    refuse("a space before", " " + text)
    refuse("tail bits", text[:-1] + chr(ord(text[-1]) + 1))
    refuse("70 characters", text[:-1])
    refuse("a token", crafted("as wrap", "sealed", "cursor", members()))
    ctx = ref.ring_context(RINGS["sealed"], "wrap-data", {"name_field": "store-1"})
    for size in (0, 31, 33):
        key = ref.derive(RINGS["sealed"].slots[0].key, "wrap-data", ref.WRAP_ALGORITHM)
        data = b"\x40" + bytes(4) + ref.siv(key, ctx, b"\x40", bytes(4), stuff("wrapped size", size))
        refuse("well wrapped, but %d bytes" % size, ref.b64(data))
    key = ref.derive(RINGS["sealed"].slots[0].key, "wrap-data", ref.WRAP_ALGORITHM)
    data = b"\x30" + bytes(4) + ref.siv(key, ctx, b"\x30", bytes(4), stuff("form 3", 32))
    refuse("well wrapped, but with the header of a token", ref.b64(data))
    return made, opened, refused


def token_fingerprints(texts):
    """The `token_fingerprints` section."""
    texts = ["", "A", "\u00e9", *texts]
    return [{"text": text, "fingerprint": ref.token_fingerprint(text)} for text in texts]


# --------------------------------------------------------------------------
# Argument fingerprints

# Numbers that both ways in accept, though not always alike.
NUMBERS = (
    "0", "-0", "0.0", "-0.0", "0e0", "0E+5", "-0e-5", "0e400", "0.000e-400", "1", "-1", "10", "100",
    "1.0", "-1.0", "1.00", "1e0", "1E0", "1e+0", "1e-0", "1e3", "1E3", "1.5e1", "10e-1", "100e-2",
    "1000e-3", "12.50e1", "1.5", "-1.5", "0.5", "0.1", "0.10", "0.2", "0.3", "1.1", "123.456",
    "-123.456e-7", "3.141592653589793", "2147483647", "2147483648", "4294967295", "4294967296",
    "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
    "9007199254740993.0", "9007199254740992.5", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
    "18446744073709551615.0", "18446744073709551616.0", "1e15", "1e16", "1e17", "1e18", "1e19",
    "1e20", "1e21", "1e22", "1e23", "1e24", "1e25", "-1e25", "1e26", "1e30", "1e38", "123456789e20",
    "100000000000000000000", "1000000000000000000000", "10000000000000000000000000",
    "340282366920938463463374607431768211455", "-340282366920938463463374607431768211455",
    "340282366920938425684442744474606501888", "3.4e38", "3.402823669209384e38", "3.403e38",
    "340282366920938463463374607431768211455.0", "340282366920938463463374607431768211455.5",
    "340282366920938463463374607431768211456.0", "340282366920938463463374607431768211456e0",
    "34028236692093846346337460743176821145.5e1", "34028236692093846346337460743176821145.6e1",
    "-340282366920938463463374607431768211456.0", "1e39", "-1e39", "12345e35", "1e100", "1.5e300", "1e300",
    "1e308", "1.7976931348623157e308", "-1.7976931348623157e308", "1.7976931348623158e308",
    "179769313486231570000000000000e279", "1e-1", "1e-2", "1e-5", "1e-6", "1.5e-6", "1e-7",
    "1.5e-7", "9.99e-7", "0.000001", "0.0000001", "0.00000123", "-1e-7", "1e-10", "1e-100", "1e-300",
    "2.2250738585072014e-308", "2.225073858507201e-308", "5e-324", "4.9e-324", "3e-324", "2e-324",
    "-2e-324", "1e-400", "-1e-400", "0.99999999999999999999", "-0.99999999999999999999",
    "1.0000000000000000001", "0.999999999999999944", "0.9999999999999999", "1.0000000000000002",
    "123456789012345678901234567890.5", "123456789012345678.5", "4.35", "0.000035689",
    "5.0e-1", "2.5", "1e-21", "123e-20", "0.1e1", "0.01e2", "0.05e1", "1.7e1", "17e-1",
    "8.41e21", "9.5367431640625e-7", "4503599627370496.5", "4503599627370497.5", "333333333.33333329",
    "1E30", "4.50", "2e-3", "0.000000000000000000000000001", "1" + "0" * 38, "1e00000000000000000003",
    "0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400", "0." + "1" * 60, "1." + "0" * 60,
)

# Texts that both ways in write alike.
TEXTS = (
    ("null", "null"),
    ("true", "true"),
    ("false", "false"),
    ("empty string", '""'),
    ("empty array", "[]"),
    ("empty object", "{}"),
    ("white space everywhere", ' \t\r\n{ "b" : [ 1 , 2 ] ,\n"a" : { } }\r\n '),
    ("order of members", '{"c":3,"a":1,"b":2}'),
    ("order within members", '[{"z":{"y":1,"x":2},"a":[]}]'),
    ("array order is kept", "[3,1,2,[2,1]]"),
    ("empty key", '{"a":1,"":2}'),
    ("key that begins another", '{"ab":1,"a":2,"abc":3}'),
    ("digits as keys", '{"10":1,"9":2,"1":3}'),
    ("upper and lower case keys", '{"a":1,"B":2,"A":3,"b":4}'),
    ("RFC 8785 sorting", '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh",'
     '"1":"One","\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control","\\u00f6":"Latin Small Letter O With Diaeresis"}'),
    ("surrogates sort before U+E000", '{"\ue000":1,"\U00010000":2,"\ud7ff":3,"\uffff":4,"\U0010ffff":5}'),
    ("composed and decomposed keys differ", '{"\u00fc":1,"u\u0308":2}'),
    ("short escapes", '"\\"\\\\\\/\\b\\f\\n\\r\\t"'),
    ("short escapes spelled out", '"\\u0022\\u005c\\u002f\\u0008\\u000c\\u000a\\u000d\\u0009"'),
    ("every control character", '"' + "".join("\\u%04x" % c for c in range(32)) + '"'),
    ("upper-case hexadecimal", '"\\u001F\\u00E9\\u00FF"'),
    ("DEL and C1 stay", '"\\u007f\\u0080\\u009f"'),
    ("line separators stay", '"\\u2028\\u2029"'),
    ("escaped letters", '"\\u0061\\u0062"'),
    ("pair of surrogates", '"\\ud83d\\ude00\\uD83D\\uDE00\U0001f600"'),
    ("noncharacters", '"\\ufffe\\uffff\ufdd0"'),
    ("characters of every length", '"a\u00e9\u20ac\U0001f600"'),
    ("escaped keys", '{"\\u0062":1,"\\u0061\\n":2,"\\"":3,"\\\\":4}'),
    ("byte order mark within a string", '"\ufeff"'),
    ("numbers in an array", "[1,1.0,1e0,-0,1.5]"),
    ("RFC 8785 example", '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
     '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'),
    ("a tool's arguments", '{"order":"A-17","lines":[{"sku":"x","qty":2},{"sku":"y","qty":10}],"note":null}'),
    ("depth 32, arrays", "[" * 32 + "]" * 32),
    ("depth 32, a scalar inside", "[" * 32 + "1" + "]" * 32),
    ("depth 32, objects", '{"a":' * 31 + "{}" + "}" * 31),
    ("depth 32, many times", "[" + ",".join(["[" * 31 + "]" * 31] * 3) + "]"),
    ("brackets in a string", '"' + "[" * 40 + '"'),
)

EXCLUSIONS = (
    ("one member", '{"a":1,"b":2}', ["a"]),
    ("every member", '{"a":1,"b":2}', ["a", "b"]),
    ("a member that is not there", '{"a":1}', ["b"]),
    ("nothing", '{"a":1}', []),
    ("not in inner objects", '{"a":{"a":1,"b":2},"b":[{"a":3}],"c":{"b":1}}', ["a"]),
    ("the empty name", '{"":1,"a":2}', [""]),
    ("a name spelled with escapes", '{"\\u0061":1,"b":2}', ["a"]),
    ("case counts", '{"A":1,"a":2}', ["a"]),
    ("composition counts", '{"\u00fc":1,"u\u0308":2}', ["\u00fc"]),
    ("an object with content", '{"progress":{"x":[1,{"y":2}]},"q":"z"}', ["progress"]),
    ("an array is untouched", '[{"a":1},"a"]', ["a"]),
    ("a string is untouched", '"a"', ["a"]),
    ("a name twice in the list", '{"a":1,"b":2}', ["b", "b"]),
)

REFUSED_TEXTS = (
    ("empty", ""),
    ("white space only", " \n"),
    ("two values", "1 2"),
    ("two objects", "{}{}"),
    ("a comma after", "{},"),
    ("byte order mark", "\ufeff{}"),
    ("no-break space", "\u00a0{}"),
    ("vertical tab", "\x0b{}"),
    ("form feed", "{}\x0c"),
    ("NUL after", "{}\x00"),
    ("comment", "{}//x"),
    ("unclosed array", "[1"),
    ("unclosed object", '{"a":1'),
    ("unclosed string", '"a'),
    ("wrong bracket", "[1}"),
    ("trailing comma in an array", "[1,]"),
    ("trailing comma in an object", '{"a":1,}'),
    ("leading comma", "[,1]"),
    ("no comma", "[1 2]"),
    ("no colon", '{"a" 1}'),
    ("no value", '{"a":}'),
    ("key without quotes", "{a:1}"),
    ("key that is a number", "{1:1}"),
    ("single quotes", "'a'"),
    ("True", "True"),
    ("tru", "tru"),
    ("nulll", "nulll"),
    ("NaN", "NaN"),
    ("Infinity", "Infinity"),
    ("-Infinity", "-Infinity"),
    ("undefined", "undefined"),
    ("minus only", "-"),
    ("plus sign", "+1"),
    ("leading zero", "01"),
    ("negative leading zero", "-01"),
    ("two zeros", "00"),
    ("no digit before the point", ".5"),
    ("no digit after the point", "1."),
    ("no digit after the point, exponent", "1.e3"),
    ("no digit in the exponent", "1e"),
    ("sign only in the exponent", "1e+"),
    ("fraction in the exponent", "1e1.5"),
    ("hexadecimal", "0x10"),
    ("digit separator", "1_000"),
    ("two minus signs", "--1"),
    ("digits of another script", "\u0661"),
    ("raw newline in a string", '"a\nb"'),
    ("raw tab in a string", '"a\tb"'),
    ("raw NUL in a string", '"\x00"'),
    ("raw U+001F in a string", '"\x1f"'),
    ("unknown escape", '"\\x41"'),
    ("escaped single quote", "\"\\'\""),
    ("escape at the end", '"\\'),
    ("short unicode escape", '"\\u12"'),
    ("unicode escape with a sign", '"\\u+123"'),
    ("unicode escape that is not hexadecimal", '"\\u12g4"'),
    ("lone high surrogate", '"\\ud800"'),
    ("lone low surrogate", '"\\udc00"'),
    ("surrogates in the wrong order", '"\\ude00\\ud83d"'),
    ("two high surrogates", '"\\ud83d\\ud83d\\ude00"'),
    ("high surrogate, then a letter", '"\\ud83dx"'),
    ("high surrogate, then an escaped letter", '"\\ud83d\\u0041"'),
    ("high surrogate, then another escape", '"\\ud83d\\n"'),
    ("lone surrogate in a key", '{"\\udfff":1}'),
    ("same key twice", '{"a":1,"a":2}'),
    ("same key and value twice", '{"a":1,"a":1}'),
    ("same key twice, one escaped", '{"a":1,"\\u0061":2}'),
    ("same key twice, far apart", '{"a":1,"b":2,"c":3,"a":4}'),
    ("same key twice, inside", '[{"x":{"k":1,"k":2}}]'),
    ("empty key twice", '{"":1,"":2}'),
    ("same key beyond 16 bits twice", '{"\U0001f600":1,"\\ud83d\\ude00":2}'),
    ("2^128", "340282366920938463463374607431768211456"),
    ("-2^128", "-340282366920938463463374607431768211456"),
    ("10^39", "1" + "0" * 39),
    ("400 digits", "9" * 400),
    ("2^128 inside", '{"a":[340282366920938463463374607431768211456]}'),
    ("1e309", "1e309"),
    ("-1e309", "-1e309"),
    ("1e400", "1e400"),
    ("just beyond the largest double", "1.7976931348623159e308"),
    ("1e99999999999999999999", "1e99999999999999999999"),
    ("400 digits and a fraction", "9" * 400 + ".5"),
    ("depth 33, arrays", "[" * 33 + "]" * 33),
    ("depth 33, objects", '{"a":' * 32 + "{}" + "}" * 32),
    ("depth 33, mixed", '[{"a":' * 16 + "[]" + "}]" * 16),
    ("depth 2000", "[" * 2000 + "]" * 2000),
)

REFUSED_EXCLUSIONS = (
    ("duplicate of an excluded member", '{"a":1,"a":2,"b":3}', ["a"]),
    ("excluded member with a lone surrogate", '{"a":"\\ud800","b":3}', ["a"]),
    ("excluded member too deep", '{"a":' + "[" * 32 + "]" * 32 + "}", ["a"]),
    ("excluded member with a large integer", '{"a":340282366920938463463374607431768211456}', ["a"]),
    ("excluded member that is not finite", '{"a":1e999,"b":1}', ["a"]),
    ("excluded member that is no JSON", '{"a":01,"b":1}', ["a"]),
)

REFUSED_BYTES = (
    ("a lone continuation byte", b'"\x80"'),
    ("Latin-1", b'"\xe9"'),
    ("cut off inside a character", b'"\xe2\x82"'),
    ("an overlong NUL", b'"\xc0\x80"'),
    ("an overlong slash", b'"\xe0\x80\xaf"'),
    ("an encoded surrogate", b'"\xed\xa0\x80"'),
    ("beyond U+10FFFF", b'"\xf4\x90\x80\x80"'),
    ("a byte that never occurs", b'"\xff"'),
    ("UTF-16", '{"a":1}'.encode("utf-16")),
    ("in a key", b'{"\xff":1}'),
    ("after the value", b"{}\xff"),
)


def fingerprints():
    """The sections `fingerprints_text` and `fingerprints_value`."""
    good = [("number " + (n if len(n) < 50 else "%s... (%d characters)" % (n[:12], len(n))), n, []) for n in NUMBERS]
    good += [(name, text, []) for name, text in TEXTS]
    good += [("excluded: " + name, text, exclude) for name, text, exclude in EXCLUSIONS]
    texts, values = [], []
    for name, text, exclude in good:
        for out, way in ((texts, ref.number_as_written), (values, ref.number_as_parsed)):
            entry = {"name": name, "text": text, "exclude": exclude}
            canonical, digest = ref.fingerprint_arguments(text.encode(), exclude, way)
            out.append({**entry, "canonical": canonical, "fingerprint": digest.hex()})
    bad = [(name, text.encode(), []) for name, text in REFUSED_TEXTS]
    bad += [(name, text.encode(), exclude) for name, text, exclude in REFUSED_EXCLUSIONS]
    bad += [("not UTF-8: " + name, data, []) for name, data in REFUSED_BYTES]
    for name, data, exclude in bad:
        try:
            ref.fingerprint_arguments(data, exclude, ref.number_as_written)
        except ref.BadJson:
            shown = {"text_hex": data.hex()}
            if not name.startswith("not UTF-8"):
                shown = {"text": data.decode()}
            texts.append({"name": "refused: " + name, **shown, "exclude": exclude, "refused": True})
        else:
            raise AssertionError("fingerprint of: " + name)
    # Large plain integers have a fingerprint as values only.
    for literal in ("340282366920938463463374607431768211456", "1" + "0" * 39, "-1" + "0" * 60):
        canonical, digest = ref.fingerprint_arguments(literal, [], ref.number_as_parsed)
        entry = {"name": "large integer " + literal[:12], "text": literal, "exclude": []}
        values.append({**entry, "canonical": canonical, "fingerprint": digest.hex()})
    return texts, values


# --------------------------------------------------------------------------
# The foreign request state format

FOREIGN_KEYS = (("32-byte key", stuff("foreign key 32", 32)), ("48-byte key", stuff("foreign key 48", 48)))
SCHEDULES = ("raw", "two", "three")
BINDINGS = ("none", "authSubject", "authSubjectAndTool")


class Foreign:
    """Collects cases of the foreign format."""

    def __init__(self):
        self.made = []

    def add(self, name, want, schedule, mode, binding, opener=None, edit=None, now=NOW, write=None, **changes):
        """One case.

        The token is made for the values in `changes`, then `edit` changes its
        text, and `opener` overrides what the reading side believes.
        """
        made = {"key": FOREIGN_KEYS[0][1], "subject": "alice", "target_name": "orders.cancel"}
        made.update(method="tools/call", state="step 2", exp=NOW + 300)
        made.update(changes)
        if binding != "authSubjectAndTool":
            made["target_name"] = None
        if schedule != "three" or binding != "authSubjectAndTool":
            made["method"] = None
        opener = dict(opener or {})
        key, seen = made["key"], opener.pop("made_schedule", schedule)
        tag = ref.foreign_bind_tag(
            seen,
            key,
            opener.pop("made_binding", binding),
            made["subject"],
            made["method"] or "tools/call",
            made["target_name"] or "orders.cancel",
        )
        payload = (write or plain_payload)(made["state"], made["exp"], tag)
        nonce = stuff("nonce " + name, 12) if mode == "encrypted" else None
        if mode == "signed":
            text = ref.foreign_signed(seen, key, payload.encode())
        else:
            text = ref.foreign_encrypted(seen, key, tag, nonce, payload.encode())
        text = edit(text) if edit else text
        case = {"name": name, "schedule": schedule, "mode": mode, "binding": binding}
        case.update(key=key.hex(), subject=made["subject"], method=made["method"], target_name=made["target_name"])
        case.update(state=made["state"], exp=made["exp"], nonce=nonce.hex() if nonce else None)
        case.update(payload=payload, text=text, now=now)
        case.update(opener)
        case["expect"] = ref.expect_foreign(case)
        assert case["expect"] == want, (name, case["expect"])
        self.made.append(case)


def plain_payload(state, exp, tag):
    """The members in their usual order, without white space."""
    return json.dumps({"s": state, "exp": exp, "b": tag}, separators=(",", ":"), ensure_ascii=False)


def _written(change, **options):
    """A payload writer that changes the members first."""

    def write(state, exp, tag):
        return json.dumps(change({"s": state, "exp": exp, "b": tag}), **options)

    return write


def _foreign_good(f):
    """Tokens that open, and the last second of them."""
    for schedule in SCHEDULES:
        for mode in ("signed", "encrypted"):
            for binding in BINDINGS:
                for key_name, key in FOREIGN_KEYS:
                    label = "%s, %s, %s, %s" % (schedule, mode, binding, key_name)
                    f.add(label, "opens", schedule, mode, binding, key=key)
            label = "%s, %s, " % (schedule, mode)
            binding = "authSubjectAndTool"
            f.add(label + "in its last second", "opens", schedule, mode, binding, exp=NOW)
            f.add(label + "a second later", "expired", schedule, mode, binding, exp=NOW - 1)
            f.add(label + "long expired", "expired", schedule, mode, binding, exp=1)
            f.add(label + "exp beyond 32 bits", "opens", schedule, mode, binding, exp=2**33)
            f.add(label + "empty state", "opens", schedule, mode, binding, state="")
            f.add(label + "non-ASCII state", "opens", schedule, mode, binding, state="\u00fc \u6771 \U0001f511")
            f.add(label + "state with JSON inside", "opens", schedule, mode, binding, state='{"a":"\\n\n"}')
            f.add(label + "non-ASCII subject", "opens", schedule, mode, binding, subject="Ren\u00e9e")
            for name, write in (
                ("order b, exp, s", _written(lambda m: {k: m[k] for k in ("b", "exp", "s")}, separators=(",", ":"))),
                ("order exp, s, b", _written(lambda m: {k: m[k] for k in ("exp", "s", "b")}, separators=(",", ":"))),
                ("white space", _written(lambda m: m, indent=2)),
                ("spaces after separators", _written(lambda m: m)),
                ("an extra member", _written(lambda m: {**m, "n": [1, {"x": None}]}, separators=(",", ":"))),
                ("escaped state", lambda s, e, b: '{"s":"\\u0073tep 2","exp":%d,"b":"%s"}' % (e, b)),
            ):
                f.add(label + name, "opens", schedule, mode, binding, write=write)


def _foreign_bad(f):
    """Tokens that are refused, for everything but their age."""
    binding = "authSubjectAndTool"
    for schedule in SCHEDULES:
        for mode in ("signed", "encrypted"):
            label = "%s, %s, " % (schedule, mode)

            def bad(name, **options):
                f.add(label + name, "refused", schedule, mode, options.pop("bound", binding), **options)

            bad("other subject", opener={"subject": "bob"})
            bad("other subject, bound to the subject", bound="authSubject", opener={"subject": "bob"})
            bad("other tool", opener={"target_name": "orders.search"})
            bad("other key", opener={"key": FOREIGN_KEYS[1][1].hex()})
            if schedule == "three":
                bad("other method", opener={"method": "prompts/get"})
            for other in SCHEDULES:
                if other != schedule:
                    bad("made by schedule " + other, opener={"made_schedule": other})
                    if not (mode == "encrypted" and "raw" not in (schedule, other)):
                        bad("bound to nothing, made by schedule " + other, bound="none", opener={"made_schedule": other})
            for other in BINDINGS:
                if other != binding:
                    bad("made with binding " + other, opener={"made_binding": other})
            for name, change in (
                ("exp a string", lambda m: {**m, "exp": str(m["exp"])}),
                ("exp a fraction", lambda m: {**m, "exp": m["exp"] + 0.5}),
                ("exp null", lambda m: {**m, "exp": None}),
                ("s a number", lambda m: {**m, "s": 7}),
                ("s null", lambda m: {**m, "s": None}),
                ("s an object", lambda m: {**m, "s": {"step": 2}}),
                ("no b", lambda m: {k: m[k] for k in ("s", "exp")}),
                ("no s", lambda m: {k: m[k] for k in ("exp", "b")}),
                ("no exp", lambda m: {k: m[k] for k in ("s", "b")}),
                ("b a number", lambda m: {**m, "b": 5}),
                ("an array", lambda m: [m["s"], m["exp"], m["b"]]),
                ("a string", lambda m: m["s"]),
                ("null", lambda m: None),
            ):
                bad("payload: " + name, write=_written(change, separators=(",", ":")))
            bad("payload: empty", write=lambda s, e, b: "")
            bad("payload: no JSON", write=lambda s, e, b: "step 2")
            bad("payload: something after it", write=lambda s, e, b: plain_payload(s, e, b) + "x")
            for name, edit in _foreign_edits(mode):
                bad(name, edit=edit)
            if mode == "signed":
                bad("b of another subject", write=lambda s, e, b: plain_payload(s, e, "0" * 64))
                bad("b in upper case", write=lambda s, e, b: plain_payload(s, e, b.upper()))
                bad("b cut off", write=lambda s, e, b: plain_payload(s, e, b[:-1]))
                bad("b empty", write=lambda s, e, b: plain_payload(s, e, ""))


def _flip(text, at):
    """The text of the same bytes with one bit changed."""
    data = bytearray(ref.unb64(text))
    data[at] ^= 1
    return ref.b64(bytes(data))


def _tail(text):
    """The text with a tail bit set, if it has unused bits, else padded."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return text[:-1] + digits[digits.index(text[-1]) + 1] if len(text) % 4 else text + "===="


def _foreign_edits(mode):
    """Names and functions that change a text of this mode."""

    def always(edits):
        return edits + [
            ("empty text", lambda t: ""),
            ("prefix only", lambda t: t[: t.index(".") + 1]),
            ("no prefix", lambda t: t[t.index(".") + 1 :]),
            ("version 2", lambda t: "v2" + t[2:]),
            ("prefix in upper case", lambda t: "V" + t[1:]),
            ("a space before", lambda t: " " + t),
            ("a newline after", lambda t: t + "\n"),
            ("a full stop after", lambda t: t + "."),
            ("cut off", lambda t: t[:-2]),
        ]

    if mode == "encrypted":

        def blob(change):
            return lambda t: "v1e." + change(t[4:])

        return always(
            [
                ("prefix of the other mode", lambda t: "v1." + t[4:]),
                ("nonce changed", blob(lambda b: _flip(b, 0))),
                ("ciphertext changed", blob(lambda b: _flip(b, 12))),
                ("tag changed", blob(lambda b: _flip(b, -1))),
                ("27-byte blob", blob(lambda b: ref.b64(ref.unb64(b)[:27]))),
                ("28-byte blob", blob(lambda b: ref.b64(ref.unb64(b)[:28]))),
                ("12-byte blob", blob(lambda b: ref.b64(ref.unb64(b)[:12]))),
                ("padded or tail bits", blob(_tail)),
                ("padded", blob(lambda b: b + "=" * (-len(b) % 4 or 4))),
            ]
        )

    def parts(change):
        return lambda t: ".".join(change(*t.split(".")))

    return always(
        [
            ("prefix of the other mode", parts(lambda v, p, m: ("v1e", p, m))),
            ("payload edited", parts(lambda v, p, m: (v, ref.b64(ref.unb64(p).replace(b"step 2", b"step 9")), m))),
            ("exp edited", parts(lambda v, p, m: (v, ref.b64(ref.unb64(p).replace(b'"exp":1', b'"exp":9')), m))),
            ("payload with a space more", parts(lambda v, p, m: (v, ref.b64(ref.unb64(p) + b" "), m))),
            ("payload empty", parts(lambda v, p, m: (v, "", m))),
            ("payload not canonical", parts(lambda v, p, m: (v, _tail(p), m))),
            ("payload padded", parts(lambda v, p, m: (v, p + "=" * (-len(p) % 4 or 4), m))),
            ("bad MAC", parts(lambda v, p, m: (v, p, _flip(m, 0)))),
            ("bad last byte of the MAC", parts(lambda v, p, m: (v, p, _flip(m, 31)))),
            ("empty MAC", parts(lambda v, p, m: (v, p, ""))),
            ("no MAC", parts(lambda v, p, m: (v, p))),
            ("short MAC", parts(lambda v, p, m: (v, p, ref.b64(ref.unb64(m)[:16])))),
            ("31-byte MAC", parts(lambda v, p, m: (v, p, ref.b64(ref.unb64(m)[:31])))),
            ("33-byte MAC", parts(lambda v, p, m: (v, p, ref.b64(ref.unb64(m) + b"\x00")))),
            ("all-zero MAC", parts(lambda v, p, m: (v, p, ref.b64(bytes(32))))),
            ("MAC not canonical", parts(lambda v, p, m: (v, p, _tail(m)))),
            ("MAC padded", parts(lambda v, p, m: (v, p, m + "="))),
            ("four parts", parts(lambda v, p, m: (v, p, m, m))),
            ("four parts, the last empty", parts(lambda v, p, m: (v, p, m, ""))),
            ("an empty part inside", parts(lambda v, p, m: (v, "", p, m))),
            ("payload and MAC exchanged", parts(lambda v, p, m: (v, m, p))),
        ]
    )


def foreign_vectors():
    """All of request-state-foreign.json."""
    f = Foreign()
    _foreign_good(f)
    _foreign_bad(f)
    return {"format": "foreign request state vectors 1", "cases": f.made}


def token_vectors():
    """All of token-v1.json."""
    mint, mint_refused = minting()
    codec, codec_refused = request_state()
    texts, values = fingerprints()
    wraps, unwraps, wraps_refused = wrapped()
    return {
        "format": "handback token vectors 1",
        "derive": derivations(),
        "rings": rings(),
        "secret_rings": secret_rings(),
        "ring_files_accepted": ring_files_accepted(),
        "ring_files_refused": ring_files_refused(),
        "contexts": contexts(),
        "mint": mint,
        "mint_refused": mint_refused,
        "open": opening(),
        "cursor_issuer": cursor_issuer(),
        "request_state_codec": codec,
        "request_state_refused": codec_refused,
        "fingerprints_text": texts,
        "fingerprints_value": values,
        "handles": handles(),
        "handles_refused": handles_refused(),
        "wrapped": wraps,
        "unwrapped": unwraps,
        "wrapped_refused": wraps_refused,
        "token_fingerprints": token_fingerprints([case["text"] for case in mint[:12]]),
    }
