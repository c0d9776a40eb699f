"""An MCP server on standard streams that starts as its arguments say, and writes down what it is sent.

The file that its first argument names gets a line for every request: its method, and `envelope` behind it if
it has the members of 2026-07-28. Words behind that:

`both`, `newest`, `older`: what it speaks; one of both eras keeps to the era of an accepted `initialize`, and
refuses requests of the other one then. `gated`, it reads nothing as long as there is a file `record.gate`;
`silent`, it does not answer `server/discover`; `refuses:CODE`, it answers that with this error;
`dies`, it ends over any request before `initialize`; `mutters:COUNT`, it writes so many lines to its standard
error first; `secret`, and the value of its variable SHOP_KEY; `bytes`, or bytes that are no text; `ends:STATUS`,
and ends with this status; `unlogged`, it has no log messages; `lingers`, a program of its own session writes a line to standard error after its
end. With a file `record.newer`, it speaks the newer era only and refuses `initialize` as one without envelope; if
the file says `dies`, it ends over it.
"""

import json
import os
import subprocess
import sys
import time

RECORD, *WORDS = sys.argv[1:]
GATE = RECORD + ".gate"
VERSION = "io.modelcontextprotocol/protocolVersion"
TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("greet", "die", "late")]
IS_GREETED = []
IS_UPDATED = None
if os.path.exists(RECORD + ".newer"):
    WORDS = ["newest"]
    with open(RECORD + ".newer", encoding="utf-8") as file:
        IS_UPDATED = file.read() or "refuses"


def value(name):
    return next((word.split(":", 1)[1] for word in WORDS if word.startswith(name + ":")), None)


def record(text):
    with open(RECORD, "a", encoding="utf-8") as out:
        out.write(text + "\n")


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def refused(code):
    return {"error": {"code": code, "message": "not that"}}


def answer(method, params, is_newer):
    if method == "initialize":
        if "newest" in WORDS and IS_UPDATED == "dies":
            os._exit(7)
        if "newest" in WORDS:
            return refused(-32602 if IS_UPDATED else -32601)
        IS_GREETED.append(True)
        capabilities = {"tools": {"listChanged": True}, **({} if "unlogged" in WORDS else {"logging": {}})}
        info = {"name": "starting", "version": "1"}
        return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}}
    if method == "server/discover":
        if "silent" in WORDS:
            return None
        if value("refuses") or "older" in WORDS:
            return refused(int(value("refuses") or -32601))
        info = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "starting", "version": "1"}}
        return {"result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **info}}
    # One era on a connection.
    if is_newer == bool(IS_GREETED):
        return refused(-32022)
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if is_newer else {}
    if method == "tools/list":
        return {"result": {"tools": TOOLS, **more}}
    if method == "tools/call" and params["name"] == "die":
        sys.stderr.write("the last words\n")
        sys.stderr.flush()
        os._exit(7)
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": f"{params['name']} in {os.getpid()}"}], **({"resultType": "complete"} if is_newer else {})}}
    if method == "logging/setLevel" and "unlogged" not in WORDS:
        return {"result": {}}
    return refused(-32601)


record(f"start {os.getpid()}")
for number in range(int(value("mutters") or 0)):
    sys.stderr.write(f"line {number} \x1b[31m\n")
if "secret" in WORDS:
    sys.stderr.write(f"bad key {os.environ['SHOP_KEY']}\n")
if "bytes" in WORDS:
    sys.stderr.buffer.write(b"\xff\x00\x1b[31mred\r\n\n  no end of the line")
sys.stderr.flush()
if value("ends"):
    sys.exit(int(value("ends")))
while "gated" in WORDS and os.path.exists(GATE):
    time.sleep(0.01)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    is_newer = VERSION in (params.get("_meta") or {})
    if method is None:
        continue
    record(f"got {method}" + (" envelope" if is_newer else ""))
    if "id" not in message:
        continue
    if "dies" in WORDS and method != "initialize" and not IS_GREETED:
        os._exit(7)
    reply = answer(method, params, is_newer)
    if reply is not None:
        say({"id": message["id"], **reply})
if "lingers" in WORDS:
    command = ["sh", "-c", "sleep 0.4; echo after the end >&2"]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
