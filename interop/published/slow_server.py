"""A FastMCP server on standard streams that starts late, or that leaves a method unanswered.

    python slow_server.py [--start-seconds N] [--silent-on METHOD]
"""

import argparse
import json
import subprocess
import sys
import time


def serve() -> None:
    from fastmcp import FastMCP

    server = FastMCP("greeter")

    @server.tool
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    server.run(show_banner=False)


def filtered(method: str) -> int:
    """Runs the server behind a filter that drops the requests of one method."""
    child = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE)
    assert child.stdin
    for line in sys.stdin.buffer:
        if json.loads(line).get("method") != method:
            child.stdin.write(line)
            child.stdin.flush()
    child.stdin.close()
    return child.wait()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--start-seconds", type=float, default=0)
    parser.add_argument("--silent-on")
    options = parser.parse_args()
    time.sleep(options.start_seconds)
    if options.silent_on:
        return filtered(options.silent_on)
    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
