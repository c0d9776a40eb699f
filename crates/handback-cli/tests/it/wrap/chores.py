"""An MCP server of the newer era whose tool makes tasks, and which tells what becomes of them.

The file that its first argument names gets a line for every effect; the second is a word that ids of its
tasks begin with. It tells everybody who listens of every task, whatever they asked for, and acknowledges
a task that nobody asked for: who stands before it has to know better.
"""

import json
import sys

RECORD, NAME = sys.argv[1:3]
META = "io.modelcontextprotocol/"
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("begin", "finish")]
CAPABILITIES = {"tools": {"listChanged": True}, "extensions": {META + "tasks": {}}}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": CAPABILITIES,
    "serverInfo": {"name": "chores", "version": "1"},
}
LISTENERS = []
TASKS = {}


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def record(line):
    with open(RECORD, "a", encoding="utf-8") as out:
        out.write(line + "\n")


def tell(method, number, **params):
    params["_meta"] = {META + "subscriptionId": number}
    say(method="notifications/" + method, params=params)


def call(name, arguments):
    number = f"{NAME}-{arguments['task']}"
    if name == "begin":
        TASKS[number] = {"taskId": number, "status": "working"}
        return {**TASKS[number], "resultType": "task"}
    text = [{"type": "text", "text": "x" * arguments["bytes"]}]
    TASKS[number] = {"taskId": number, "status": "completed", "result": {"content": text}}
    for listener in LISTENERS:
        tell("tasks", listener, **TASKS[number])
        tell("tools/list_changed", listener)
    return {"content": [{"type": "text", "text": "finished"}], "resultType": "complete"}


def listen(number, wanted):
    ids = wanted.get("taskIds", [])
    record(f"follows {NAME} " + ",".join(ids))
    LISTENERS.append(number)
    accepted = {**wanted, "taskIds": [*ids, f"{NAME}-nobodys"]}
    tell("subscriptions/acknowledged", number, notifications=accepted)


for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if number is None:
        continue
    if method == "subscriptions/listen":
        listen(number, params["notifications"])
        continue
    result = None
    if method == "server/discover":
        result = DISCOVERED
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments") or {})
    elif method == "tasks/get":
        result = TASKS.get(params["taskId"])
    if result is None:
        say(id=number, error={"code": -32601, "message": "no such method"})
        continue
    say(id=number, result={"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **result})
