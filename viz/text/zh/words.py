"""Translate: the words and their ribbons."""

TEXT = {
    "words.label": "词语",
}
