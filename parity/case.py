"""A line of the table."""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """A method of Paribus and the functions of one library that it is compared with.

    `data` names the batches, `kind` the function of the library's side that answers, `settings` what that gets.
    `differs` says why the answers must differ (and then they must); `skip` names quantities that are not comparable.
    """

    name: str
    library: str
    data: str
    method: Any
    calls: str
    settings: dict[str, Any]
    kind: str
    differs: str = ""
    skip: tuple[str, ...] = ()
