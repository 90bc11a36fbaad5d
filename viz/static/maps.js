/* All maps of one translation, decoded, and what is in focus: see the functions below. */
