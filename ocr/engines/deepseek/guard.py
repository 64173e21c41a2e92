"""What keeps greedy decoding from repeating itself for ever.

`NGramGuard` forbids, on the device, any token that would complete an n-gram seen
inside a recent window. `LoopDetector` notices, on the host, a text that has
become periodic all the same (table cells are exempt from the guard).

Source: DeepSeek-OCR, NoRepeatNGramLogitsProcessor (n-gram 20, window 90; table
cell tokens exempt).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class NGramGuard:
    """Forbids tokens that would repeat an n-gram inside the last `window` tokens.

    Args:
        size: Length of the n-gram, 2 or more.
        window: How many of the last tokens (prompt included) are searched.
        exempt: Token ids that may always come (table cell tags).
    """

    def __init__(self, size: int = 20, window: int = 90, exempt: Sequence[int] = ()) -> None:
        self.size = size
        self.window = window
        self.exempt = tuple(exempt)

    def forbid(
        self, logits: torch.Tensor, history: torch.Tensor, length: torch.Tensor
    ) -> torch.Tensor:
        """Logits with the forbidden tokens at minus infinity, changed in place.

        Nothing here asks the host, so it can be captured with the step.

        Args:
            logits: (rows, vocabulary) fp32.
            history: (rows, capacity) int64, all tokens so far.
            length: (rows,) int64, how many of them count.
        """
        import torch

        device = logits.device
        starts = self.window - self.size + 1
        if starts < 1:
            return logits
        # Candidate n-grams start at length-window .. length-size, the completed
        # token of each at start + size - 1.
        first = length[:, None] - self.window + torch.arange(starts, device=device)
        gram = torch.arange(self.size - 1, device=device)
        seen = history.gather(1, (first[:, :, None] + gram).clamp(min=0).flatten(1))
        tail = history.gather(1, (length[:, None] - self.size + 1 + gram).clamp(min=0))
        same = (seen.view(-1, starts, self.size - 1) == tail[:, None]).all(-1)
        # With fewer tokens than one n-gram nothing can repeat.
        same &= (first >= 0) & (length[:, None] >= self.size)
        completed = history.gather(1, (first + self.size - 1).clamp(min=0))
        for token in self.exempt:
            same &= completed != token
        penalty = torch.where(same, float("-inf"), 0.0)
        return logits.scatter_add_(1, completed, penalty)


class LoopDetector:
    """Notices when the newest tokens repeat with one period, again and again.

    Args:
        longest_period: Periods 1..longest_period are watched.
        repeats: A period must recur this often ...
        least_tokens: ... and cover at least this many tokens.
    """

    def __init__(
        self, longest_period: int = 400, repeats: int = 4, least_tokens: int = 160
    ) -> None:
        self._longest = longest_period
        self._repeats = repeats
        self._least = least_tokens
        # For each token, the places it was seen at; run lengths by period.
        self._runs: dict[int, int] = {}
        self._places: dict[int, deque[int]] = {}
        self._count = 0

    def add(self, token: int) -> int | None:
        """Take one more token; the length of the repeated tail if it loops, else None.

        The returned length counts the repetitions after the first occurrence,
        that is, the tokens a reader would want removed.
        """
        places = self._places.setdefault(token, deque())
        while places and self._count - places[0] > self._longest:
            places.popleft()
        runs = {self._count - place: self._runs.get(self._count - place, 0) + 1 for place in places}
        places.append(self._count)
        self._count += 1
        self._runs = runs
        for period, run in runs.items():
            if run >= max(self._least, period * (self._repeats - 1)):
                return run
        return None
