"""Translate: the words and their ribbons."""

TEXT = {
    "words.label": "Words",
}
