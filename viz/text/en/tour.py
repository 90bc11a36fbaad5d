"""The first visit's tour."""

TEXT: dict[str, str] = {
    "tour.replay": "Tour",
    "tour.replay.help": "Five stops through this page",
    "tour.label": "Tour of this page",
    "tour.invite": "First time here?",
    "tour.invite.text": "Five stops, one minute: what you can type, see and click.",
    "tour.start": "Show me around",
    "tour.decline": "Not now",
    "tour.count": "{stop} of {stops}",
    "tour.back": "Back",
    "tour.next": "Next",
    "tour.end": "Done",
    "tour.skip": "End the tour",
    "tour.1": "Write a sentence",
    "tour.1.text": "Type any sentence here. It is translated as soon as you stop typing, by a real model, and every picture below follows.",
    "tour.2": "The translation, word by word",
    "tour.2.text": "The bar under a word is the probability that the model gave it. Point at a word, and you see what it would have written instead.",
    "tour.3": "Where it looked",
    "tour.3.text": "To write a word, the model weighs all words that it can see. Thick ribbons and dark cells are large weights; every row adds up to 1. "
    "Point at a word: its row lights up everywhere. A click keeps it.",
    "tour.4": "Many heads, many views",
    "tour.4.text": "Each small picture is one attention head of the same sentence. Click one, or move with the arrow keys. "
    "Some follow the meaning, some just look at the word before.",
    "tour.5": "Go deeper",
    "tour.5.text": "Heads compares all of them. Step by step computes one row before your eyes. Positions shows how the model knows the order, "
    "and Machine how it is built. The address always holds what you see, so you can send it to others.",
}
