"""Batches that keep the candidates of a question together."""

from collections.abc import Sequence

import numpy as np

from keras_sentmatch.data.dataset import numbered


class Questions:
    """Which questions stand in one batch: as few batches as can easily be found.

    Args:
        groups: The question of each pair; pairs of one question need not be adjacent.
        batch_size: Pairs a batch at most; where a question has more, the next multiple of it.
    """

    def __init__(self, groups: Sequence[str], batch_size: int) -> None:
        self.numbers = numbered(groups)
        self.sizes: np.ndarray = np.bincount(self.numbers)
        order = np.argsort(self.numbers, kind="stable")
        self._rows = np.split(order, np.cumsum(self.sizes)[:-1])
        self._alike = [np.flatnonzero(self.sizes == size) for size in np.unique(self.sizes)]
        self.batches = packed(self.sizes, batch_size)

    def rows(self, rng: np.random.Generator | None = None) -> list[np.ndarray]:
        """The row numbers of each batch. With `rng`, questions of the same size change places.

        So there are as many batches, of as many rows, each time.
        """
        now = np.arange(len(self.sizes))
        if rng is not None:
            for alike in self._alike:
                now[alike] = rng.permutation(alike)
        parts = [np.concatenate([self._rows[now[i]] for i in batch]) for batch in self.batches]
        return parts if rng is None else [parts[i] for i in rng.permutation(len(parts))]


def packed(sizes: np.ndarray, batch_size: int) -> list[list[int]]:
    """The numbers of the questions in each batch, given how many pairs each has.

    Large ones first, each where it leaves least room (best-fit decreasing).
    """
    batches: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(batch_size)]  # batches by their free rows
    for number in np.argsort(-sizes, kind="stable"):
        size = int(sizes[number])
        room = next((free for free in range(size, batch_size) if with_room[free]), None)
        if room is None:
            batches.append([])
            place, room = len(batches) - 1, -(-size // batch_size) * batch_size
        else:
            place = with_room[room].pop()
        batches[place].append(int(number))
        if room > size:
            with_room[room - size].append(place)
    return batches
