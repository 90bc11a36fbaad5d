"""English. Keys are the same in every language (a test holds it), one table per screen."""

from viz.text.en import errors, heads, maps, models, page, positions, share, translate, words

_TABLES = (page, translate, models, maps, words, heads, share, positions, errors)

TEXT = {key: text for table in _TABLES for key, text in table.TEXT.items()}
