"""Cut rows into forwards of bounded padded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def pack(shapes: Sequence[tuple[int, int]], budget: int) -> Iterator[list[int]]:
    """Cut items of shape (rows, width) into lists of at most `budget` padded tokens, widest first.

    An item is never cut: a larger one goes alone.
    """
    piece: list[int] = []
    rows = 0
    for item in sorted(range(len(shapes)), key=lambda i: (-shapes[i][1], i)):
        if piece and (rows + shapes[item][0]) * shapes[piece[0]][1] > budget:
            yield piece
            piece, rows = [], 0
        piece.append(item)
        rows += shapes[item][0]
    if piece:
        yield piece
