"""The kinds of story: each builder draws names, things, phrasing and numbers, and writes story and program together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from paribus.tasks.stories.sheet import Sheet, ask, choose, events
from paribus.tasks.stories.worked import Draws, Kind, Ref, Story

HOLDERS = (("box", "boxes"), ("bag", "bags"), ("basket", "baskets"), ("jar", "jars"), ("tray", "trays"))
PRICED = (("pen", "pens"), ("book", "books"), ("cup", "cups"), ("ball", "balls"), ("toy", "toys"), ("card", "cards"))
TIMES = (("day", "days"), ("hour", "hours"), ("week", "weeks"))
WORK = (("reads", "pages"), ("makes", "cups"), ("paints", "tiles"), ("picks", "plums"), ("bakes", "cookies"))

Build = Callable[[Sheet, int], None]


def chain(sheet: Sheet, n: int) -> None:
    cast = choose(sheet)
    who, things = cast.who, cast.things
    start = sheet.number(5, sheet.largest * 2 // 3)
    sheet.tell(f"{who.name} has {start} {things}.", f"At first {who.name} has {start} {things}.")
    events(sheet, cast, start, n)
    ask(sheet, cast)


def groups(sheet: Sheet, n: int) -> None:
    cast = choose(sheet)
    who, things = cast.who, cast.things
    holder, holders = sheet.draws.choice(HOLDERS)
    a, b = sheet.product()
    sheet.tell(
        f"{who.name} has {a} {holders} with {b} {things} in each {holder}.",
        f"{who.name} has {a} {holders}. Each {holder} holds {b} {things}.",
        f"{who.name} buys {a} {holders} of {b} {things}.",
    )
    count = sheet.step("*", a, b, f"{who.name} has {{}} {things}.", "+")
    events(sheet, cast, count, n - 1)
    ask(sheet, cast)


def rate(sheet: Sheet, n: int) -> None:
    verb, things = sheet.draws.choice(WORK[1:])
    cast = choose(sheet)._replace(things=things)
    who = cast.who
    unit, units = sheet.draws.choice(TIMES)
    a, b = sheet.product()
    sheet.tell(
        f"{who.name} {verb} {a} {things} each {unit} for {b} {units}.",
        f"Each {unit} {who.name} {verb} {a} {things}. {who.she.capitalize()} works for {b} {units}.",
    )
    count = sheet.step("*", a, b, f"{who.name} {verb} {{}} {things}.", "+")
    events(sheet, cast, count, n - 1)
    ask(sheet, cast)


def compare(sheet: Sheet, n: int) -> None:
    cast = choose(sheet)
    who, other, things = cast.who, cast.other, cast.things
    base = sheet.number(5, sheet.largest * 2 // 3)
    more = sheet.draws.chance(0.5)
    k = sheet.number(2, min(sheet.small, sheet.largest - base if more else base - 1))
    sheet.tell(f"{other.name} has {base} {things}.")
    word = "more" if more else "fewer"
    sheet.tell(
        f"{who.name} has {k} {word} {things} than {other.name}.", f"{who.name} has {k} {word} than {other.name}."
    )
    count = sheet.step("+" if more else "-", base, k, f"{who.name} has {{}} {things}.", "-" if more else "+")
    events(sheet, cast, count, n - 1, named=True)
    ask(sheet, cast)


def inverse(sheet: Sheet, n: int) -> None:
    """The wording says "more" where one must subtract: the classic trap of comparison problems."""
    cast = choose(sheet)
    who, other, things = cast.who, cast.other, cast.things
    base = sheet.number(5, sheet.largest * 2 // 3)
    more = sheet.draws.chance(0.5)
    k = sheet.number(2, min(sheet.small, base - 1 if more else sheet.largest - base))
    sheet.tell(f"{other.name} has {base} {things}.")
    word = "more" if more else "fewer"
    sheet.tell(f"{other.name} has {k} {word} {things} than {who.name}.", f"That is {k} {word} than {who.name} has.")
    count = sheet.step("-" if more else "+", base, k, f"{who.name} has {{}} {things}.", "+" if more else "-")
    events(sheet, cast, count, n - 1, named=True)
    ask(sheet, cast)


def times(sheet: Sheet, n: int) -> None:
    cast = choose(sheet)
    who, other, things = cast.who, cast.other, cast.things
    a, b = sheet.product()
    sheet.tell(f"{other.name} has {a} {things}.")
    sheet.tell(f"{who.name} has {b} times as many {things} as {other.name}.", f"{who.name} has {b} times as many.")
    count = sheet.step("*", a, b, f"{who.name} has {{}} {things}.", "+")
    events(sheet, cast, count, n - 1, named=True)
    ask(sheet, cast)


def half(sheet: Sheet, n: int) -> None:
    cast = choose(sheet)
    who, other, things = cast.who, cast.other, cast.things
    start = 2 * sheet.number(3, sheet.largest // 2)
    sheet.tell(f"{who.name} has {start} {things}.", f"At first {who.name} has {start} {things}.")
    sheet.tell(
        f"{who.she.capitalize()} gives half of them to {other.name}.",
        f"{who.she.capitalize()} loses half of the {things}.",
        f"Then {who.she} sells half of them.",
    )
    count = sheet.step("/", start, 2, f"{who.name} has {{}} {things} left.", "-")
    events(sheet, cast, count, n - 1)
    ask(sheet, cast)


def together(sheet: Sheet, n: int) -> None:
    cast = choose(sheet)
    who, other, things = cast.who, cast.other, cast.things
    base = sheet.number(4, sheet.largest * 2 // 5)
    more = sheet.draws.chance(0.5)
    k = sheet.number(2, min(sheet.small, sheet.largest - 2 * base if more else base - 1))
    sheet.tell(f"{other.name} has {base} {things}.")
    sheet.tell(f"{who.name} has {k} {'more' if more else 'fewer'} than {other.name}.")
    count: int | Ref = sheet.step("+" if more else "-", base, k, f"{who.name} has {{}} {things}.")
    count = events(sheet, cast, count, n - 2, named=True)
    sheet.tell(
        f"How many {things} do {who.name} and {other.name} have together?",
        f"How many {things} do they have in all?",
    )
    sheet.step("+", base, count, "Together they have {}" + f" {things}.", "skip")


def money(sheet: Sheet, n: int) -> None:
    who = choose(sheet).who
    (thing, things), (other, _) = sheet.draws.pair(PRICED)
    a, b = sheet.product()
    sheet.tell(f"A {thing} costs {a} dollars.", f"Each {thing} costs {a} dollars.")
    cost = sheet.step("*", a, b, f"The {things} cost {{}} dollars.")
    if n > 2:
        extra = sheet.number(2, min(sheet.small, sheet.largest - sheet.value(cost)))
        sheet.tell(f"A {other} costs {extra} dollars.")
        sheet.tell(f"{who.name} buys {b} {things} and a {other}.")
        cost = sheet.step("+", cost, extra, "In all this costs {} dollars.")
    else:
        sheet.tell(f"{who.name} buys {b} {things}.", f"{who.name} wants {b} {things}.")
    paid = sheet.value(cost) + sheet.number(1, min(sheet.small, sheet.largest - sheet.value(cost)))
    sheet.tell(f"{who.she.capitalize()} pays with {paid} dollars.")
    sheet.tell(f"How much change does {who.name} get?", f"How many dollars does {who.name} get back?")
    sheet.step("-", paid, cost, f"{who.name} gets {{}} dollars back.", "skip")


def share(sheet: Sheet, n: int) -> None:
    """What is taken away before sharing is a multiple of the sharers, so that overlooking it leaves whole numbers."""
    cast = choose(sheet)
    who, other, things = cast.who, cast.other, cast.things
    friends = sheet.number(2, min(9, sheet.largest // 3))
    parts = sheet.number(3, min(9, sheet.largest // friends))
    start = friends * parts
    gone = friends * sheet.number(1, parts - 2)
    sheet.tell(f"{who.name} has {start} {things}.", f"At first {who.name} has {start} {things}.")
    she = who.she.capitalize()
    sheet.tell(f"{she} gives {gone} to {other.name}.", f"{she} loses {gone} of them.", f"{she} keeps {gone} {things}.")
    sheet.tell(f"{she} shares the rest among {friends} friends.", f"The rest goes to {friends} friends.")
    rest = sheet.step("-", start, gone, f"The rest is {{}} {things}.")
    each = sheet.step("/", rest, friends, f"Each friend gets {{}} {things}.", "-")
    if n > 2:
        have = sheet.number(2, min(sheet.small, sheet.largest - sheet.value(each)))
        sheet.tell(f"Each friend had {have} before.")
        sheet.step("+", each, have, f"Now each has {{}} {things}.")
    sheet.tell(f"How many {things} does each friend {'have now' if n > 2 else 'get'}?")


def two(sheet: Sheet, n: int) -> None:
    cast = choose(sheet)
    who, other = cast.who, cast.other
    verb, things = sheet.draws.choice(WORK)
    unit, units = sheet.draws.choice(TIMES)
    (a, b), (c, d) = sheet.product(), sheet.product()
    total = sheet.draws.chance(0.5)
    for person, x, y in ((who, a, b), (other, c, d)):
        sheet.tell(
            f"{person.name} {verb} {x} {things} each {unit} for {y} {units}.",
            f"Each {unit} for {y} {units}, {person.name} {verb} {x} {things}.",
        )
    first = sheet.step("*", a, b, f"{who.name} {verb} {{}} {things}.")
    second = sheet.step("*", c, d, f"{other.name} {verb} {{}} {things}.")
    if total:
        sheet.tell(f"How many {things} is that in all?", f"How many {things} is that together?")
        sheet.step("+", first, second, "Together that is {}" + f" {things}.", "skip")
    else:
        sheet.tell(f"How many more {things} is that for {who.name} than for {other.name}?")
        sheet.step("-", first, second, f"{who.name} has {{}} more {things}.", "+")


def missing(sheet: Sheet, n: int) -> None:
    """The story runs forward, the solution backward: what was given away must be added."""
    cast = choose(sheet)
    who, other, things = cast.who, cast.other, cast.things
    left = sheet.number(2, sheet.largest // 2)
    count: int | Ref = left
    she = who.she.capitalize()
    gone: list[int] = []
    sheet.tell(f"{who.name} had some {things}.", f"At first {who.name} had some {things}.")
    for _ in range(n):
        k = sheet.number(2, min(sheet.small, sheet.largest - sheet.value(count)))
        count = sheet.step("+", count, k, f"Before that {who.name} had {{}} {things}.", "-")
        gone.append(k)
    for k in reversed(gone):
        sheet.tell(f"{she} gave {k} to {other.name}.", f"{she} lost {k} of them.", f"{she} sold {k} {things}.")
    sheet.tell(f"Now {who.name} has {left} {things}.", f"Now {who.name} has {left} left.")
    sheet.tell(f"How many {things} did {who.name} have at first?", f"How many did {who.name} have before?")


class Shape(NamedTuple):
    """How a kind is built and how many steps it can have."""

    build: Build
    least: int
    most: int


SHAPES: dict[Kind, Shape] = {
    "chain": Shape(chain, 1, 4),
    "groups": Shape(groups, 1, 4),
    "rate": Shape(rate, 1, 4),
    "compare": Shape(compare, 1, 3),
    "inverse": Shape(inverse, 1, 3),
    "times": Shape(times, 1, 3),
    "half": Shape(half, 1, 3),
    "together": Shape(together, 2, 3),
    "money": Shape(money, 2, 3),
    "share": Shape(share, 2, 3),
    "two": Shape(two, 3, 3),
    "missing": Shape(missing, 1, 3),
}


def build(draws: Draws, kind: Kind, n: int, largest: int) -> Story | None:
    """A story of this kind with `n` steps, or None where the drawn numbers do not make a sound one."""
    sheet = Sheet(draws, largest)
    SHAPES[kind].build(sheet, n)
    left_right = [(sheet.value(s.left), sheet.value(s.right)) for s in sheet.steps]
    sound = all(
        min(a, b, v) >= 1
        and max(a, b, v) <= largest
        and (s.operation != "-" or a > b)
        and (s.operation != "/" or a % b == 0)
        for s, v, (a, b) in zip(sheet.steps, sheet.values, left_right, strict=True)
    )
    return Story(kind, " ".join(sheet.sentences), tuple(sheet.steps)) if sound else None
