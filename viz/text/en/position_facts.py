"""Positions: what the table of sines and cosines does."""

TEXT: dict[str, str] = {
    # wavelengths
    "positions.wavelengths.title": "Wavelengths",
    "positions.wavelengths.lead": "How many positions until a wave has come round? Each pair takes a little longer than the one before, always by the same factor.",
    "positions.wavelengths.longest": "longest text of this model: {count} positions",
    "positions.wavelengths.sentence": "this sentence: {count} tokens",
    "positions.wavelengths.said": "{pairs} pairs, from {shortest} to {longest} positions. {inside} of them come round within the {limit} positions of this model; "
    "{slow} are longer than {bound} and hardly move in any sentence.",
    "positions.wavelengths.said.sentence": "From the first to the last of this sentence's {tokens} tokens, {inside} pairs come round. The others only begin their wave.",
    "positions.wavelengths.more": "The wavelengths here are read off the model's own table, from the angle between its first two rows. They lie on a straight line because the axis is logarithmic: "
    "equal factors are equal steps (Vaswani et al. 2017, section 3.5). A low dimension is a fast wave; some pictures on the web have it the other way round.",
    "alt.wavelengths": "Wavelength of each of {dimensions} dimensions on a logarithmic axis, from {shortest} to {longest} positions",
    # distance
    "positions.distance.title": "Near and far",
    "positions.distance.lead": "Multiply the rows of two places, number by number, and add up: how alike are they, by how far they lie apart? All rows have one length, so the cosine drawn is this product divided by d_model/2, everywhere the same.",
    "positions.distance.axis": "distance k",
    "positions.distance.cosine": "cosine",
    "positions.distance.dot": "dot product",
    "positions.distance.first": "rises for the first time: k = {k}",
    "positions.distance.pair": "pair",
    "positions.distance.change": "change",
    "positions.distance.step": "From distance {before} to {after}, pair by pair; all together {sum}",
    "positions.distance.row": "row: a position p",
    "positions.distance.column": "column: a position q",
    "positions.distance.choose": "Step to distance",
    "positions.distance.back": "The first rise",
    "positions.distance.steps.label": "One step of the dot product, pair by pair",
    "positions.distance.matrix.label": "Every position with every other",
    "positions.distance.said": "Places nearby are alike, places far away less so. To the left it is the same as to the right: the product tells how far, not in which direction. "
    "And it is the same wherever one stands: over all {limit} positions it differs by at most {spread}, which is rounding.",
    "positions.distance.said.first": "But it does not always fall: at distance {first} it rises for the first time. The pairs that are coming round by then "
    "gain more than all others lose. With the paper's {paper_width} dimensions the same formula first rises at {paper} (computed here). The bars show who gains (ochre) and who loses (violet). All stretches that rise are violet in the curve.",
    "positions.distance.said.none": "Within the positions of this model it never rises again.",
    "positions.distance.more": "Each pair adds cos(k · its angle), so the whole is a sum of cosines of all speeds. At distance 0 all are 1, together half of d_model. "
    "That similarity always falls with distance is often said, and wrong. Direction is not lost for a head: W_Q and W_K can turn one side before the product is taken.",
    "alt.similarity": "Cosine between two rows of the table by their distance, from {last} to the left to {last} to the right: symmetric, 1 at distance 0, {near} at 1, {far} at {last}; first rise at {first}",
    "alt.similarity_matrix": "Cosine of every two of the first {rows} positions: bright along the diagonal, in bands beside it",
    # clocks
    "positions.clocks.title": "Clock hands",
    "positions.clocks.lead": "Sine and cosine of one angle are the tip of a hand. Every pair is a clock, each slower than the one before, and all of them together tell the position.",
    "positions.clocks.p": "Position p",
    "positions.clocks.k": "Moved by k",
    "positions.clocks.play": "Play",
    "positions.clocks.pause": "Pause",
    "positions.clocks.key": "Full hand: position p. Dashed hand: position p + k. Ochre is the sine, how far right; violet the cosine, how far up. These two numbers stand in the table.",
    "positions.clocks.sine": "sin",
    "positions.clocks.cosine": "cos",
    "positions.clocks.wave": "once in {long}",
    "positions.clocks.label": "Dimensions {first} and {second} at position {p}: sine {sine}, cosine {cosine}",
    "positions.turn.title": "Moving is turning",
    "positions.turn.lead": "From the full hand to the dashed one it is the same angle wherever p is. So one matrix, the same for all positions, moves everything by k: a 2 × 2 rotation for each pair, and zeros.",
    "positions.turn.dimension": "dim.",
    "positions.turn.difference": "difference",
    "positions.turn.caption": "M for k = {k}: {dims} of its {d_model} rows and columns, and the same dimensions at p = {p} and p + k = {q}",
    "positions.turn.said": "Over all positions p from 0 to {last} and all {d_model} dimensions, Mₖ PE(p) and PE(p+k) differ by at most {residual}: the table holds 32-bit numbers.",
    "positions.turn.more": "Because moving is a linear map, a head can learn to look k tokens away: if W_Q and W_K together hold this rotation, the score is highest there, wherever the query stands. "
    "That is why the authors chose sines with their cosines (Vaswani et al. 2017, section 3.5).",
    # other schemes
    "positions.schemes.title": "Other ways",
    "positions.schemes.lead": "Adding sines at the start is one answer of several. What does each do to a score when nothing but the distance between query and key changes?",
    "positions.schemes.distance": "distance between query and key",
    "positions.schemes.score": "change of the score",
    "positions.schemes.added.line": "added sines, this model",
    "positions.schemes.rotary.line": "RoPE, d_k = {head_dim}",
    "positions.schemes.learned.line": "learned, a small model",
    "positions.schemes.alibi.line": "ALiBi, head {head}: {slope}",
    "positions.schemes.caption": "All begin at 0. A score lower by 1 is a weight lower by a factor of e, about 2.7. Each thin line is one head of ALiBi with its slope.",
    "positions.schemes.said": "RoPE turns a query and a key that are alike, their numbers of variance one, with this model's d_k = {head_dim}; ALiBi has its {num_heads} heads. "
    "RoPE's curve is the same at every place of this model's {limit} positions, within {spread}.",
    "positions.schemes.said.odd": "ALiBi has this model's {num_heads} heads. RoPE turns numbers in pairs: with d_k = {head_dim} there is none.",
    "positions.schemes.said.learned": "Learned: a small model ({encoder} + {decoder} layers, {wide} wide) was trained with a table for this picture, on {tokens} target tokens (validation loss {loss}). "
    "The line is the mean over its first {places} places, those that at least {texts} training texts reached; the band runs from the lowest to the highest of them. "
    "Its rows are {norm} long on average, where sines of that width are {sines}. A table of this model would have {limit} rows of {d_model} numbers.",
    "positions.schemes.said.unlearned": "The trained table that belongs here cannot be read, so learned positions have no curve. A table of this model would have {limit} rows of {d_model} numbers.",
    "positions.schemes.where": "acts on",
    "positions.schemes.parameters": "parameters here",
    "positions.schemes.sees": "what a score can tell",
    "positions.schemes.beyond": "past the longest text",
    "positions.schemes.added": "Added sines",
    "positions.schemes.added.where": "the embeddings, once",
    "positions.schemes.added.sees": "both places, through W_Q and W_K",
    "positions.schemes.added.beyond": "the formula goes on, untrained",
    "positions.schemes.learned": "Learned",
    "positions.schemes.learned.where": "the embeddings, once",
    "positions.schemes.learned.sees": "both places, through W_Q and W_K",
    "positions.schemes.learned.beyond": "there is no row",
    "positions.schemes.rotary": "RoPE",
    "positions.schemes.rotary.where": "q and k, in every layer",
    "positions.schemes.rotary.sees": "the distance and its direction",
    "positions.schemes.rotary.beyond": "the formula goes on, untrained",
    "positions.schemes.alibi": "ALiBi",
    "positions.schemes.alibi.where": "the scores, in every layer",
    "positions.schemes.alibi.sees": "the distance",
    "positions.schemes.alibi.beyond": "made for it",
    "positions.schemes.more": "For the added sines the curve is PE(p) · PE(p+k) / √d_model, as a head of the whole width would see it with nothing changed by W_Q and W_K; "
    "real heads make other curves of it. The learned rows are not of one length, so looking k ahead and k back differ; drawn is the mean of both, −|PE(p) − PE(p+k)|² / (2 √d_model). RoPE turns q and k by an angle that grows with the position (Su et al. 2021); ALiBi takes slope × distance from every score "
    "(Press et al. 2022). Both leave the values v alone.",
    "positions.schemes.more.learned": "The authors of the Transformer tried learned positions, too, with nearly the same result (Vaswani et al. 2017, table 3, row E), and kept the sines, "
    "which may go on past the lengths of training (section 3.5).",
    "alt.schemes": "Change of a score by distance, from 0 to {last}: added sines, RoPE, learned positions and the {heads} slopes of ALiBi",
    # added against joined
    "positions.join.title": "Why added?",
    "positions.join.lead": "The position could also be set beside the embedding, as more numbers of a longer vector. What would that cost?",
    "positions.join.parameters": "parameters",
    "positions.join.operations": "operations",
    "positions.join.added": "Added, as it is",
    "positions.join.added.help": "Embedding and position become one vector, {d_model} wide. Nothing has to be learned for it.",
    "positions.join.mapped": "Joined and mapped back",
    "positions.join.mapped.help": "Side by side they are {double} wide; a matrix for each stack brings them back to {d_model}.",
    "positions.join.wide": "Joined and left so",
    "positions.join.wide.help": "All layers work {width} wide, with d_ff left at {d_ff}, and the output needs a matrix of its own.",
    "positions.join.said": "Counted for the whole model, in one pass over this sentence's {src_len} source and {tgt_len} target tokens. The position that is joined is as wide as the one that is added.",
    "positions.join.said.none": "Counted for the whole model, in one pass over {src_len} source and {tgt_len} target tokens, as no sentence is translated yet. "
    "The position that is joined is as wide as the one that is added.",
    "positions.join.more": "Linear maps come next anyway: q, k and v. A map of the joined vector is one map of the word plus another of the place. Adding first is the case in which both are the same: "
    "it costs nothing, and training has to keep word and place apart within one space. Operations: 2 n m p for a product of [n, m] and [m, p], and one for each number to which a position is added.",
}
