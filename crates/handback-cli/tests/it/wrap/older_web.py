"""An MCP server of the older era over HTTP, whose calls are tasks.

The file that its argument names gets a line for every task that it is asked about. It prints its port.
All sessions have the same tasks, as those of a server without callers of its own do.
"""

import http.server
import itertools
import json
import sys

RECORD = sys.argv[1]
NUMBERS = itertools.count(1)


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "tasks": {}},
            "serverInfo": {"name": "older", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": "chore", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        return {"task": {"taskId": f"task-{next(NUMBERS)}", "status": "working"}}
    if method.startswith("tasks/"):
        with open(RECORD, "a", encoding="utf-8") as out:
            out.write(f"{method} {params['taskId']}\n")
        return {"taskId": params["taskId"], "status": "completed"}
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.reply(202, "")
            return
        told = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message["method"], message.get("params") or {})
        if result is None:
            told["error"] = {"code": -32601, "message": "no such method"}
        else:
            told["result"] = result
        self.reply(200, json.dumps(told))

    def do_GET(self):
        self.reply(405, "")

    def do_DELETE(self):
        self.reply(200, "")

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", "session")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
