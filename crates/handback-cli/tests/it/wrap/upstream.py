"""An MCP server of both eras on standard streams, which writes down what it did.

The file that its first argument names gets a line for every effect. The second says which eras it
speaks: `older`, `newest` or `both`; one that is `mute` hears everything and says nothing. What it is
asked to do wrong, it does wrong.

Words behind that say more: `has:NAME`, a tool of that name; `res:URI` and `tpl:TEMPLATE`, a resource
and a template of them; `gated`, it says what it is once there is
no file `record.gate`; `restless`, its tools have changed whenever they are listed; `endless` and
`heavy`, lists that never end, of pages that are empty or of a megabyte; `shy`, it says only once what it
is; `tasks`, it makes tasks; `token:TOKEN`, it wants to hear
under that token how far its questions are, and writes down what it is told; `deaf`, it never lists anything; `halting`, no prompts;
`jealous`, of its processes only the one that was greeted first does; `open`, a tool that shows its environment; `odd`, one with schemas that are elsewhere; `costly`,
two with schemas that are made to be expensive; `brief`, it says what it is and
ends over the next question; `stubborn`, it starts another program, writes down the processes of both,
and neither ends with its input nor when it is asked to.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

RECORD = sys.argv[1]
SPEAKS, *MORE = " ".join(sys.argv[2:]).split()
GATE = RECORD + ".gate"
LOCK = threading.Lock()
WAITING = {}
DISCOVERED = []
FIRST = []
TOKEN = [word[6:] for word in MORE if word.startswith("token:")]


def say(message):
    line = message if isinstance(message, str) else json.dumps(message)
    with LOCK:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def record(text, lasting=True):
    with LOCK, open(RECORD, "a", encoding="utf-8") as out:
        out.write(text + "\n")
        out.flush()
        if lasting:
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
    tool("wide", {"count": NUMBER, "bytes": NUMBER}, outputSchema=ROWS),
    tool("write_document", {"text": TEXT}),
    tool("confirm", {"what": TEXT, "stateless": {"type": "boolean"}, "bytes": NUMBER}),
    tool("wrong", {"how": TEXT}),
    tool("learn", {"name": TEXT}),
    tool("slow", {"text": TEXT, "delay_ms": NUMBER}),
    tool("take_back", {}),
]
TOOLS += [tool(word[4:], {}) for word in MORE if word.startswith("has:")]
RESOURCES = [{"uri": word[4:], "name": word} for word in MORE if word.startswith("res:")]
TEMPLATES = [{"uriTemplate": word[4:], "name": word} for word in MORE if word.startswith("tpl:")]
if "tasks" in MORE:
    TOOLS.append(tool("chore", {"bytes": NUMBER}))
if "open" in MORE:
    TOOLS.append(tool("environment", {}))
if "odd" in MORE:
    ELSEWHERE = {"$ref": "https://schemas.invalid/x"}
    TOOLS.append(tool("odd", {"text": ELSEWHERE, "count": NUMBER}, outputSchema=ELSEWHERE))
if "costly" in MORE:
    # General validators expand these to 2 ** 25 and 2 ** 27 schemas.
    for name, keyword, levels, last, more in [
        ("ladder", "anyOf", 25, {"type": "string"}, {"unevaluatedProperties": False}),
        ("diamonds", "allOf", 27, {"type": "object"}, {}),
    ]:
        refs = [{"$ref": f"#/$defs/d{level}"} for level in range(levels + 1)]
        defs = {f"d{level}": {keyword: [refs[level + 1]] * 2} for level in range(levels)}
        defs[f"d{levels}"] = last
        schema = {"type": "object", "$defs": defs, "$ref": "#/$defs/d0", **more}
        costly = tool(name, {}, outputSchema=schema)
        costly["inputSchema"] = schema
        TOOLS.append(costly)


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
    if name in ("odd", "ladder", "diamonds"):
        record(name)
        return {"content": [], "structuredContent": {"rows": list(range(arguments.get("count", 0)))}}
    if name == "wide":
        body = ('"ä\n' * arguments["bytes"])[: arguments["bytes"]]
        return {"content": [], "structuredContent": {"rows": [{"id": n, "body": body} for n in range(arguments["count"])]}}
    if name == "document":
        lines, line = [], 0
        while line * 40 < arguments["bytes"]:
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
    if name == "slow":
        return slow(arguments, params)
    if name == "take_back":
        return take_back()
    if name == "chore":
        # What the task comes to is in its id.
        return {"resultType": "task", "taskId": f"chore-{arguments['bytes']}", "status": "working"}
    if name == "environment":
        return text(json.dumps(dict(os.environ)))
    if name == "learn":
        TOOLS.append(tool(arguments["name"], {}))
        return text("learnt")
    if any(known["name"] == name for known in TOOLS):
        return text("learnt before")
    return None


def slow(arguments, params):
    token = (params.get("_meta") or {}).get("progressToken")
    record("slow " + arguments["text"])
    # To whoever it may concern.
    say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": arguments["text"]}})
    if token is not None:
        progress = {"progressToken": token, "progress": 1, "message": arguments["text"]}
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
    time.sleep(arguments.get("delay_ms", 0) / 1000)
    record("end slow " + arguments["text"])
    return text("slow " + arguments["text"])


def hash_of(line):
    import hashlib

    return hashlib.sha256(line.encode()).hexdigest()[:16]


def confirm(arguments, params, modern):
    question = "sure?" + " " * arguments.get("bytes", 0)
    stateless = arguments.get("stateless", False)
    if modern:
        state = params.get("requestState")
        if (params.get("inputResponses") if stateless else state) is None:
            asked = {
                "method": "elicitation/create",
                "params": {
                    "mode": "form",
                    "message": question,
                    "requestedSchema": {
                        "type": "object",
                        "properties": {"sure": {"type": "boolean"}},
                    },
                },
            }
            asks = {"resultType": "input_required", "inputRequests": {"q": asked}}
            if not stateless:
                asks["requestState"] = "upstream-state:" + arguments["what"]
            return asks
        answer = params.get("inputResponses", {}).get("q", {})
        record(f"confirm {state} {answer.get('action')}")
        return text("confirmed " + str(state))
    record("asks")
    time.sleep(arguments.get("delay_ms", 0) / 1000)
    answer = ask("elicitation/create", {"message": question, "requestedSchema": {"type": "object", "properties": {}}})
    if "error" in answer:
        record(f"refused {answer['error']['code']}")
    record("confirm " + str(answer.get("result", {}).get("action")))
    return text("confirmed")


def ask(method, params):
    if TOKEN:
        params = {**params, "_meta": {"progressToken": TOKEN[0]}}
    number = f"s{len(WAITING) + 1}"
    waiting = WAITING[number] = [threading.Event(), None]
    say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    waiting[0].wait(60)
    return waiting[1] or {}


def take_back():
    """What it asked and was not told, it does not want to know any more."""
    for number, waiting in WAITING.items():
        if not waiting[0].is_set():
            params = {"requestId": number, "reason": "too late"}
            say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            waiting[0].set()
    return text("taken back")


class Refused(Exception):
    """An error object as the answer."""


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
    elif how == "error":
        raise Refused({"code": -32001, "message": "no such order", "data": {"trace": "x" * 7_000_000}})
    elif how.startswith("refuse "):
        raise Refused({"code": -32001, "message": "no such order", "data": json.loads(how[7:])})
    elif how == "null":
        return {**text("wrong null"), "_meta": None}
    elif how == "never":
        time.sleep(3600)
    return text("wrong " + how)


def page(cursor):
    """A page of the tools."""
    if "restless" in MORE:
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if "endless" in MORE or "heavy" in MORE:
        number = int(cursor or 0)
        record("page", lasting=False)
        heavy = {**tool(f"heavy_{number}", {}), "description": "x" * (1 << 20)}
        return {"tools": [heavy] if "heavy" in MORE else [], "nextCursor": str(number + 1)}
    half = 4
    if cursor == "half":
        return {"tools": TOOLS[half:]}
    record("list", lasting=False)
    return {"tools": TOOLS[:half], "nextCursor": "half"}


def await_gate(method):
    if os.path.exists(GATE):
        record("held " + method)
    while os.path.exists(GATE):
        time.sleep(0.01)


def task(method, number):
    record("state " + method)
    if "tasks" not in MORE:
        return {}
    done = text("x" * int(number.removeprefix("chore-")))
    return {"resultType": "complete", "taskId": number, "status": "completed", "result": done}


def listed(method, cursor):
    if method == "tools/list":
        return page(cursor)
    if method == "prompts/list":
        return {"prompts": [{"name": "greet"}]}
    if not RESOURCES and not TEMPLATES:
        return None
    return {"resources": RESOURCES} if method == "resources/list" else {"resourceTemplates": TEMPLATES}


def resource(method, uri):
    if not RESOURCES and not TEMPLATES:
        return None
    record(f"{method} {uri}")
    if method != "resources/read":
        return {}
    if not TEMPLATES and not any(known["uri"] == uri for known in RESOURCES):
        raise Refused({"code": -32002, "message": "the server has no such resource"})
    return {"contents": [{"uri": uri, "text": "here"}]}


def answer(message):
    method, params = message["method"], message.get("params") or {}
    meta = params.get("_meta") or {}
    modern = "io.modelcontextprotocol/protocolVersion" in meta and SPEAKS != "older"
    if "brief" in MORE and method != "server/discover":
        os._exit(3)
    if "gated" in MORE and method in ("server/discover", "initialize"):
        await_gate(method)
    if method == ("server/discover" if SPEAKS == "older" else "initialize") and SPEAKS != "both":
        return None
    if method == "initialize":
        record("hello " + ",".join(sorted(params.get("capabilities") or {})))
        try:
            os.close(os.open(RECORD + ".first", os.O_CREAT | os.O_EXCL))
            FIRST.append(True)
        except FileExistsError:
            pass
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}, "prompts": {}, "completions": {}},
            "serverInfo": {"name": "upstream", "version": "1"},
        }
    if method == "server/discover":
        DISCOVERED.append(message["id"])
        if "shy" in MORE and len(DISCOVERED) > 1:
            return None
        capabilities = {"tools": {}, "prompts": {}, "completions": {}}
        if "tasks" in MORE:
            capabilities["extensions"] = {"io.modelcontextprotocol/tasks": {}}
        return {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "serverInfo": {"name": "upstream", "version": "1"},
            "ttlMs": 0,
            "cacheScope": "public",
        }
    if method.startswith("tasks/"):
        return task(method, params.get("taskId"))
    if method == "logging/setLevel":
        record("state " + method)
        return {}
    if "deaf" in MORE and method.endswith("/list") or "halting" in MORE and method == "prompts/list":
        time.sleep(3600)
    if "jealous" in MORE and method.endswith("/list") and not FIRST:
        raise Refused({"code": -32000, "message": "not for you"})
    if method == "subscriptions/listen":
        record("listen " + json.dumps(params.get("notifications")))
        return None
    if method.endswith("/list"):
        result = listed(method, params.get("cursor"))
        if result is None or not modern:
            return result
        return {**result, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    if method.startswith("resources/"):
        return resource(method, params.get("uri"))
    if method == "prompts/get":
        record("prompt " + params["name"])
        if params["name"] != "greet":
            raise Refused({"code": -32602, "message": "the server has no such prompt"})
        return {"messages": []}
    if method == "completion/complete":
        record("complete " + str(params["ref"].get("name") or params["ref"].get("uri")))
        result = {"completion": {"values": ["world"]}}
        return {**result, "resultType": "complete"} if modern else result
    if method == "tools/call" and "id" in params.get("task", {}):
        # A task of the older era, of whichever tool.
        return {"task": {"taskId": params["task"]["id"], "status": "completed"}}
    if method == "tools/call":
        result = call(params["name"], params.get("arguments") or {}, params, modern)
        if isinstance(result, dict) and modern:
            result.setdefault("resultType", "complete")
        return result
    return None


def serve(message):
    number = json.dumps(message["id"])
    try:
        result = answer(message)
    except Refused as refused:
        say({"jsonrpc": "2.0", "id": message["id"], "error": refused.args[0]})
        return
    if result is None:
        say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    elif isinstance(result, str):
        say(f'{{"jsonrpc":"2.0","id":{number},"result":{result}}}')
    else:
        say({"jsonrpc": "2.0", "id": message["id"], "result": result})
        if result == {**result, **text("wrong again")}:
            say({"jsonrpc": "2.0", "id": message["id"], "result": {**result, **text("a second answer")}})
            say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32001, "message": "a third"}})


record("start")
if "stubborn" in MORE:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    beside = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
    record(f"process {beside.pid}\nprocess {os.getpid()}")
for line in sys.stdin:
    message = json.loads(line)
    if SPEAKS == "mute":
        continue
    if "method" not in message:
        waiting = WAITING.get(message.get("id"))
        if waiting:
            waiting[1] = message
            waiting[0].set()
        continue
    if message["method"] == "notifications/cancelled":
        record("cancelled")
    elif TOKEN and "id" not in message and message["method"] != "notifications/initialized":
        record(f"told {TOKEN[0]} {message['method']}")
    if "id" in message:
        threading.Thread(target=serve, args=(message,), daemon=True).start()
while "stubborn" in MORE:
    time.sleep(1)
