"""A stand-in for a server of chat models: answers as a test says, keeps what it was asked."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cory.config import EndpointConfig, JudgeConfig, JudgeEndpointConfig
from cory.endpoint import Ask

Body = dict[str, Any]
KEY = "sk-never-to-be-written"
CONFIG = EndpointConfig(
    base_url="http://127.0.0.1:1/v1",
    model="wise",
    key_variable="WISE_KEY",
    plain_http=False,
    temperature=0.7,
    top_p=None,
    max_tokens=20,
    limit_name="max_tokens",
    parallel=4,
    retries=2,
    timeout=5.0,
)


def judge(server: "ChatServer", **settings: Any) -> JudgeConfig:
    """A judge on that server, of grades from 0 to 10."""
    endpoint = CONFIG.model_dump() | {"base_url": server.url, "key_variable": None}
    config = JudgeConfig(
        name="judge",
        rubric="Give {mark} from {lowest} to {highest}.",
        request="{query}|{response}",
        mark="Grade:",
        lowest=0.0,
        highest=10.0,
        output="share",
        endpoint=JudgeEndpointConfig(**endpoint),
    )
    return config.replace(**settings)


def asks(*texts: str) -> list[Ask]:
    return [
        Ask(f"game-{number}/0", [{"role": "user", "content": text}])
        for number, text in enumerate(texts)
    ]


@dataclass
class Said:
    """One answer of the server."""

    body: Body | str
    status: int = 200
    after: float = 0.0  # seconds


def reply(text: str) -> Said:
    """A completion as the real server writes it, of 10 and 5 tokens."""
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    kind = {"id": "chatcmpl-1", "object": "chat.completion", "model": "wise-2026-01-01"}
    return Said({**kind, "choices": [choice], "usage": usage})


def failure(status: int, message: str, code: str | None = None) -> Said:
    """An error as the real server writes it, which may be tried again soon."""
    said = {"error": {"message": message, "type": "error", "code": code}}
    return Said(said, status)


def echo(number: int, body: Body) -> Said:
    """The last message once more."""
    return reply(f"re {body['messages'][-1]['content']}")


class JSONServer(ThreadingHTTPServer):
    """On a port of this machine, in threads; `asked` has what its requests say."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: "type[JSONHandler]", port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[Body] = []
        self.lock = threading.Lock()

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is not worth a traceback."""


class JSONHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def body(self) -> Body:
        found: Body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        return found

    def answer(self, status: int, said: Body | str) -> None:
        text = said if isinstance(said, str) else json.dumps(said)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("retry-after-ms", "10")
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


class ChatServer(JSONServer):
    """At `url`; answers request `number`, from 0, by `answer(number, body)`."""

    def __init__(self, answer: Callable[[int, Body], Said] = echo) -> None:
        super().__init__(Handler)
        self.url += "/v1"
        self.answer = answer
        self.keys: list[str | None] = []
        self.under_way = self.most_under_way = 0
        self.start()

    def texts(self) -> list[str]:
        """The last message of each request, sorted: threads ask in any order."""
        return sorted(body["messages"][-1]["content"] for body in self.asked)


class Handler(JSONHandler):
    server: ChatServer

    def do_POST(self) -> None:
        server, body = self.server, self.body()
        with server.lock:
            number = len(server.asked)
            server.asked.append(body)
            server.keys.append(self.headers.get("authorization"))
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
        assert self.path == "/v1/chat/completions"
        said = server.answer(number, body)
        time.sleep(said.after)
        with server.lock:
            server.under_way -= 1
        self.answer(said.status, said.body)
