"""An MCP server with effects, on standard streams or over HTTP, that can be held up and made to fail.

    upstream.py FOLDER SPEAKS [PORT]

SPEAKS is `older`, `newest` or `both`. With a port it serves HTTP there. In the folder:

- `record` gets a line for everything that matters, synced: `enter ID`, `effect ID NUMBER`,
  `cancelled METHOD`, `closed ID`, `session`.
- While there is a file `before` or `after`, calls wait before or after their effect.
- A file `fault` says how a call fails: `reset-before`, `reset-after`, `half`, `status-before-503`,
  `status-after-500`, `die-before`, `die-after`, `die-asked`, `discover-503`, and
  so on.
"""

import json
import os
import select
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = sys.argv[1]
SPEAKS = sys.argv[2]
MODERN_VERSION = "io.modelcontextprotocol/protocolVersion"
LOCK = threading.Lock()
OUT = threading.Lock()
WAITING = {}
METHODS = {}


def record(text):
    out = os.open(os.path.join(FOLDER, "record"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(out, (text + "\n").encode())
    os.fsync(out)
    os.close(out)


def effect(name):
    """Has its effect. Its number is its place among all effects."""
    with LOCK:
        with open(os.path.join(FOLDER, "record"), encoding="utf-8") as done:
            number = sum(line.startswith("effect ") for line in done)
        record(f"effect {name} {number}")
        return number


def fault():
    try:
        with open(os.path.join(FOLDER, "fault"), encoding="utf-8") as said:
            return said.read()
    except FileNotFoundError:
        return ""


class Fails(Exception):
    """The call is answered in this wrong way."""


def stage(name, place, is_closed):
    """Waits while it is held up, and fails where it is to fail."""
    gate = os.path.join(FOLDER, place)
    is_told = False
    while os.path.exists(gate):
        if not is_told and is_closed():
            record(f"closed {name}")
            is_told = True
        time.sleep(0.002)
    how = fault()
    if how == f"die-{place}":
        os._exit(3)
    if how == f"reset-{place}" or how.startswith(f"status-{place}") or (how, place) == ("half", "after"):
        raise Fails(how)


TEXT = {"type": "string"}
SCHEMA = {"type": "object", "properties": {"id": TEXT, "fill": {"type": "integer"}}}


def tool(name, **more):
    return {"name": name, "description": name, "inputSchema": SCHEMA, **more}


TOOLS = [
    tool("act"),
    tool("act_again", annotations={"idempotentHint": True}),
    tool("act_reading", annotations={"readOnlyHint": True}),
    tool("act_identical"),
    tool("confirm"),
    tool("early"),
]


def text(line):
    return {"content": [{"type": "text", "text": line}]}


def act(arguments, is_closed):
    name = arguments["id"]
    record(f"enter {name}")
    stage(name, "before", is_closed)
    number = effect(name)
    stage(name, "after", is_closed)
    return text(f"done {name} {number}" + " x" * (arguments.get("fill", 0) // 2))


def confirm(arguments, params, modern, is_closed):
    if not modern:
        ask("elicitation/create", {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}})
        return act(arguments, is_closed)
    if params.get("requestState") is None:
        schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
        asked = {"mode": "form", "message": "sure?", "requestedSchema": schema}
        return {
            "resultType": "input_required",
            "inputRequests": {"q": {"method": "elicitation/create", "params": asked}},
            "requestState": "state of " + arguments["id"],
        }
    return act(arguments, is_closed)


def early(arguments, params, is_closed):
    """Acts before it asks, and once more with the answer."""
    if params.get("requestState") is None:
        asked = confirm(arguments, params, True, is_closed)
        act(arguments, is_closed)
        return asked
    return act({"id": arguments["id"] + "-end"}, is_closed)


def ask(method, params):
    number = f"s{len(WAITING) + 1}"
    waiting = WAITING[number] = [threading.Event(), None]
    say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    waiting[0].wait(60)
    return waiting[1] or {}


def answer(message, is_closed):
    """The result of a request, or nothing if there is no such method."""
    method, params = message["method"], message.get("params") or {}
    modern = MODERN_VERSION in (params.get("_meta") or {}) and SPEAKS != "older"
    if method == ("server/discover" if SPEAKS == "older" else "initialize") and SPEAKS != "both":
        return None
    info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "upstream", "version": "1"}}
    kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if modern else {}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], **info}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], **info, **kept}
    if method == "tools/list":
        return {"tools": TOOLS, **kept}
    if method != "tools/call":
        return None
    arguments = params.get("arguments") or {}
    if params["name"] == "confirm":
        result = confirm(arguments, params, modern, is_closed)
    elif params["name"] == "early":
        result = early(arguments, params, is_closed)
    else:
        result = act(arguments, is_closed)
    if modern:
        result.setdefault("resultType", "complete")
    return result


def replied(message, result):
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        return {**reply, "error": {"code": -32601, "message": "no such method"}}
    return {**reply, "result": result}


def say(message):
    with OUT:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def cancelled(message):
    record(f"cancelled {METHODS.get(message['params']['requestId'])}")


def serve_line(message):
    reply = replied(message, answer(message, lambda: False))
    # Decided before anybody hears of it.
    is_last = fault() == "die-asked" and "inputRequests" in reply.get("result", {})
    say(reply)
    if is_last:
        os._exit(3)


def serve_streams():
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            waiting = WAITING.get(message.get("id"))
            if waiting:
                waiting[1] = message
                waiting[0].set()
        elif message["method"] == "notifications/cancelled":
            cancelled(message)
        elif "id" in message:
            METHODS[message["id"]] = message["method"]
            threading.Thread(target=serve_line, args=(message,), daemon=True).start()


SESSIONS = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def is_closed(self):
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def empty(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        self.empty(405)

    def do_DELETE(self):
        SESSIONS.discard(self.headers.get("mcp-session-id"))
        self.empty(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message.get("method")
        is_modern = self.headers.get("mcp-protocol-version") == "2026-07-28"
        session = self.headers.get("mcp-session-id")
        if not is_modern and method != "initialize" and session not in SESSIONS:
            return self.empty(404)
        if method == "notifications/cancelled":
            cancelled(message)
        if "id" not in message or method is None:
            return self.empty(202)
        METHODS[message["id"]] = method
        if method == "server/discover" and fault() == "discover-503":
            return self.empty(503)
        try:
            result = answer(message, self.is_closed)
        except Fails as why:
            return self.fail(str(why))
        body = json.dumps(replied(message, result)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if method == "initialize" and result is not None:
            session = os.urandom(8).hex()
            SESSIONS.add(session)
            record("session")
            self.send_header("mcp-session-id", session)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def fail(self, how):
        if how.startswith("status"):
            # The connection stays: one that is closed without a word may meet the next request.
            return self.empty(int(how.rsplit("-", 1)[1]))
        self.close_connection = True
        if how == "half":
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"jsonrpc":"2.0","id":')
            self.wfile.flush()
        # Closing sends a reset.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


if len(sys.argv) > 3:
    server = Server(("127.0.0.1", int(sys.argv[3])), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
else:
    serve_streams()
