"""An MCP server that tells of changes, of the era that its second argument names: `older` or `newest`.

The file that its first argument names gets a line for every effect. A call of its tool changes all that
there is, and says so to everyone who wants to know; with the argument `tell` it says to everyone who
listens that this resource changed, whoever has it and whether or not anybody wants to know. Arguments
behind the second are the resources that it lists.
"""

import json
import sys

RECORD, ERA, *LISTED = sys.argv[1:]
META = "io.modelcontextprotocol/"
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
}
INFO = {"name": "follows", "version": "1"}
# Of the newer era: what is wanted, by the id of the question.
LISTENERS = {}
# Of the older era: what is followed.
FOLLOWED = []


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def record(line):
    with open(RECORD, "a", encoding="utf-8") as out:
        out.write(line + "\n")


def tell(method, number=None, **params):
    if number is not None:
        params["_meta"] = {META + "subscriptionId": number}
    say(method="notifications/" + method, params=params)


def change():
    if ERA == "older":
        tell("tools/list_changed")
        for uri in FOLLOWED:
            tell("resources/updated", uri=uri)
    for number, wanted in LISTENERS.items():
        if wanted.get("toolsListChanged"):
            tell("tools/list_changed", number)
        for uri in wanted.get("resourceSubscriptions", []):
            tell("resources/updated", number, uri=uri)


def older(method, params):
    if method == "initialize":
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}
    if method == "resources/subscribe":
        record("follow " + params["uri"])
        FOLLOWED.append(params["uri"])
        return {}
    if method == "resources/unsubscribe":
        record("leave " + params["uri"])
        if params["uri"] in FOLLOWED:
            FOLLOWED.remove(params["uri"])
        return {}
    return None


def newest(method, params, number):
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, "serverInfo": INFO}
    if method == "subscriptions/listen":
        wanted = params["notifications"]
        # What does not begin with `x:` is not followed.
        uris = [uri for uri in wanted.get("resourceSubscriptions", []) if uri.startswith("x:")]
        if uris:
            wanted["resourceSubscriptions"] = uris
        else:
            wanted.pop("resourceSubscriptions", None)
        LISTENERS[number] = wanted
        record("listen " + ",".join(uris))
        tell("subscriptions/acknowledged", number, notifications=wanted)
        return "later"
    return None


for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "notifications/cancelled":
        wanted = LISTENERS.pop(params.get("requestId"), None)
        if wanted is not None:
            record("end " + ",".join(wanted.get("resourceSubscriptions", [])))
    if number is None:
        continue
    result = None
    if method == "tools/list":
        result = {"tools": [{"name": "change", "inputSchema": {"type": "object"}}]}
    elif method in ("resources/list", "resources/templates/list"):
        resources = {"resources": [{"uri": uri, "name": uri} for uri in LISTED]}
        result = resources if method == "resources/list" else {"resourceTemplates": []}
    elif method == "tools/call":
        record("call " + str((params.get("_meta") or {}).get(META + "logLevel")))
        uri = (params.get("arguments") or {}).get("tell")
        if uri is not None:
            for listener in LISTENERS:
                tell("resources/updated", listener, uri=uri)
            say(id=number, result={"content": [{"type": "text", "text": "told"}], "resultType": "complete"})
            continue
        if (params.get("arguments") or {}).get("end"):
            for listener in list(LISTENERS):
                LISTENERS.pop(listener)
                say(id=listener, result={"resultType": "complete"})
        change()
        result = {"content": [{"type": "text", "text": "changed"}]}
    elif ERA == "older":
        result = older(method, params)
    else:
        result = newest(method, params, number)
    if result == "later":
        continue
    if result is None:
        say(id=number, error={"code": -32601, "message": "no such method"})
        continue
    if ERA == "newest":
        result = {**result, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    say(id=number, result=result)
