"""An MCP server of both eras on standard streams, which writes down what it did.

The file that its first argument names gets a line for every effect. The second says which eras it
speaks: `older`, `newest` or `both`. What it is asked to do wrong, it does wrong.
"""

import json
import os
import sys
import threading
import time

RECORD = sys.argv[1]
SPEAKS = sys.argv[2]
LOCK = threading.Lock()
WAITING = {}


def say(message):
    line = message if isinstance(message, str) else json.dumps(message)
    with LOCK:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def record(text):
    with LOCK, open(RECORD, "a", encoding="utf-8") as out:
        out.write(text + "\n")
        out.flush()
        os.fsync(out.fileno())


def tool(name, properties, **more):
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": name, "inputSchema": schema, **more}


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
ROWS = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"type": "object"}}},
    "required": ["rows"],
}
TOOLS = [
    tool("append", {"text": TEXT, "delay_ms": NUMBER, "die": {"type": "boolean"}}),
    tool("look", {"text": TEXT}, annotations={"readOnlyHint": True}),
    tool("rows", {"count": NUMBER}, outputSchema=ROWS),
    tool("document", {"bytes": NUMBER}),
    tool("write_document", {"text": TEXT}),
    tool("confirm", {"what": TEXT}),
    tool("wrong", {"how": TEXT}),
]


def text(line):
    return {"content": [{"type": "text", "text": line}]}


def call(name, arguments, params, modern):
    if name == "append":
        record("append " + arguments["text"])
        if arguments.get("die"):
            os._exit(3)
        time.sleep(arguments.get("delay_ms", 0) / 1000)
        # Members that nobody knows, and numbers as they are written.
        return '{"content":[{"type":"text","text":"appended"}],"x-unknown":{"b":1.50,"a":1e2}}'
    if name == "look":
        record("look")
        return text(arguments.get("text", ""))
    if name == "rows":
        rows = [{"id": n, "name": f"row {n}", "group": n % 7} for n in range(arguments["count"])]
        value = {"rows": rows}
        return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}
    if name == "document":
        lines, line = [], 0
        while sum(map(len, lines)) < 0 or line * 40 < arguments["bytes"]:
            lines.append(f"line {line:06d} of a document, some text\n")
            line += 1
        return text("".join(lines))
    if name == "write_document":
        record(f"write {len(arguments['text'])} {hash_of(arguments['text'])}")
        return text("written")
    if name == "confirm":
        return confirm(arguments, params, modern)
    if name == "wrong":
        return wrong(arguments["how"])
    return None


def hash_of(line):
    import hashlib

    return hashlib.sha256(line.encode()).hexdigest()[:16]


def confirm(arguments, params, modern):
    if modern:
        state = params.get("requestState")
        if state is None:
            asked = {
                "method": "elicitation/create",
                "params": {
                    "mode": "form",
                    "message": "sure?",
                    "requestedSchema": {
                        "type": "object",
                        "properties": {"sure": {"type": "boolean"}},
                    },
                },
            }
            return {
                "resultType": "input_required",
                "inputRequests": {"q": asked},
                "requestState": "upstream-state:" + arguments["what"],
            }
        answer = params.get("inputResponses", {}).get("q", {})
        record(f"confirm {state} {answer.get('action')}")
        return text("confirmed " + state)
    answer = ask("elicitation/create", {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}})
    record("confirm " + str(answer.get("result", {}).get("action")))
    return text("confirmed")


def ask(method, params):
    number = f"s{len(WAITING) + 1}"
    waiting = WAITING[number] = [threading.Event(), None]
    say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    waiting[0].wait(60)
    return waiting[1] or {}


def wrong(how):
    if how == "malformed":
        say('{"jsonrpc":"2.0", "id":')
        say("this is no JSON")
        say("[]")
    elif how == "twice":
        say({"jsonrpc": "2.0", "id": 99999, "result": {}})
        say({"jsonrpc": "2.0", "id": "nobody", "result": {}})
    elif how == "die":
        os._exit(3)
    elif how == "half":
        sys.stdout.write('{"jsonrpc":"2.0","id":')
        sys.stdout.flush()
        os._exit(3)
    elif how == "never":
        time.sleep(3600)
    return text("wrong " + how)


def answer(message):
    method, params = message["method"], message.get("params") or {}
    meta = params.get("_meta") or {}
    modern = "io.modelcontextprotocol/protocolVersion" in meta and SPEAKS != "older"
    if method == ("server/discover" if SPEAKS == "older" else "initialize") and SPEAKS != "both":
        return None
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "upstream", "version": "1"},
        }
    if method == "server/discover":
        return {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "upstream", "version": "1"},
            "ttlMs": 0,
            "cacheScope": "public",
        }
    if method == "tools/list":
        half = 4
        if params.get("cursor") == "half":
            result = {"tools": TOOLS[half:]}
        else:
            result = {"tools": TOOLS[:half], "nextCursor": "half"}
        return {**result, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if modern else result
    if method == "tools/call":
        result = call(params["name"], params.get("arguments") or {}, params, modern)
        if isinstance(result, dict) and modern:
            result.setdefault("resultType", "complete")
        return result
    return None


def serve(message):
    result = answer(message)
    number = json.dumps(message["id"])
    if result is None:
        say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    elif isinstance(result, str):
        say(f'{{"jsonrpc":"2.0","id":{number},"result":{result}}}')
    else:
        say({"jsonrpc": "2.0", "id": message["id"], "result": result})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        waiting = WAITING.get(message.get("id"))
        if waiting:
            waiting[1] = message
            waiting[0].set()
        continue
    if message["method"] == "notifications/cancelled":
        record("cancelled")
    if "id" in message:
        threading.Thread(target=serve, args=(message,), daemon=True).start()
