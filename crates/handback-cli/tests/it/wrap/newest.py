"""An MCP server of the newer era on standard streams, which writes down every message to the byte.

The file that its first argument names gets a line for each. Its tool `ask` asks its client what its
argument `method` says, once; its tool `tell` says how far it is, to who wants to know.
"""

import json
import sys

RECORD = sys.argv[1]
SCHEMA = {"type": "object"}
TOOLS = [{"name": name, "inputSchema": SCHEMA} for name in ("ask", "tell")]
DONE = '{"resultType":"complete","content":[{"type":"text","text":"done"}]}'


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def call(params):
    if params["name"] == "tell":
        token = params["_meta"].get("progressToken")
        if token is not None:
            progress = {"progressToken": token, "progress": 1}
            say(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}))
        return DONE
    if "requestState" in params:
        return DONE
    method = json.dumps(params["arguments"]["method"])
    asked = f'{{"method":{method},"params":{{"message":"sure?","z":123456789012345678901,"a":1.50}}}}'
    return f'{{"resultType":"input_required","inputRequests":{{"q":{asked}}},"requestState":"s\\/1"}}'


def answer(method, params):
    if method == "server/discover":
        capabilities = {"tools": {}, "prompts": {}, "completions": {}}
        more = {"serverInfo": {"name": "newest", "version": "1"}, "ttlMs": 0, "cacheScope": "public"}
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities, **more}
    lists = {"tools/list": {"tools": TOOLS}, "prompts/list": {"prompts": [{"name": "greet"}]}}
    if method in lists:
        return {**lists[method], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    if method == "completion/complete":
        return {"resultType": "complete", "completion": {"values": ["world"]}}
    if method == "tools/call":
        return call(params)
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    with open(RECORD, "a", encoding="utf-8") as out:
        out.write(message["method"] + " " + line)
    result = answer(message["method"], message.get("params") or {})
    number = json.dumps(message["id"])
    if result is None:
        said = '"error":{"code":-32601,"message":"no such method"}'
    else:
        said = '"result":' + (result if isinstance(result, str) else json.dumps(result))
    say(f'{{"jsonrpc":"2.0","id":{number},{said}}}')
