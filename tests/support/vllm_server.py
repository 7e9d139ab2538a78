"""A stand-in for a vLLM server: the same protocol, answered by the library's model and PEFT."""

import argparse
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from cory.config import SamplingConfig
from cory.models.actor_critic import output_head
from cory.models.generation import generate
from tests.support.chat_server import Body, JSONHandler, JSONServer

# what vLLM 0.32 takes; it ignores other fields without a word
FIELDS = {
    *("model", "prompt", "max_tokens", "seed", "stop_token_ids", "logprobs", "return_token_ids"),
    *("skip_special_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
}


@dataclass
class Faults:
    """What is wrong with it."""

    loads_nothing: bool = False  # answers with the base, whatever adapter is named
    stale: bool = False  # goes on with the first weights of an agent, but where nothing is cached
    adds: int | None = None  # a token that it puts before every prompt, as a template would
    exchanges: bool = False  # answers with another agent's adapter
    raw_logprobs: bool = False  # those before temperature, top_k and top_p
    off: float = 0.0  # nats, as of another precision
    cuts: bool = False  # ends every response a token early
    refuses: str = ""  # what it says to every completion, with status 400
    fails: int = 0  # completions that it answers with status 500, before it is well again
    slow: Callable[[Body], float] = lambda body: 0.0  # seconds before an answer


class VLLMServer(JSONServer):
    """At `url`; `asked` has the bodies of its completions, `calls` counts requests by path."""

    def __init__(self, folder: str, context: int = 64, port: int = 0) -> None:
        super().__init__(Handler, port)
        self.context, self.faults = context, Faults()
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.folder = folder
        self.peft: Any = None
        self.adapters: dict[str, str] = {}  # name -> folder
        self.first: dict[str, str] = {}  # agent -> its first name
        self.calls: Counter[str] = Counter()
        self.start()

    def load(self, name: str, folder: str) -> tuple[int, Any]:
        if name in self.adapters:
            return 400, {
                "error": {"message": f"The lora adapter '{name}' has already been loaded."}
            }
        if self.peft is None:
            self.peft = PeftModel.from_pretrained(self.model, folder, adapter_name=name).eval()
        else:
            self.peft.load_adapter(folder, adapter_name=name)
        self.adapters[name] = folder
        self.first.setdefault(name.partition("-")[0], name)
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def unload(self, name: str) -> tuple[int, Any]:
        folder = self.adapters.pop(name)
        assert Path(folder).exists(), "removed before it was unloaded"
        if not self.faults.stale:
            self.peft.delete_adapter(name)
        return 200, f"Success: LoRA adapter '{name}' removed successfully."

    def reload(self, folder: str) -> tuple[int, Any]:
        assert self.calls["/pause"] == self.calls["/resume"] + 1, "requests may be running"
        other = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.model.load_state_dict(other.state_dict())
        return 200, {"results": [None]}

    def complete(self, body: Body) -> tuple[int, Any]:
        faults = self.faults
        self.asked.append(body)
        assert not {*body} - FIELDS, "vLLM would ignore a field"
        time.sleep(faults.slow(body))
        if faults.refuses:
            return 400, {"error": {"message": faults.refuses}}
        if faults.fails:
            faults.fails -= 1
            return 500, {"error": {"message": "EngineCore encountered an issue"}}
        name = body["model"]
        if name != "base" and name not in self.adapters:
            return 404, {"error": {"message": f"The model `{name}` does not exist."}}
        with self.lock:
            ids, logprobs, context = self.respond(name, body)
        ended = ids[-1] in body["stop_token_ids"]
        choice = {
            "index": 0,
            "text": "",
            "token_ids": ids,
            "prompt_token_ids": context,
            "logprobs": {"token_logprobs": logprobs, "tokens": [""] * len(ids)},
            "finish_reason": "stop" if ended else "length",
        }
        return 200, {"object": "text_completion", "choices": [choice]}

    def respond(self, name: str, body: Body) -> tuple[list[int], list[float], list[int]]:
        faults, context = self.faults, body["prompt"]
        if faults.adds is not None:
            context = [faults.adds, *context]
        if faults.stale:
            name = self.first.get(name.partition("-")[0], name)
        if faults.exchanges:
            name = next(other for other in self.adapters if other != name)
        lm: Any = self.model
        if self.peft is not None:
            layers = self.peft.base_model
            layers.disable_adapter_layers()
            if name != "base" and not faults.loads_nothing:
                layers.enable_adapter_layers()
                self.peft.set_adapter(name)
        greedy = body["temperature"] == 0
        sampling = SamplingConfig.model_construct(
            temperature=body["temperature"],
            top_k=body["top_k"],
            top_p=body["top_p"],
            repetition_penalty=body.get("repetition_penalty", 1.0),
        )
        limit = body["max_tokens"] - faults.cuts
        uniforms = torch.from_numpy(np.random.default_rng(body["seed"]).random((1, limit)))
        stops = {*body["stop_token_ids"]}
        (said,) = generate(lm, [context], limit, None if greedy else sampling, uniforms, 0, stops)
        logprobs = said.sampler_logprobs
        if greedy or faults.raw_logprobs:  # of the plain distribution
            read = torch.tensor([context + said.ids])
            with torch.no_grad():
                states = lm.base_model(input_ids=read, use_cache=False).last_hidden_state
            plain = output_head(lm)(states[0, len(context) - 1 : -1]).log_softmax(-1)
            logprobs = plain.gather(1, torch.tensor(said.ids)[:, None])[:, 0].tolist()
        return said.ids, [one - faults.off for one in logprobs], context


class Handler(JSONHandler):
    server: VLLMServer

    def do_GET(self) -> None:
        base: Body = {"id": "base", "parent": None}
        if self.server.context:
            base["max_model_len"] = self.server.context
        adapters = [{"id": name, "parent": "base"} for name in self.server.adapters]
        self.answer(200, {"object": "list", "data": [base, *adapters]})

    def do_POST(self) -> None:
        server, body = self.server, self.body()
        path = self.path.partition("?")[0]
        with server.lock:
            server.calls[path] += 1
        if path == "/v1/completions":
            self.answer(*server.complete(body))
            return
        with server.lock:
            if path == "/v1/load_lora_adapter":
                self.answer(*server.load(body["lora_name"], body["lora_path"]))
            elif path == "/v1/unload_lora_adapter":
                self.answer(*server.unload(body["lora_name"]))
            elif path == "/collective_rpc":
                assert body["method"] == "reload_weights"
                self.answer(*server.reload(body["kwargs"]["weights_path"]))
            else:
                assert path in ("/pause", "/resume"), path
                self.answer(200, {})


def main() -> None:
    """As `python -m vllm.entrypoints.openai.api_server`, until it is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--mark")  # of whose it is, in its command line
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--max-model-len", type=int, required=True)
    known, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    VLLMServer(known.model, known.max_model_len, known.port)
    threading.Event().wait()


if __name__ == "__main__":
    main()
