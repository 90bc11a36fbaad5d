"""Step by step."""

TEXT = {
    "steps.question": "How is one row computed?",
    "steps.lead": "One word of this sentence, through one layer and one head, with the model's own numbers: from its token to the next word's probability.",
}
