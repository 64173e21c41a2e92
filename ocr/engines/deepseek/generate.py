"""The decode loop: prompt in, tokens out, bounded in memory, length and time.

A step (decoder, guard, choice of the next token) runs wholly on the device, as
one CUDA graph where there is a GPU. The host only replays it, a few steps at a
time, and looks at the tokens of the chunk before while the next one runs, so it
never makes the device wait.
"""

# Objects of torch and transformers, which have no types here.
# ruff: noqa: ANN401

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ocr.engines.deepseek.cache import CacheShape, KVCache
from ocr.engines.deepseek.decoder import Decoder
from ocr.engines.deepseek.guard import LoopDetector, NGramGuard

if TYPE_CHECKING:
    import torch


_MAX_CAPTURED_PROMPTS = 8


class Stop(StrEnum):
    """Why a page's text ended."""

    END = "end"
    LOOP = "loop"
    TOKENS = "tokens"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What ends a page that does not end by itself."""

    max_tokens: int = 6_800
    """Generated tokens; prompt and text together stay within the model's positions."""
    max_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Generated:
    """A page's tokens, the end token left out; a loop's repetitions are cut off."""

    tokens: list[int]
    stop: Stop
    seconds: float


class Generator:
    """Reads pages with one decoder and one cache, a row per page.

    Args:
        decoder: The text decoder.
        shape: The cache's sizes.
        guard: Forbids repeated n-grams; None for tests against plain decoding.
        capacity: Tokens (prompt and text) a row's history holds.
        graph: Capture the step as a CUDA graph.
        graph_prompts: Capture prompts too; not where the experts of a prompt are
            looped over on the host.
        pool: Memory pool shared with other graphs.
        chunk: Steps between two looks of the host at the tokens.
        clock: Seconds, monotonic.
    """

    def __init__(  # noqa: PLR0913  # what may vary, by keyword
        self,
        decoder: Decoder,
        shape: CacheShape,
        *,
        guard: NGramGuard | None = None,
        capacity: int | None = None,
        graph: bool = False,
        graph_prompts: bool = True,
        pool: Any = None,
        chunk: int = 16,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import torch

        self.decoder = decoder
        device, dtype = decoder.embedding.device, decoder.embedding.dtype
        self.cache = KVCache(shape, dtype, device)
        self._guard = guard
        self._chunk = chunk
        self._clock = clock
        rows = shape.rows
        self._capacity = capacity or decoder.sizes.max_positions
        self.history = torch.zeros((rows, self._capacity), dtype=torch.long, device=device)
        self.length = torch.zeros(rows, dtype=torch.long, device=device)
        self.current = torch.zeros(rows, dtype=torch.long, device=device)
        self._row = torch.zeros(1, dtype=torch.long, device=device)
        self._use_graph = graph
        self._graph_prompts = graph and graph_prompts
        self._pool = pool
        self._graph: Any = None
        self._prompts: dict[int, _CapturedPrompt | None] = {}

    def start(self, row: int, ids: torch.Tensor, embedded: torch.Tensor) -> None:
        """Take a page's prompt into a row and choose its first token.

        Args:
            row: Which row; whatever it held is forgotten.
            ids: (tokens,) int64, as many as pinned slots at most.
            embedded: (tokens, hidden), image features in place.

        Raises:
            ValueError: The prompt is longer than the pinned part of the cache.
        """
        tokens = ids.shape[0]
        if tokens > self.cache.shape.prompt_slots:
            raise ValueError(
                f"a prompt of {tokens} tokens, but {self.cache.shape.prompt_slots} slots"
            )
        self._row.fill_(row)
        logits = self._read_prompt(embedded)
        self.history[row, :tokens] = ids
        self.length[row] = tokens
        some = slice(row, row + 1)
        self._choose(logits, self.history[some], self.length[some], self.current[some])

    def _read_prompt(self, embedded: torch.Tensor) -> torch.Tensor:
        """Logits of the prompt's last token; from the second prompt of a length on, captured.

        Pages of one shape have prompts of one length, so a few graphs serve
        nearly every page, and launching is most of a prompt's time otherwise.
        """
        tokens = embedded.shape[0]
        captured = self._prompts.get(tokens)
        if captured is not None:
            return captured(embedded)
        if not self._graph_prompts or tokens not in self._prompts:
            if len(self._prompts) >= _MAX_CAPTURED_PROMPTS:
                self._prompts.clear()
            self._prompts[tokens] = None
            return self.decoder.read_prompt(embedded, self.cache, self._row)
        captured = _CapturedPrompt(self.decoder, self.cache, self._row, embedded, self._pool)
        self._prompts[tokens] = captured
        return captured(embedded)

    def _choose(
        self,
        logits: torch.Tensor,
        history: torch.Tensor,
        length: torch.Tensor,
        current: torch.Tensor,
    ) -> None:
        if self._guard is not None:
            logits = self._guard.forbid(logits, history, length)
        current.copy_(best_token(logits))
        # A row that has ended runs on until the others are done: it may fill its
        # history, but never write behind it.
        place = length.clamp(max=self._capacity - 1)
        history.scatter_(1, place[:, None], current[:, None])
        length += 1

    def _step(self) -> None:
        logits = self.decoder.step(self.current, self.cache)
        self._choose(logits, self.history, self.length, self.current)

    def steps(self, count: int) -> None:
        """Let every row generate `count` more tokens; returns before they are done."""
        if not self._use_graph:
            for _ in range(count):
                self._step()
            return
        if self._graph is None:
            self.capture()
        for _ in range(count):
            self._graph.replay()

    def capture(self) -> None:
        """Capture the step as a CUDA graph, leaving every row as it was."""
        import torch

        counters = (self.length, self.current, self.cache.generated, self.cache.prompt_length)
        kept = [counter.clone() for counter in counters]
        # Written by the trial steps, then given back: the next slots and tokens.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.cache.prompt_length.fill_(1)
            self.cache.generated.zero_()
            self.length.fill_(self._capacity - 8)
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self._step()
        for counter, value in zip(counters, kept, strict=True):
            counter.copy_(value)
        self._graph = graph

    def run(
        self,
        bounds: Bounds,
        *,
        eos: int,
        row: int = 0,
        detector: LoopDetector | None = None,
        progress: Callable[[], None] | None = None,
    ) -> Generated:
        """The row's text, from its first token on, until it ends or is ended.

        Args:
            bounds: Token and time limits.
            eos: The end token's id.
            row: Which row; the others advance along with it.
            detector: Notices loops; None: none is looked for.
            progress: Called after every chunk.
        """
        reader = _TokenReader(self.history, row, int(self.length[row].item()) - 1)
        watch = _Watch(bounds, eos, detector, self._clock)
        room = min(bounds.max_tokens, self._capacity - reader.next)
        issued = 1
        reader.ask(issued)
        while True:
            count = min(self._chunk, room - issued)
            if count > 0:
                self.steps(count)
                issued += count
                reader.ask(count)
            # One chunk stays in flight while the one before is looked at.
            stop = watch.take(reader.answer()) if reader.pending > (1 if count > 0 else 0) else None
            if progress is not None:
                progress()
            if stop is not None:
                return watch.result(stop)
            if count <= 0 and not reader.pending:
                return watch.result(Stop.TOKENS)


def best_token(logits: torch.Tensor) -> torch.Tensor:
    """Index of the largest logit of each row, (rows, vocabulary) -> (rows,) int64.

    In two rounds where the vocabulary divides: one reduction over a single long
    row would leave most of a GPU idle.
    """
    rows, vocabulary = logits.shape
    parts = 128
    if vocabulary % parts:
        return logits.argmax(-1)
    values, places = logits.view(rows, parts, -1).max(-1)
    part = values.argmax(-1, keepdim=True)
    return (part * (vocabulary // parts) + places.gather(1, part)).squeeze(1)


class _CapturedPrompt:
    """A prompt of one length as a CUDA graph."""

    def __init__(
        self,
        decoder: Decoder,
        cache: KVCache,
        row: torch.Tensor,
        example: torch.Tensor,
        pool: Any,
    ) -> None:
        import torch

        self._input = example.clone()
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._output = decoder.read_prompt(self._input, cache, row)

    def __call__(self, embedded: torch.Tensor) -> torch.Tensor:
        self._input.copy_(embedded)
        self._graph.replay()
        # Another graph of the shared pool may overwrite the output.
        return self._output.clone()


class _TokenReader:
    """Copies new tokens of a row to the host without making the device wait."""

    def __init__(self, history: torch.Tensor, row: int, first: int) -> None:
        import torch

        self._history = history
        self._row = row
        self.next = first
        self._cuda = history.is_cuda
        self._host = torch.empty(history.shape[1], dtype=torch.long, pin_memory=self._cuda)
        self._asked: deque[tuple[int, int, Any]] = deque()

    @property
    def pending(self) -> int:
        """Copies asked for and not yet looked at."""
        return len(self._asked)

    def ask(self, count: int) -> None:
        import torch

        start, end = self.next, self.next + count
        self._host[start:end].copy_(self._history[self._row, start:end], non_blocking=self._cuda)
        event = torch.cuda.Event() if self._cuda else None
        if event is not None:
            event.record()
        self._asked.append((start, end, event))
        self.next = end

    def answer(self) -> list[int]:
        start, end, event = self._asked.popleft()
        if event is not None:
            event.synchronize()
        tokens: list[int] = self._host[start:end].tolist()
        return tokens


class _Watch:
    """Looks at the tokens as they come and says when to stop."""

    def __init__(
        self,
        bounds: Bounds,
        eos: int,
        detector: LoopDetector | None,
        clock: Callable[[], float],
    ) -> None:
        self._bounds = bounds
        self._eos = eos
        self._detector = detector
        self._clock = clock
        self._started = clock()
        self._tokens: list[int] = []

    def take(self, tokens: list[int]) -> Stop | None:
        for token in tokens:
            if token == self._eos:
                return Stop.END
            self._tokens.append(token)
            repeated = self._detector.add(token) if self._detector else None
            if repeated is not None:
                del self._tokens[-repeated:]
                return Stop.LOOP
            if len(self._tokens) >= self._bounds.max_tokens:
                return Stop.TOKENS
        if self._clock() - self._started > self._bounds.max_seconds:
            return Stop.TIME
        return None

    def result(self, stop: Stop) -> Generated:
        return Generated(self._tokens, stop, self._clock() - self._started)
