"""An MCP server of both eras on standard streams that gives images, and has tools only.

`shots` gives, in this order, a text of so many lines, and an image for each number of bytes in `sizes`;
`sound` an audio block, and `blob` an embedded resource, of so many bytes. Data is what `base64` says of
bytes that are counted. With `log`, a call says so before it answers. Its argument says which eras it
speaks: `older`, `newest` or `both`.
"""

import base64
import json
import sys
import time

SPEAKS = sys.argv[1] if len(sys.argv) > 1 else "both"
SCHEMA = {"type": "object"}
TOOLS = [{"name": name, "inputSchema": SCHEMA} for name in ("shots", "sound", "blob", "log")]


def data(size):
    return base64.b64encode((bytes(range(256)) * (size // 256 + 1))[:size]).decode()


def image(size):
    return {"type": "image", "data": data(size), "mimeType": "image/png"}


def lines(count):
    return {"type": "text", "text": "".join(f"line {n} of the page\n" for n in range(count))}


def log(arguments):
    for level in arguments["levels"]:
        params = {"level": level, "data": level, "logger": "media"}
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
    time.sleep(arguments.get("delay_ms", 0) / 1000)
    say_late = arguments.get("late")
    if say_late:
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": say_late}})
    return [{"type": "text", "text": "logged"}]


def content(name, arguments):
    if name == "shots":
        text = [lines(arguments["lines"])] if "lines" in arguments else []
        return text + [image(size) for size in arguments["sizes"]]
    if name == "sound":
        return [{"type": "audio", "data": data(arguments["bytes"]), "mimeType": "audio/wav"}]
    if name == "blob":
        held = {"uri": "file:///x.pdf", "mimeType": "application/pdf", "blob": data(arguments["bytes"])}
        return [{"type": "resource", "resource": held}]
    return log(arguments)


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(method, params):
    meta = params.get("_meta") or {}
    modern = "io.modelcontextprotocol/protocolVersion" in meta and SPEAKS != "older"
    if method in ("server/discover", "initialize") and modern != (method == "server/discover"):
        return None
    if method == "initialize" and SPEAKS == "newest":
        return None
    kind = {"resultType": "complete"} if modern else {}
    kept = {"ttlMs": 0, "cacheScope": "public"} if modern else {}
    info = {"capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "media", "version": "1"}}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], **info, **kind, **kept}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], **info}
    if method == "tools/list":
        return {"tools": TOOLS, **kind, **kept}
    if method == "tools/call":
        return {"content": content(params["name"], params.get("arguments") or {}), **kind}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
    say({"jsonrpc": "2.0", "id": message["id"], **said})
