"""An MCP server of the newest era that gives results of any size, written piece by piece.

Its first argument is a file that gets a line for every call; its second says where it speaks: `stdio`,
or `http`, and then it prints its port.
"""

import http.server
import json
import sys
import threading

RECORD, WAY = sys.argv[1], sys.argv[2]
LOCK = threading.Lock()
GROUPS = 4
AT_ONCE = 1000

NUMBER = {"type": "integer"}
ITEMS = {
    "type": "object",
    "properties": {"total": NUMBER, "items": {"type": "array", "items": {"type": "object"}}},
    "required": ["total", "items"],
}


def tool(name, **more):
    schema = {"type": "object", "properties": {"items": NUMBER, "item_bytes": NUMBER}}
    return {"name": name, "description": name, "inputSchema": schema, **more}


TOOLS = [tool("structured", outputSchema=ITEMS), tool("array"), tool("log")]


def item(number, size):
    start = f'{{"id":{number},"group":"group{number % GROUPS}x","pad":"'
    return start + "x" * (size - len(start) - 2) + '"}'


def line(number, size):
    start = f"line {number} group{number % GROUPS}x "
    return start + "x" * (size - len(start))


def several(make, items, size, between):
    for first in range(0, items, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, items))
        yield ("" if first == 0 else between) + between.join(make(n, size) for n in numbers)


def result(name, arguments):
    """The JSON of a result, in pieces."""
    items, size = arguments["items"], arguments["item_bytes"]
    if name == "structured":
        yield '{"content":[{"type":"text","text":"see structuredContent"}],"structuredContent":'
        yield f'{{"total":{items},"items":['
        yield from several(item, items, size, ",")
        yield ']},"resultType":"complete"}'
    elif name == "array":
        yield '{"content":[{"type":"text","text":"['
        for piece in several(item, items, size, ","):
            yield json.dumps(piece)[1:-1]
        yield ']"}],"resultType":"complete"}'
    else:
        yield '{"content":[{"type":"text","text":"'
        for piece in several(line, items, size, "\n"):
            yield json.dumps(piece)[1:-1]
        yield '"}],"resultType":"complete"}'


def answer(message):
    method, params = message["method"], message.get("params") or {}
    start = f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},'
    if method == "server/discover":
        about = {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "large", "version": "1"},
            "ttlMs": 0,
            "cacheScope": "public",
        }
        yield f'{start}"result":{json.dumps(about)}}}'
    elif method == "tools/list":
        listed = {"tools": TOOLS, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        yield f'{start}"result":{json.dumps(listed)}}}'
    elif method == "tools/call":
        with LOCK, open(RECORD, "a", encoding="utf-8") as out:
            out.write(params["name"] + "\n")
        yield start + '"result":'
        yield from result(params["name"], params["arguments"])
        yield "}"
    else:
        yield f'{start}"error":{{"code":-32601,"message":"no such method"}}}}'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for piece in answer(message):
                piece = piece.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            # Nobody wants the rest.
            self.close_connection = True

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *_):
        pass


if WAY == "http":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
for text in sys.stdin:
    message = json.loads(text)
    if "method" in message and "id" in message:
        for piece in answer(message):
            sys.stdout.write(piece)
        sys.stdout.write("\n")
        sys.stdout.flush()
