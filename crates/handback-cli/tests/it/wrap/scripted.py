"""An MCP server of both eras on standard streams, which answers what a file says.

The file is a JSON object: for `METHOD`, or `tools/call NAME`, the text of the result, to the byte. A text
that begins with `error ` has an error object behind it. `before METHOD` is a line that is written before the
answer. The second argument is a file that gets a line for every call of a tool. The file is read again for
every request, so that a test can change it.
"""

import json
import sys

SPEC, RECORD = sys.argv[1:3]
HELLO = {
    "initialize": {"capabilities": {"tools": {"listChanged": True}, "logging": {}}},
    "server/discover": {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "public",
    },
}


def answer(message, spec):
    method, params = message["method"], message.get("params") or {}
    if method == "tools/call":
        with open(RECORD, "a", encoding="utf-8") as out:
            out.write("call " + json.dumps(params["name"]) + "\n")
        return spec.get("tools/call " + params["name"])
    if method in HELLO:
        told = json.loads(spec.get(method, "{}"))
        hello = {**HELLO[method], "serverInfo": {"name": "scripted", "version": "1"}, **told}
        if method == "initialize":
            hello["protocolVersion"] = params["protocolVersion"]
        return json.dumps(hello)
    return spec.get(method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    with open(SPEC, encoding="utf-8") as file:
        spec = json.load(file)
    number = json.dumps(message["id"])
    told = answer(message, spec)
    if "before " + message["method"] in spec:
        sys.stdout.write(spec["before " + message["method"]] + "\n")
    if told is None:
        told = 'error {"code":-32601,"message":"no such method"}'
    kind = "error" if told.startswith("error ") else "result"
    sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"{kind}":{told.removeprefix("error ")}}}\n')
    sys.stdout.flush()
