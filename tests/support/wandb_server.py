"""A stand-in for a W&B server: answers what a run without tables asks, keeps what it gets."""

from __future__ import annotations

import gzip
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class WandbServer(ThreadingHTTPServer):
    """At `url`: runs by id, each with the lines of its history; views of a project."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.history: dict[str, list[dict[str, Any]]] = {}
        self.finished: list[str] = []
        self.views: list[dict[str, Any]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is not worth a traceback."""

    def leave(self) -> None:
        """From now on nobody listens."""
        self.shutdown()
        self.server_close()

    def graphql(self, query: str, asked: dict[str, Any]) -> dict[str, Any]:
        """What the real server would say, as far as a run looks at it."""
        place = {"id": "P", "name": "test", "entity": {"id": "E", "name": "someone"}}
        if query == "Viewer":
            return {"viewer": {"id": "U", "username": "someone", "entity": "someone"}}
        if query == "RunResumeStatus":
            lines = self.history.get(asked["name"])
            known = None
            if lines is not None:
                known = {
                    "id": "R",
                    "name": asked["name"],
                    "historyLineCount": len(lines),
                    "eventsLineCount": 0,
                    "logLineCount": 0,
                    "historyTail": json.dumps([json.dumps(line) for line in lines[-1:]]),
                    "eventsTail": "[]",
                    "summaryMetrics": json.dumps(lines[-1]),
                    "config": "{}",
                    "wandbConfig": '{"t": 1}',  # without it W&B takes the run for a new one
                }
            return {"model": {**place, "bucket": known}}
        if query == "UpsertBucket":
            self.history.setdefault(asked["name"], [])
            bucket = {"id": "R", "name": asked["name"], "project": place}
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if query == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.url}/{name}"} for name in asked["files"]]
            return {"createRunFiles": {"runID": "R", "uploadHeaders": [], "files": files}}
        if query == "UpsertView2":
            self.views.append(asked)
            return {"upsertView": {"view": {"id": "V", "name": asked["name"]}, "inserted": True}}
        return {}

    def stream(self, run: str, sent: dict[str, Any]) -> None:
        """Lines of history go where their offset says."""
        if lines := sent.get("files", {}).get("wandb-history.jsonl"):
            self.history[run][lines["offset"] :] = [json.loads(text) for text in lines["content"]]
        if sent.get("complete"):
            self.finished.append(run)


class Answer(BaseHTTPRequestHandler):
    """One connection."""

    server: WandbServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        said: dict[str, Any] = {}
        if self.path == "/graphql":
            asked = json.loads(body)
            (name,) = re.findall(r"^\s*(?:query|mutation) (\w+)", asked["query"])
            said = {"data": self.server.graphql(name, asked.get("variables") or {})}
        elif self.path.endswith("/file_stream"):
            self.server.stream(self.path.split("/")[-2], json.loads(body))
        answer = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""
