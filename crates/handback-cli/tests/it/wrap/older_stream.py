"""An MCP server of the older era over HTTP that says a lot beside its calls, and prints its port.

On the stream of a call it tells how far it is, what it logs, and that its tools have changed.
"""

import http.server
import json
import time

LEVELS = ["debug", "info", "warning", "error"]


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "older", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "told"}]}
    return None


def beside(params):
    yield "notifications/tools/list_changed", None
    for level in LEVELS:
        yield "notifications/message", {"level": level, "data": level}
    yield "notifications/message", {"data": "of no level"}
    yield "notifications/progress", {"progressToken": params["_meta"]["progressToken"], "progress": 1}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.begin(202, "application/json")
            return
        told = {"jsonrpc": "2.0", "id": message["id"]}
        params = message.get("params") or {}
        result = answer(message["method"], params)
        if result is None:
            told["error"] = {"code": -32601, "message": "no such method"}
        else:
            told["result"] = result
        if message["method"] != "tools/call":
            self.begin(200, "application/json")
            self.wfile.write(json.dumps(told).encode())
            return
        self.begin(200, "text/event-stream")
        for method, said in beside(params):
            self.event({"jsonrpc": "2.0", "method": method, **({"params": said} if said else {})})
        self.event(told)

    def do_GET(self):
        self.begin(200, "text/event-stream")
        self.wfile.write(b": here\n\n")
        self.wfile.flush()
        time.sleep(3600)

    def do_DELETE(self):
        self.begin(200, "application/json")

    def begin(self, status, kind):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("mcp-session-id", "session")
        self.send_header("connection", "close")
        self.end_headers()

    def event(self, message):
        self.wfile.write(b"data: " + json.dumps(message).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
