/* Step by step, part 10: the walk. From one answer of the server to the list of steps, in the order in which this model takes them:
 * normalised before or after a sublayer, encoder or decoder, with the rest of its path in short. */
(() => {
  const {say, make, has} = atlas;
  const {step, both, sublayerOf, choiceButton, attentionSteps, streamPicture, topTokens, contextOf, cellContext} = atlas.steps;
  const {largest, isSines, number, bracketed, shape, percent, quoted, grouped} = atlas.steps;

  /* ---- into the model ---- */
  const entrance = (c) => {
    const {facts: f, token, position, before, after} = c;
    const vectors = [before, after].filter(Boolean).flatMap(({embedding, scaled, encoding, input}) => [embedding, scaled, encoding, input]);
    const scale = Math.max(...vectors.map(largest)); // one for all, or the picture of a sum would be none
    const params = {token: token.label.text, id: token.id, position, d: grouped(f.d_model), count: grouped(f.vocab_size)};
    const plain = f.embedding_scale === 1;
    const root = number(f.embedding_scale, f.embedding_scale % 1 ? 2 : 0);
    const out = shape(f.d_model);
    return [
      step(c, "token", {story: say(c.payload.side === "source" ? "steps.token.story" : "steps.token.story.read", params), out: "id"}),
      step(c, "embedding", {
        story: say(plain ? "steps.embedding.plain" : "steps.embedding.story", {...params, root}), out,
        parts: (sums) => [
          both(c, sums, say("steps.name.embedding"), (w) => w.embedding, {
            scale, stage: "embedding", tell: (value, index) => say("steps.sum.learned", {id: token.id, index, value: number(value)}),
          }),
          plain ? [] : both(c, sums, say("steps.name.scaled", {root}), (w) => w.scaled, {scale, stage: "scaled", example: true}),
        ],
      }),
      step(c, "position", {
        story: say(isSines(f, position, before.encoding) ? "steps.position.story" : "steps.position.own", params), out, asks: "position",
        parts: (sums) => [
          both(c, sums, say("steps.name.encoding", params), (w) => w.encoding, {scale, stage: "encoding"}),
          both(c, sums, say("steps.name.input"), (w) => w.input, {scale, stage: "input", example: true}),
        ],
      }),
      step(c, "stream", {
        story: say(`steps.stream.${["first", "one"][c.layer] ?? "story"}`, {layer: c.layer, before: `0–${c.layer - 1}`, layers: f.layers}),
        parts: () => [streamPicture(c)], out,
      }),
    ];
  };

  /* ---- what stands around every sublayer ---- */
  /* x: what a norm reads. */
  const levelLine = (c, x, {mean, variance}) => {
    const level = (x - mean) / Math.sqrt(variance + c.facts.eps);
    const root = `√(${number(variance)} + ${number(c.facts.eps, 5)})`;
    return [say("steps.sum.level", {sum: `(${number(x)} − ${bracketed(mean)}) / ${root} = ${number(level)}`})];
  };
  const levelNote = (c, {mean, variance}) =>
    make("p", "step-note deep", say("steps.norm.numbers", {mean: number(mean), variance: number(variance), eps: number(c.facts.eps, 5)}));
  const levelled = (c, sums, name) => {
    const sub = sublayerOf(name);
    const lead = (walk, i) => levelLine(c, (c.pre ? sub(walk).input : sub(walk).added)[i], sub(walk));
    return [
      both(c, sums, say("steps.name.normed"), (w) => (c.pre ? sub(w).normed : sub(w).after), {stage: "normed", key: name, sub: name, lead}),
      levelNote(c, sub(c.before)),
    ];
  };
  const copied = {stage: "copied", tell: (value) => say("steps.sum.copied", {value: number(value)})};
  const levelStep = (c, name) => step(c, "norm", {
    out: shape(c.facts.d_model),
    parts: (sums) => [both(c, sums, say("steps.name.stream"), (w) => sublayerOf(name)(w).input, copied), levelled(c, sums, name)],
  });
  const addStep = (c, name) => {
    const sub = sublayerOf(name);
    const {input, output, added} = sub(c.before);
    const scale = Math.max(...[input, output, added].map(largest));
    return step(c, "add", {
      title: c.pre ? "steps.add.title" : "steps.add.post.title", story: say(c.pre ? "steps.add.story" : "steps.add.post.story"),
      out: shape(c.facts.d_model),
      parts: (sums) => [
        both(c, sums, say("steps.name.stream"), (w) => sub(w).input, {scale, ...copied}),
        both(c, sums, say("steps.name.output"), (w) => sub(w).output, {scale, ...copied}),
        both(c, sums, say("steps.name.added"), (w) => sub(w).added, {scale, stage: "added", sub: name, example: true}),
        c.pre ? [] : levelled(c, sums, name),
      ],
    });
  };

  const feedForward = (c) => {
    const {facts: f, before: {feed_forward: {hidden}}} = c;
    const sizes = {d: grouped(f.d_model), hidden: grouped(f.d_ff)};
    const activation = `steps.activation.${f.activation}`;
    return [
      step(c, "hidden", {
        story: say("steps.hidden.story", {...sizes, activation: has(activation) ? say(activation) : f.activation}),
        out: shape(f.d_ff), asks: "hidden",
        parts: (sums) => [
          both(c, sums, say("steps.name.hidden"), (w) => w.feed_forward.hidden, {stage: "hidden", scale: largest(hidden)}),
          both(c, sums, say("steps.name.active"), (w) => w.feed_forward.active, {stage: "active", scale: largest(hidden), example: true}),
        ],
      }),
      step(c, "output", {
        params: sizes, out: shape(f.d_model),
        parts: (sums) => [both(c, sums, say("steps.name.ff_output"), (w) => sublayerOf("feed_forward")(w).output, {stage: "ff_output"})],
      }),
    ];
  };

  /* The decoder's other attention, which is not the chosen one, in short. */
  const KIND_OF = {self_attn: "decoder_self", cross_attn: "cross"};
  const otherAttention = (c, name) => step(c, "other", {
    title: `steps.other.${KIND_OF[name]}.title`, story: say(`steps.other.${KIND_OF[name]}`), out: shape(c.facts.d_model),
    parts: (sums) => [
      both(c, sums, say("steps.name.output"), (w) => sublayerOf(name)(w).output, {
        stage: "other", tell: (value) => say("steps.sum.other", {value: number(value)}),
      }),
      choiceButton(say("steps.other.open"), {kind: KIND_OF[name]}),
    ],
  });

  const sublayer = (c, name) => {
    const chosen = name === c.attention;
    const inner = chosen ? attentionSteps(c) : name === "feed_forward" ? feedForward(c) : [otherAttention(c, name)];
    const title = say(`steps.group.${chosen ? c.kind : KIND_OF[name] ?? name}`, {layer: c.layer});
    return {
      title: chosen ? say("steps.group.head", {title, head: c.head}) : title, kind: chosen ? c.kind : "", branch: true,
      steps: [...(c.pre ? [levelStep(c, name)] : []), ...inner, addStep(c, name)],
    };
  };

  /* ---- out of the model ---- */
  const nextToken = (c) => {
    const {facts: f, before: w, after} = c;
    return step(c, "logits", {
      story: say("steps.logits.story", {count: grouped(f.vocab_size), d: grouped(f.d_model)}), out: shape(f.vocab_size), asks: "logits",
      parts: (sums) => {
        const cell = (walk, stage, at) => ({
          title: say(`steps.top.spoken.${stage}`, {token: walk.top[at].label.text, value: number(walk.top[at][stage])}),
          context: cellContext(c, walk), stage, index: stage === "logit" ? walk.top[at].id : at, after: walk !== w,
        });
        const list = (walk, name) => topTokens({walk, name, written: walk.written, pick: (stage, at) => sums.show(cell(walk, stage, at))});
        sums.start(cell(w, "probability", 0));
        const pair = make("div", "pair");
        pair.append(list(w, after ? say("steps.with") : ""));
        if (after?.top) pair.append(list(after, say(`steps.without.${c.payload.without}.short`)));
        const {written} = w;
        const params = written && {token: quoted(written.label), rank: grouped(written.rank), probability: percent(written.probability)};
        return [
          pair, params && make("p", "step-note", say(written.rank === 1 ? "steps.logits.first" : "steps.logits.other", params)),
          w.never_written > 0 && make("p", "step-note deep", say("steps.logits.never", {count: grouped(w.never_written)})),
        ];
      },
    });
  };
  const memoryRow = (c) => step(c, "memory", {
    out: shape(c.keys.length, c.facts.d_model), parts: () => [choiceButton(say("steps.memory.open"), {kind: "cross"})],
  });
  const exit = (c) => {
    const {layers} = c.facts;
    const rest = layers - 1 - c.layer;
    const closing = c.pre
      ? {stage: "final", lead: (walk, i) => levelLine(c, walk.closing.input[i], walk.closing)}
      : {stage: "ended", tell: (value) => say("steps.sum.ended", {last: layers - 1, value: number(value)})};
    const later = step(c, "later", {
      story: say(rest > 1 ? "steps.later.story" : rest ? "steps.later.one" : "steps.later.none", {count: rest, last: layers - 1}),
      out: shape(c.facts.d_model),
      parts: (sums) => [
        both(c, sums, say(c.pre ? "steps.name.final" : "steps.name.final.post"), (walk) => walk.final, closing),
        c.pre && levelNote(c, c.before.closing),
      ],
    });
    return [later, c.before.top ? nextToken(c) : memoryRow(c)];
  };

  atlas.steps.walk = (payload, ask, asked) => {
    const c = contextOf(payload, ask, asked);
    return {context: c, groups: [
      {title: say("steps.group.in"), steps: entrance(c)},
      ...c.sublayers.map((name) => sublayer(c, name)),
      {title: say(c.before.top ? "steps.group.out" : "steps.group.out.encoder"), steps: exit(c)},
    ]};
  };
})();
