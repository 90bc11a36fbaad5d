"""What nobody's page would send: texts made to break cleaning, tokenizers and pages, values that are no indices, and JSON of any shape."""

from __future__ import annotations

import math

from hypothesis import strategies as st

# Each has broken some program. Pieces of texts: they are joined with each other and with ordinary words.
NASTY = (
    "<script>window.hit=1</script>",
    "</script><script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "<svg onload=window.hit=1>",
    "javascript:window.hit=1",
    "data:text/html,<script>alert(1)</script>",
    "<a href='https://example.org'>x</a><br><b>",
    "$\\frac{1}{2}$",
    "${window.hit=1}",
    "{{7*7}}",
    "%{x}%{customdata[0]}<extra>",
    "{0.__class__}{name!r}",
    "%s%n%x",
    '"; DROP TABLE runs; --',
    "=HYPERLINK(\"http://example.org\")",
    "../../etc/passwd",
    "\x00",
    "\x1b[31m",
    "\r\n\t\v\f",
    "\u202e\u2066\u200f",
    "\u200b\u200c\u200d\ufeff",
    "\u2028\u2029",
    "e" + "\u0301" * 60,
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "𝕳𝖊𝖑𝖑𝖔",
    "ﷺ",
    "\ud800",
    "\udfff",
    "\U0010ffff\ufffe",
    "▁▁",
    ">>fra<<",
    "</s><s><pad><unk>",
    "<0xE4>",
    "عربي",
    "中文字",
    "'",
    "\\",
    "NaN",
    "-1",
    "1e400",
)
# A few that are long; more would fill an error message of hypothesis without end.
LONG = ("a" * 50_000, "word " * 3000, "𠀀" * 20_000, "<" * 10_000, "\u0301" * 20_000, "1" * 30_000)

anything = st.text(st.characters(codec=None), max_size=60)  # lone surrogates too
_pieces = st.sampled_from(NASTY) | st.sampled_from(("I", " am", " a student", ".", " ")) | st.text(max_size=8)
texts = st.one_of(
    st.lists(_pieces, max_size=6).map("".join),
    anything,
    st.sampled_from(("I am a student.", "The cat sat on the mat, and the dog saw the cat.")),
    st.sampled_from(LONG),
)

# Values where an index, a beam or a length is expected.
_numbers = st.one_of(
    st.integers(-5, 40),
    st.sampled_from((2**31, 2**63, -(2**63) - 1, 10**30)),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from((1.0, 0.5, -0.0, 1e308)),
)
junk = st.one_of(
    st.none(), st.booleans(), _numbers, st.sampled_from(("0", "1", "²", "mean", "", "-1", "0x1", "cross", "q")), anything,
    st.just([]), st.just({}), st.just([0]), st.just({"x": 0}), st.binary(max_size=3), st.just(10**5000), st.just((1,)),
)


def bad_index(count: int) -> st.SearchStrategy:
    """Everything but an int from 0 to count - 1."""
    return junk.filter(lambda value: not (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count))


def json_values(strings: st.SearchStrategy = anything) -> st.SearchStrategy:
    """Any value that JSON can say. NaN and infinities are not among them: the server's door refuses them (test_http.py)."""
    leaves = st.none() | st.booleans() | _numbers.filter(math.isfinite) | strings
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything, inner, max_size=4), max_leaves=8)


def mapping_of(known: dict[str, st.SearchStrategy]) -> st.SearchStrategy:
    """A mapping with all these keys as they should be, but for at most one, which is anything or missing: what gets furthest in."""

    def with_odd(whole: dict, odd: str | None, value: object) -> dict:
        if odd is None:
            return whole
        return {**whole, odd: value} if value != "missing" else {key: each for key, each in whole.items() if key != odd}

    odd = st.sampled_from((*[None] * (1 + len(known)), *known))
    return st.builds(with_odd, st.fixed_dictionaries(known), odd, st.just("missing") | json_values())
