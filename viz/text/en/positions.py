"""Positions."""

TEXT = {
    "positions.question": "How does it know the order?",
    "positions.lead": "Attention itself does not see order: shuffle the words and the same weights come out, shuffled. "
    "So a fixed pattern of sines and cosines is added to every token, different at each place.",
    "positions.length": "Positions",
    "positions.tokens": "Name rows by this sentence's tokens",
    "positions.row": "row: a position",
    "positions.row.tokens": "row: a token of the sentence",
    "positions.column": "column: a dimension",
    "positions.axis.position": "position",
    "positions.hover.position": "position",
    "positions.hover.dimension": "dimension",
    "positions.hover.value": "value",
    "positions.hover.wavelength": "wavelength",
    "positions.sine": "sine",
    "positions.cosine": "cosine",
    "positions.unit": "positions",
    "positions.wave": "dimension {dimension} · {function} · wavelength {wavelength}",
    "positions.scale": "value",
    "positions.pairs": "Pairs of dimensions to draw",
    "positions.pairs.help": "Every pair is the sine and the cosine of one angle.",
    "positions.pair": "{first} and {second}",
    "positions.heatmap.label": "Positional encoding, position by dimension",
    "positions.waves.label": "Some dimensions as waves along the positions",
    "positions.heatmap.caption": "Each row is one position, each column one dimension. The left changes quickly from row to row, the right hardly at all: like the hands of many clocks.",
    "positions.heatmap.caption.halves": "Each row is one position, each column one dimension. The left half holds all sines, the right half all cosines; in both, waves get longer to the right.",
    "positions.waves.caption": "Low dimensions swing fast and tell neighbours apart; high dimensions swing slowly and tell far from near.",
    "positions.layout.interleaved": "This model's layout: interleaved. Sine and cosine take turns, dimension by dimension.",
    "positions.layout.halves": "This model's layout: halves. All sines first, then all cosines; the same numbers in another order.",
    "positions.more": "The wavelengths grow geometrically from 2π to nearly 10000·2π. The table is never trained. It is added to the token embeddings, "
    "which are first multiplied by √d_model so that the position does not drown the word. "
    "Because sine and cosine of one angle come as a pair, moving by k positions is the same rotation everywhere in the sentence.",
    "positions.missing": "There is no model loaded, so there is no table to show.",
}
