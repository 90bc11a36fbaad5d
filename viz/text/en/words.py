"""Translate: the words and their ribbons, and the card of a translated word."""

TEXT = {
    "words.label": "Words",
    "words.keys": "Above: the words looked at",
    "words.queries.encoder_self": "Below: the words that look",
    "words.queries.predicted": "Below: the words being written",
    "words.queries.read": "Below: the words just read",
    # names of words for screen readers
    "words.query": "{word}, row {row}: looks most at {partner}, {value}",
    "words.query.alone": "{word}, row {row}: all that it looks at is hidden",
    "words.key": "{word}, column {column}: looked at most by {partner}, {value}",
    "words.key.alone": "{word}, column {column}: no word can look at it",
    # what the picture says, in words
    "words.said.rest": "The wider a ribbon, the larger the weight. Point at a word to see its own.",
    "words.said.query": "{word} looks most at {partners}.",
    "words.said.key": "{word} is looked at most by {partners}.",
    "words.said.nobody": "Hardly any word looks at {word}.",
    "words.said.cell": "{query} looks at {key}: {value}.",
    "words.said.masked": "{query} cannot look at {key}: the causal mask hides later words.",
    "words.and": ", ",
    "words.left_out": "Ribbons under {least} are not drawn: {share} of the weight.",
    "words.left_out.most": "Drawn are the {count} strongest ribbons of {all}; the rest holds {share} of the weight.",
    "words.pinned": "Pinned: click it again or press Esc to let go.",
    "words.decimals": "Four decimals",
    # the card of a translated word
    "card.label": "{word}: probability {value}",
    "card.product": "{value}, the product of its pieces",
    "card.written": "written",
    "card.rank": "Number {rank} of the model's own choice.",
}
