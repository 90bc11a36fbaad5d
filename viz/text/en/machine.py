"""Machine."""

TEXT = {
    "machine.question": "How is it built?",
    "machine.lead": "The whole encoder-decoder as it is loaded, with the shapes that this sentence gives it and the parameters of every part.",
}
