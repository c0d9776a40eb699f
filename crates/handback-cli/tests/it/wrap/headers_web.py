"""An MCP server of the newest revision over HTTP, some of whose arguments go in headers as well.

It refuses a call whose headers say something else than its arguments, as the protocol has it. The file
that its argument names gets a line for every call that was made, and one for every list of tools. It
prints its port.
"""

import base64
import http.server
import json
import sys
import threading

RECORD = sys.argv[1]
LOCK = threading.Lock()
# The name of the header of the region, which a call may change.
REGION = ["Region"]


def record(line):
    with LOCK, open(RECORD, "a", encoding="utf-8") as out:
        out.write(line + "\n")


def tools():
    region = {"type": "string", "x-mcp-header": REGION[0]}
    count = {"type": "integer", "x-mcp-header": "Count"}
    is_open = {"type": "boolean", "x-mcp-header": "Is-Open"}
    place = {"type": "object", "properties": {"is_open": is_open}}
    visit = {"region": region, "count": count, "place": place, "note": {"type": "string"}}
    all_tools = {"visit": visit, "cities": {}, "rename": {"to": {"type": "string"}}}
    return [
        {"name": name, "inputSchema": {"type": "object", "properties": properties}}
        for name, properties in all_tools.items()
    ]


def mirrored(schema, arguments):
    """The header and the value of every annotated argument."""
    for name, inside in schema.get("properties", {}).items():
        value = arguments.get(name) if isinstance(arguments, dict) else None
        if "x-mcp-header" in inside:
            yield "Mcp-Param-" + inside["x-mcp-header"], value
        yield from mirrored(inside, value)


def plain(value):
    return value if isinstance(value, str) else json.dumps(value)


def decoded(value):
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None


def mismatch(headers, method, params):
    if headers.get("Mcp-Method") != method:
        return "the method"
    if method != "tools/call":
        return None
    if decoded(headers.get("Mcp-Name", "")) != params["name"]:
        return "the name"
    schema = next((tool["inputSchema"] for tool in tools() if tool["name"] == params["name"]), {})
    for header, value in mirrored(schema, params.get("arguments") or {}):
        said = headers.get_all(header) or []
        wanted = [] if value is None or isinstance(value, (dict, list)) else [plain(value)]
        if [decoded(one) for one in said] != wanted:
            return header
    return None


def call(name, arguments):
    if name == "visit":
        record("visit " + json.dumps(arguments, ensure_ascii=False, sort_keys=True))
        return "visited"
    if name == "rename":
        REGION[0] = arguments["to"]
        return "renamed"
    return json.dumps([{"city": "Zürich", "number": number} for number in range(5000)], ensure_ascii=False)


def answer(method, params):
    more = {"resultType": "complete"}
    if method == "server/discover":
        more |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        return more | {"serverInfo": {"name": "web", "version": "1"}, "ttlMs": 0, "cacheScope": "public"}
    if method == "tools/list":
        record("list")
        return more | {"tools": tools(), "ttlMs": 0, "cacheScope": "public"}
    if method == "tools/call":
        return more | {"content": [{"type": "text", "text": call(params["name"], params.get("arguments") or {})}]}
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.reply(202, "")
            return
        method, params = message["method"], message.get("params") or {}
        told = {"jsonrpc": "2.0", "id": message["id"]}
        if self.headers.get("MCP-Protocol-Version") != "2026-07-28":
            told["error"] = {"code": -32022, "message": "another revision"}
            self.reply(400, json.dumps(told))
            return
        wrong = mismatch(self.headers, method, params)
        if wrong:
            told["error"] = {"code": -32020, "message": "these do not fit: " + wrong}
            self.reply(400, json.dumps(told))
            return
        result = answer(method, params)
        if result is None:
            told["error"] = {"code": -32601, "message": "no such method"}
        else:
            told["result"] = result
        self.reply(404 if result is None else 200, json.dumps(told))

    def do_GET(self):
        self.reply(405, "")

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
