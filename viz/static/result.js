/* The translation: its words and their probabilities. */
