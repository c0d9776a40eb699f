"""A server of the protocol on standard streams that misbehaves on request.

Every question is answered by a function below that has the name of its method. It is plain on purpose:
it writes bytes, so that a test knows which ones the line has to hand on.
"""

import json
import os
import signal
import subprocess
import sys

out = sys.stdout.buffer
seen = []


def write(text):
    out.write(text.encode() if isinstance(text, str) else text)
    out.flush()


def say(text):
    write(text + "\n")


def result(id, text):
    say('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(id), text))


def ask(id, method, params):
    say(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))


def tell(method, params):
    say(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))


def initialize(id, params):
    result(
        id,
        '{"protocolVersion":"%s","capabilities":{},"serverInfo":{"name":"peer","version":"1"}}'
        % params["protocolVersion"],
    )


def echo(id, params):
    # As it came, to the byte, with members that no library knows.
    result(id, '{ "unknown" : 1.50, "params":%s }' % json.dumps(params))


def text(id, params):
    result(id, params["text"])


def error(id, params):
    say('{"jsonrpc":"2.0","id":%d,"error":{"code":-32000, "message":"no","data":[1.0]}}' % id)


def progress(id, params):
    token = params["_meta"]["progressToken"]
    for step in (1, 2):
        tell("notifications/progress", {"progressToken": token, "progress": step})
    result(id, json.dumps({"token": token}))


def late(id, params):
    """Says how far it is when it is over."""
    token = params["_meta"]["progressToken"]
    result(id, "{}")
    tell("notifications/progress", {"progressToken": token, "progress": 1})
    tell("notifications/progress", {"progressToken": "of nobody", "progress": 1})
    tell("notifications/tools/list_changed", {})


def chore(id, params):
    """Makes a task, and says how far that is, until it has ended and once more."""
    token = params["_meta"]["progressToken"]
    result(id, '{"task":{"taskId":"t","status":"working"}}')
    for status in ("working", "completed"):
        tell("notifications/progress", {"progressToken": token, "progress": 1})
        tell("notifications/tasks/status", {"taskId": "t", "status": status})
    tell("notifications/progress", {"progressToken": token, "progress": 2})
    tell("notifications/tools/list_changed", {})


def held(id, params):
    """Is answered by `release`."""
    seen.append(id)


def release(id, params):
    for waiting in reversed(seen):
        result(waiting, '{"released":%d}' % waiting)
    seen.clear()
    result(id, "{}")


def history(id, params):
    """What came that was no question."""
    result(id, json.dumps({"told": told}))


def asks(id, params):
    """Asks something itself before it answers."""
    ask("s\u00e9rver-1", params.get("method", "sampling/createMessage"), {"n": 1})
    answers["s\u00e9rver-1"] = id


def asks_much(id, params):
    """Asks something large under the id of the question itself, and says what it was told."""
    members = ['"method":"sampling/createMessage"', '"params":{"x":"%s"}' % ("y" * params["bytes"])]
    if params.get("method_last"):
        members.reverse()
    answers[id] = id
    say('{"jsonrpc":"2.0","id":%d,%s}' % (id, ",".join(members)))


def asks_often(id, params):
    """Asks something large several times, and says what it was told to the last one."""
    for number in range(params["times"]):
        ask("s-%d" % number, "sampling/createMessage", {"x": "y" * params["bytes"]})
    answers["s-%d" % (params["times"] - 1)] = id


def tells_much(id, params):
    """Says how far it is in many words, and something that belongs to no question, again and again."""
    much = "y" * params["bytes"]
    for _ in range(params["times"]):
        tell("notifications/progress", {"progressToken": params["_meta"]["progressToken"], "x": much})
        tell("notifications/message", {"x": much})
    result(id, "{}")


def malformed(id, params):
    for _ in range(params["times"]):
        say(params.get("line", "{ not json"))
    result(id, "{}")


def broken(id, params):
    """Answers in the way that it is told to; characters are bytes."""
    write(params["line"].replace("ID", str(id)).encode("latin-1") + b"\n")


def twice(id, params):
    result(id, '{"first":true}')
    result(id, '{"first":false}')
    say('{"jsonrpc":"2.0","id":987654,"result":{}}')
    say('{"jsonrpc":"2.0","id":"nobody","result":{}}')
    say('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}')


def endless(id, params):
    write('{"jsonrpc":"2.0","result":"')
    while True:
        out.write(b"x" * 65536)


def floods(id, params):
    """Says the same over and over, before or after its answer."""
    if params.get("answers"):
        result(id, "{}")
    while True:
        say(params["line"])


def dies(id, params):
    write('{"jsonrpc":"2.0","id":%d,"result":{"half":' % id)
    os.kill(os.getpid(), signal.SIGKILL)


def large(id, params):
    """A result of so many bytes: an array of texts. The id may stand behind it."""
    size, row = params["bytes"], b'"%s"' % (b"y" * 1021)
    first = b"" if params.get("id_last") else b'"id":%d,' % id
    last = b',"id":%d' % id if params.get("id_last") else b""
    out.write(b'{"jsonrpc":"2.0",' + first + b'"result":[')
    written = 2
    while written + len(row) < size:
        comma = b"," if written > 2 else b""
        out.write(comma + row)
        written += len(row) + len(comma)
    write(b"]" + last + b"}\n")


def spontaneous(id, params):
    tell("notifications/tools/list_changed", {})
    result(id, "{}")


def listen(id, params):
    meta = {"io.modelcontextprotocol/subscriptionId": id}
    tell("notifications/subscriptions/acknowledged", {"_meta": meta})
    tell("notifications/tools/list_changed", {"_meta": meta})
    if params.get("taken_back"):
        tell("notifications/cancelled", {"requestId": id})
    elif not params.get("open"):
        result(id, json.dumps({"_meta": meta}))


def stubborn(id, params):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    result(id, "%d" % os.getpid())
    while True:
        signal.pause()


def pid(id, params):
    result(id, "%d" % os.getpid())


def leaves(id, params):
    """Starts another program, which may not want to end."""
    script = 'trap "" TERM; ' if params.get("stubborn") else ""
    left = subprocess.Popen(["sh", "-c", script + "sleep 1000 & wait"], stdin=subprocess.DEVNULL)
    result(id, "%d" % left.pid)


def deaf(id, params):
    """Reads nothing any more."""
    result(id, "{}")
    while True:
        signal.pause()


def mutters(id, params):
    for number in range(params["lines"]):
        sys.stderr.write("line %d %s\n" % (number, "z" * 5000))
    sys.stderr.flush()
    result(id, "{}")


told, answers = [], {}
methods = {
    "tools/call": lambda id, params: globals()[params["name"]](id, params.get("arguments", params)),
    "subscriptions/listen": listen,
    "server/discover": lambda id, params: result(id, "{}"),
    "ping": lambda id, params: result(id, "{}"),
}

for line in sys.stdin.buffer:
    message = json.loads(line)
    if "method" not in message:
        result(answers.pop(message["id"]), json.dumps(message))
    elif "id" not in message:
        told.append(message)
    else:
        method = message["method"]
        methods.get(method, globals().get(method))(message["id"], message.get("params"))
