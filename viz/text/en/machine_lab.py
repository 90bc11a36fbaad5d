"""Machine: masks, training against generation, norms, heads, the division of scores, memory."""

TEXT: dict[str, str] = {
    "lab.question": "Why is it built so?",
    "lab.lead": "Six experiments on the loaded model and your sentence. Where something else is computed, it says so.",
    "lab.contents": "Experiments",
    "lab.old": "of an earlier sentence or choice",
    "lab.working": "computing …",
    "lab.waits": "Translate a sentence, and it appears here.",
    "error.masks_too_long": "Your sentence or its translation has {num_tokens} tokens, and masks are drawn for up to {limit}. A shorter sentence shows the same rule.",
    "error.second_too_long": "The second sentence or its translation has {num_tokens} tokens, and masks are drawn for up to {limit}. Write a shorter one.",
    "lab.masks.shorter": "Translate this one instead:",
    # masks
    "lab.masks.short": "Masks",
    "lab.masks.question": "Who may look at whom?",
    "lab.masks.lead": "Two sentences travel in one batch, so the shorter one is filled up with padding. "
    "A mask is added to the scores before softmax: 0 leaves a score as it is, −∞ makes its weight exactly zero (section 3.2.3).",
    "lab.masks.second": "Second sentence of the batch",
    "lab.masks.second.hint": "Write a second sentence, longer or shorter, to see the padding.",
    "lab.masks.encoder_self": "Padding. Every word sees all words of its sentence, earlier and later.",
    "lab.masks.decoder_self": "Causal. Every word sees itself and what stands before. Padding stands last, so this hides it too.",
    "lab.masks.cross": "Padding of the source, nothing causal: all of the source is read before the first word is written.",
    "lab.masks.shape": "held as [{shape}]",
    "lab.masks.shape.causal": "held as [{shape}], one for all sentences",
    "lab.masks.sentence": "{kind}, sentence {number}",
    "lab.masks.query": "looks",
    "lab.masks.rows": "Row: the word that looks; in the decoder the word read. Column: the word looked at. Rows of padding are computed and not used.",
    "lab.masks.dense": "Cells too small for numbers show them by colour: coloured is 0, grey is −∞.",
    "lab.masks.checked": "One pass over this batch, all layers and heads: the largest weight on a −∞ is {leak}. "
    "Padding changes nothing: from each sentence alone, no weight differs by more than {difference}.",
    "lab.masks.checked.one": "There is one sentence, so nothing is padded: −∞ stands in the causal mask alone. One pass, all layers and heads: the largest weight on a −∞ is {leak}.",
    # parallel against serial
    "lab.serial.short": "One pass or many",
    "lab.serial.question": "All at once, or word by word?",
    "lab.serial.lead": "In training the whole target is known, so one pass computes all rows, and the causal mask keeps each row from what follows. "
    "In writing, a word must be there before the next can read it: a pass for each (sections 3 and 3.2.3). The maps are the same.",
    "lab.serial.ways": "Three ways to the same maps",
    "lab.serial.steps": "Step by step",
    "lab.serial.parallel": "training: one pass",
    "lab.serial.cached": "writing, with cache",
    "lab.serial.uncached": "writing, without cache",
    "lab.serial.passes": "passes through the decoder",
    "lab.serial.computed": "rows computed",
    "lab.serial.operations": "operations",
    "lab.serial.time": "time, measured",
    "lab.serial.difference": "largest difference of a weight from training's pass",
    "lab.serial.reference": "–",
    "lab.serial.range": "{least} to {most}",
    "lab.serial.measured": "Times are measured on this server: the median of {repeats}, and the range. Operations are counted: those of all matrix products of the decoder.",
    "lab.serial.measured.once": "Times are measured on this server, once. Operations are counted: those of all matrix products of the decoder.",
    "lab.serial.again": "Measure again",
    "lab.serial.step": "step",
    "lab.serial.reads": "reads",
    "lab.serial.writes": "writes",
    "lab.serial.per_step": "operations of the step",
    "lab.serial.per_step.cached": "with cache",
    "lab.serial.per_step.uncached": "without",
    "lab.serial.row": "largest difference of the row",
    "lab.serial.note": "The cache keeps keys and values of all earlier words and of the source: a step computes one row and no more. "
    "The first step is longer, as it makes those of the source.",
    "lab.serial.cut": "Only the first {count} of {whole} tokens are written again.",
    # post-norm against pre-norm
    "lab.norms.short": "Norm last or first",
    "lab.norms.question": "Norm last, or norm first?",
    "lab.norms.lead": "The paper normalises after adding (post-norm, section 3.1). Most later models normalise what a sublayer reads (pre-norm). "
    "At the start of training post-norm’s gradients grow towards the output in the decoder: a large first step would break the last layers, "
    "so the learning rate has to warm up (Xiong et al. 2020).",
    "lab.norms.depth": "Layers",
    "lab.norms.depth.own": "as here: {encoder} + {decoder}",
    "lab.norms.post": "post-norm",
    "lab.norms.pre": "pre-norm",
    "lab.norms.encoder": "encoder: gradient norm of a layer’s second feed-forward matrix",
    "lab.norms.decoder": "decoder: the same",
    "lab.norms.layer": "layer",
    "lab.norms.growth": "Last layer against first. Decoder: post-norm × {post}, pre-norm × {pre}. Encoder: post-norm × {post_encoder}, pre-norm × {pre_encoder}. "
    "The loaded model is {norm}-norm.",
    "lab.norms.why": "In the encoder post-norm’s line stays about level: what a sublayer adds there comes from the encoder itself, so the gradient returns by both ways. "
    "In the decoder cross-attention adds what comes from the encoder. The norm after it scales the decoder’s own part down, layer by layer, and the rest of the gradient leaves for the encoder. "
    "Without what cross-attention adds, the decoder’s line is nearly level as well.",
    "lab.norms.how": "Small fresh models of width {width} at their random start, random tokens, a real backward pass. "
    "Lines are means of {seeds} seeds, dots the seeds. The loaded weights have no part in it.",
    "lab.norms.alt": "Gradient norms by layer at initialisation. In a decoder of {layers} layers the last layer’s is {post} times the first’s with post-norm, "
    "{pre} times with pre-norm. In the encoder it is {encoder} times with post-norm.",
    # many heads or one
    "lab.heads.short": "Many heads or one",
    "lab.heads.question": "Many heads, or one?",
    "lab.heads.lead": "Every head works on its own slice of the width. However many slices, the four maps keep their size "
    "and the scores their operations: many heads cost what one costs (section 3.2.2).",
    "lab.heads.place": "{kind} of one layer, {queries} rows × {keys} columns, width {d_model}",
    "lab.heads.heads": "heads",
    "lab.heads.split": "width of a head",
    "lab.heads.parameters": "parameters",
    "lab.heads.projections": "operations of the four maps",
    "lab.heads.scores": "operations of scores and sums",
    "lab.heads.weights": "weights",
    "lab.heads.own": "this model",
    "lab.heads.note": "Only the weights themselves grow in number: each head has a map of its own. That is what the heads are for.",
    # the division by the root of d_k
    "lab.scale.short": "√d_k",
    "lab.scale.question": "Why divide by √d_k?",
    "lab.scale.lead": "If the numbers of two vectors of width d_k are independent, with mean 0 and variance 1, their product has variance d_k (section 3.2.1, footnote 4). Undivided, such scores push softmax onto one key, "
    "where it no longer answers to them and its gradient nearly vanishes.",
    "lab.scale.plain": "not divided",
    "lab.scale.divided": "divided by √d_k",
    "lab.scale.dots": "lines: random vectors, {keys} keys · dots: the heads of L{layer} ({kind}) on this sentence, all at d_k = {head_dim}, side by side to be seen",
    "lab.scale.dots.none": "lines: random vectors, {keys} keys · in this sentence no row of L{layer} ({kind}) has a choice",
    "lab.scale.variance": "variance of the scores",
    "lab.scale.entropy": "entropy of the weights, as a share of the largest possible",
    "lab.scale.largest": "largest weight",
    "lab.scale.slope": "1 − Σ w²: how far softmax still answers to its scores",
    "lab.scale.width": "d_k, the width of a head",
    "lab.scale.table": "The chosen head with and without the division",
    "lab.scale.mean": "L{layer}, mean of {count} heads",
    "lab.scale.note": "The variance is that of all scores of a head’s map together; the other three are means over the rows that have a choice. A trained head has found its own spread, so its scores need not have variance 1. Nothing below the head is changed: "
    "its softmax alone is computed both ways. Step by step takes the division away everywhere.",
    "lab.scale.alt": "Four measures by width of a head, for random vectors. At width {width} the largest weight is {plain} on average if not divided, "
    "{divided} if divided.",
    # memory against length
    "lab.memory.short": "Length",
    "lab.memory.question": "What does length cost?",
    "lab.memory.lead": "Every word looks at every word, so the weights grow with the square of the length. In return all rows of a layer are computed at once, "
    "where a recurrent net takes a step for each word (section 4, table 1).",
    "lab.memory.bytes": "memory of all weights of all layers, one sentence",
    "lab.memory.steps": "steps of one layer that have to wait for each other",
    "lab.memory.recurrent": "recurrent layer",
    "lab.memory.attention": "self-attention layer",
    "lab.memory.length": "tokens on both sides",
    "lab.memory.mega": "MB",
    "lab.memory.table": "Memory of the weights by kind",
    "lab.memory.kind": "kind",
    "lab.memory.layers": "layers",
    "lab.memory.here": "one layer, this sentence",
    "lab.memory.here.all": "all layers",
    "lab.memory.far": "all layers, {length} tokens",
    "lab.memory.total": "together",
    "lab.memory.note": "Heads × rows × columns × 4 bytes (float32). The dotted line is this sentence. "
    "Fused kernels never store the weights; here they are stored because they are shown.",
    "lab.memory.alt": "Memory of the attention weights by length, growing with its square to {total} MB at {length} tokens; and serial steps: "
    "one per token in a recurrent layer, one in all in self-attention.",
}
