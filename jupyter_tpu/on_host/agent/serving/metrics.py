"""What servers of models say of their requests, in Prometheus's text format; no I/O.

Source of the format: prometheus.io, "Exposition formats". A server may send anything: an answer
that is too long, or has odd lines, is read as far as it can be.
"""

from __future__ import annotations

from typing import Collection, Dict, Iterator, NamedTuple, Optional, Tuple

#: Samples that are read at most, and the value from which on one means nothing: sums stay finite.
MOST_SAMPLES, LARGEST_VALUE = 20_000, 1e30

#: The names by which servers call one thing; counters without the suffix of OpenMetrics. The first
#: that is there counts. Those of Ray's own exporter begin with "ray_". Sources: docs.vllm.ai
#: "Production metrics", docs.ray.io "Serve: metrics", docs.sglang.ai "Production metrics",
#: huggingface.co "text-generation-inference: metrics", ggml-org/llama.cpp "tools/server",
#: AI-Hypercomputer/JetStream "core/metrics", triton-inference-server "docs/user_guide/metrics",
#: trallnag/prometheus-fastapi-instrumentator, stephenhillier/starlette_exporter.
REQUESTS = (
    "vllm:request_success", "ray_vllm:request_success", "ray_vllm_request_success",
    "sglang:num_requests", "tgi_request_count", "jetstream_request_success_count",
    "nv_inference_request_success", "ray_serve_num_http_requests",
    "ray_serve_http_request", "llamacpp:requests",
    "http_requests", "starlette_requests", "http_request_count", "http_server_requests",
    "http_request_duration_seconds_count", "requests", "request_count",
)  # fmt: skip
TOKENS = (
    "vllm:generation_tokens", "ray_vllm:generation_tokens", "ray_vllm_generation_tokens",
    "sglang:generation_tokens", "tgi_request_generated_tokens_sum",
    "jetstream_generate_tokens", "llamacpp:tokens_predicted", "generation_tokens",
    "generated_tokens", "tokens_generated",
)  # fmt: skip
QUEUE = (
    "vllm:num_requests_waiting", "ray_vllm:num_requests_waiting", "ray_vllm_num_requests_waiting",
    "sglang:num_queue_reqs", "tgi_queue_size", "jetstream_prefill_backlog_size",
    "nv_inference_pending_request_count", "ray_serve_deployment_queued_queries",
    "llamacpp:requests_deferred", "queue_size", "num_requests_waiting",
)  # fmt: skip
RUNNING = (
    "vllm:num_requests_running", "ray_vllm:num_requests_running", "ray_vllm_num_requests_running",
    "sglang:num_running_reqs", "tgi_batch_current_size", "llamacpp:requests_processing",
    "ray_serve_num_ongoing_http_requests", "http_requests_in_progress",
    "http_requests_inprogress", "num_requests_running",
)  # fmt: skip
#: Names of requests that count our own checks, too.
_OF_ALL_PATHS = frozenset(REQUESTS[REQUESTS.index("ray_serve_num_http_requests") :])


class ServerFigures(NamedTuple):
    """What one answer says; None for what it does not have.

    requests, tokens: since the server's start. waiting, running: requests, now. own: *requests*
    may have those of our own checks.
    """

    requests: Optional[float]
    tokens: Optional[float]
    waiting: Optional[float]
    running: Optional[float]
    own: bool = False


def read_figures(text: str, own_paths: Collection[str] = ()) -> Optional[ServerFigures]:
    """The figures of an answer; None if it has none of them.

    own_paths: samples of requests for these paths are left out, where a label names the path.
    """
    wanted = {name for names in (REQUESTS, TOKENS, QUEUE, RUNNING) for name in names}
    sums: Dict[str, float] = {}
    labelled = set()
    for number, (name, labels, value) in enumerate(_samples(text)):
        if number >= MOST_SAMPLES:
            break
        name = name if name in wanted else name.replace("_total", "")
        if name not in wanted:
            continue
        if name in _OF_ALL_PATHS and any('"%s"' % path in labels for path in own_paths):
            labelled.add(name)
            value = 0.0
        sums[name] = sums.get(name, 0.0) + value
    first = [next((name for name in names if name in sums), None)
             for names in (REQUESTS, TOKENS, QUEUE, RUNNING)]  # fmt: skip
    if first == [None] * len(first):
        return None
    requests, tokens, waiting, running = (sums[name] if name else None for name in first)
    own = first[0] in _OF_ALL_PATHS and first[0] not in labelled
    return ServerFigures(requests, tokens, waiting, running, own)


def _samples(text: str) -> "Iterator[Tuple[str, str, float]]":
    """Name, labels and value of each sample that can be read."""
    for line in text.splitlines():
        if not line or line[0] == "#":
            continue
        name, brace, rest = line.partition("{")
        if brace:
            labels, _, rest = rest.rpartition("}")
        else:
            name, _, rest = line.partition(" ")
            labels = ""
        try:
            value = float(rest.split()[0])
        except (ValueError, IndexError):
            continue
        if 0.0 <= value < LARGEST_VALUE:
            yield name, labels, value


class RequestRates:
    """Rates of a server, from one look at its figures to the next."""

    def __init__(self) -> None:
        self._last: Optional[ServerFigures] = None
        self._at = 0.0
        self.requests: Optional[float] = None  # a second
        self.tokens: Optional[float] = None
        self.waiting: Optional[int] = None
        self.worked = False  # whether the server had anything to do since the look before
        self.stalled: Optional[float] = None  # since when it has requests and answers none

    def look(self, figures: ServerFigures, now: float, checks: int) -> None:
        """checks: requests of our own since the look before."""
        last, seconds = self._last, now - self._at
        self._last, self._at = figures, now
        self.waiting = None if figures.waiting is None else int(min(figures.waiting, 1 << 40))
        asked = answered = 0.0
        if last is not None and seconds > 0.0:
            asked = _rise(last.requests, figures.requests)
            asked = max(0.0, asked - checks) if figures.own else asked
            answered = _rise(last.tokens, figures.tokens)
            self.requests = None if figures.requests is None else _rounded(asked / seconds)
            self.tokens = None if figures.tokens is None else _rounded(answered / seconds)
        busy = (figures.waiting or 0.0) > 0.0 or (
            not figures.own and (figures.running or 0.0) > 0.0
        )
        self.worked = busy or asked > 0.0 or answered > 0.0
        if not busy or asked > 0.0 or answered > 0.0 or last is None:
            self.stalled = None
        elif self.stalled is None:
            self.stalled = now - seconds

    def forget(self) -> None:
        """The server is started anew."""
        self.__init__()  # type: ignore[misc]


def _rise(before: Optional[float], after: Optional[float]) -> float:
    """By how much a counter rose; one that fell began again."""
    if before is None or after is None:
        return 0.0
    return after - before if after >= before else after


def _rounded(value: float) -> float:
    """Three digits: a change that nobody sees is no news."""
    return float("%.3g" % min(value, 1e9))
