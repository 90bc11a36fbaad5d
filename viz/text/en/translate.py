"""Translate: the sentence and its translation."""

TEXT = {
    # Translate: the sentence
    "sentence.label": "English sentence",
    "sentence.hint": "English · type any sentence",
    "sentence.placeholder": "Type an English sentence…",
    # for a model that reads another language than English
    "sentence.label.other": "{language} sentence",
    "sentence.hint.other": "{language} · type any sentence",
    "sentence.placeholder.other": "Type a sentence in {language}…",
    "sentence.unknown": "the model's language",
    "examples.label": "or try",
    "target.label": "Translate into",
    "target.into": "into",
    "target.fra": "French",
    "target.cmn": "Chinese",
    "target.deu": "German",
    "target.spa": "Spanish",
    "beam.label": "Beam",
    "beam.help": "How many unfinished translations are kept while decoding. 1 is greedy: always the likeliest next token.",
    # Translate: the translation
    "result.label": "Translation",
    "result.empty": "The translation appears here as you stop typing.",
    "result.probability": "{token}: probability {value}",
    "result.end": "⟨end⟩",
    "result.unfinished": "cut off at the length limit",
    "result.case_changed": "the source's capitals read as small letters",
    "result.case_changed.help": "This model saw hardly a text in capitals while it was trained, so it is given small letters. Names and abbreviations lose their capitals, too.",
    "status.live": "live",
    "status.live.help": "Computed just now by the model on this server.",
    "status.recorded": "recorded",
    "status.recorded.help": "A real run of this model, saved with the page. Type anything and it becomes live.",
    "status.given": "given",
    "status.given.help": "The translation was given, not decoded: the model only says how likely it finds each token.",
    "status.log_prob": "log-probability {value}",
    "status.seconds": "{value} s",
    "status.belongs": "belongs to “{text}”",
    # Translate: a translation of one's own
    "given.summary": "Try your own translation",
    "given.help": "Write any translation. The model reads it word by word and shows how likely it finds each token and where it looks.",
    "given.label": "Your translation",
    # an example in the target language
    "given.placeholder.fra": "Je suis étudiante.",
    "given.placeholder.cmn": "我是一名学生。",
    "given.show": "Show its maps",
    "given.back": "Back to the model's own",
}
