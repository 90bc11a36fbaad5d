/* Step by step, part 9: the chosen attention, from query, key and value to what its heads hand on. */
(() => {
  const {say, make} = atlas;
  const {step, both, veil, cellContext, keyStrips, keyTable, largest, number, shape, softmax, percent} = atlas.steps;
  const {indexOfLargest, quoted, difference, labels, named, grouped} = atlas.steps;

  /* The word whose row it is: what is read in the encoder, what is written in the decoder. */
  const rowLabel = ({payload: {side, row}, token}) => named(labels(side === "source" ? side : "predicted"))[row] ?? token.label;

  /* One row of a table; its id is also the stage of its arithmetic. off: which cells are masked. */
  const lineOf = (c) => (id, values, {digits = 2, ...options} = {}) => ({
    id, name: say(`steps.row.${id}`, {root: c.facts.head_dim}), cells: [...values].map((value) => number(value, digits)),
    exact: [...values].map((value) => number(value)), ...options,
  });
  /* A table whose cells write their arithmetic; example: [stage, key], spelled out at once. */
  const tableOf = (c) => (sums, rows, title, {walk = c.before, example} = {}) => {
    const cell = (stage, j) => ({
      get title() {
        return say("steps.sum.of_key", {name: say(`steps.row.${stage}`, {root: c.facts.head_dim}), key: c.keys[j].text});
      },
      context: cellContext(c, walk), stage, index: j,
    });
    if (example) sums.start(cell(...example));
    return keyTable({
      labels: c.keys, rows, best: indexOfLargest(c.before.attention.weights), spoken: say(title),
      pick: (stage, j) => sums.show(cell(stage, j)),
      glance: (stage, j) => sums.glance(stage ? cell(stage, j) : null),
    });
  };

  /* What a strip of a key asks for: number i of what `name` names, of key j. */
  const pickOfKey = (c, sums, stage, name) => (i, j) => sums.show({
    get title() {
      return say("steps.strip.of_key", {name: say("steps.sum.of", {name, index: i}), key: c.keys[j].text});
    },
    context: cellContext(c, c.before), stage, index: i, key: j,
  });

  /* Whether what was taken away has left query and keys of this row as they are: then nothing before it has changed. */
  const alike = ({before: {attention: a}, after: {attention: b}}) =>
    ["q", "k"].every((name) => difference(a[name], b[name]) <= 1e-6 * (largest(a[name]) || 1));

  const qkv = (c) => {
    const {facts: {head_dim: size}, keys, kind, before: {attention: a}} = c;
    const strips = (sums, stage) => {
      const name = say(`steps.name.${stage}`);
      return keyStrips({name, labels: keys, matrix: a[stage], weights: a.weights, pick: pickOfKey(c, sums, stage, name)});
    };
    return step(c, "qkv", {
      story: say(`steps.qkv.story.${kind}`, {size}), asks: "qkv",
      out: `q ${shape(size)} · K ${shape(keys.length, size)} · V ${shape(keys.length, size)}`,
      parts: (sums) => {
        const pair = make("div", "pair");
        pair.append(strips(sums, "k"), strips(sums, "v"));
        return [both(c, sums, say("steps.name.q"), (w) => w.attention.q, {stage: "q"}), pair];
      },
    });
  };

  const scoresToWeights = (c) => {
    const {facts: {head_dim: size}, keys, kind, before: {attention: a}, after} = c;
    const [line, table] = [lineOf(c), tableOf(c)];
    const out = shape(keys.length);
    const best = indexOfLargest(a.weights);
    const off = a.masked;
    const hidden = off.lastIndexOf(true);
    const masks = off.map((is) => (is ? -Infinity : 0));
    const {top, powers, sum} = softmax(a.scores, off);
    const weights = ({weights: found, masked}) => line("weight", found, {digits: 4, tints: [...found], off: masked});
    const without = c.payload.without && `steps.without.${c.payload.without}`;
    /* All rows that lead to the weights: what comes of other queries and keys is to be traced. */
    const whole = ({attention: b, scale_scores: scaled}) => [
      line("product", b.products), ...(scaled ? [line("score", b.scores)] : []),
      line("power", softmax(b.scores, b.masked).powers, {digits: 4, off: b.masked, deep: true}), weights(b),
    ];
    return [
      step(c, "scores", {
        story: say("steps.scores.story", {size, root: number(Math.sqrt(size), 2)}), out, asks: "scores", gives: "qkv",
        parts: (sums) => [
          table(sums, [line("product", a.products), line("score", a.scores)], "steps.scores.title", {example: ["product", best]}),
        ],
      }),
      step(c, "mask", {
        told: kind === "decoder_self" ? {words: say("steps.mask.count", {count: off.filter(Boolean).length}), gives: "mask"} : undefined,
        story: say(`steps.mask.story.${kind}`), out, asks: "mask", gives: "qkv scores",
        parts: (sums) => [table(sums, [
          line("score", a.scores, {deep: true}),
          {...line("mask", masks, {off}), cells: masks.map((value) => number(value, 0))},
          line("masked", a.scores.map((score, j) => score + masks[j]), {off}),
        ], "steps.mask.title", {example: ["masked", hidden < 0 || keys[hidden].gives ? best : hidden]})],
      }),
      step(c, "softmax", {
        told: {
          words: say("steps.softmax.largest", {token: quoted(rowLabel(c)), key: quoted({text: keys[best].real}), share: percent(a.weights[best])}),
          gives: "qkv logits",
        },
        out, asks: "softmax", gives: "qkv",
        parts: (sums) => [
          table(sums, [line("power", powers, {digits: 4, off, deep: true}), weights(a)], "steps.softmax.title", {
            example: ["weight", best],
          }),
          make("p", "step-note deep", say("steps.softmax.numbers", {top: number(top, 2), sum: number(sum)})),
          after && make("p", "step-note", say("steps.softmax.without", {part: say(`${without}.short`)})),
          after && make("p", "step-note", say(alike(c) ? "steps.without.alike" : "steps.without.anew")),
          after && table(sums, whole(after), without, {walk: after}),
        ],
      }),
    ];
  };

  const headOut = (c) => {
    const {facts: f, keys, head, kind: tone, before: {attention: a}} = c;
    /* What each key puts into the sum: its value times its weight. */
    const weighted = Object.assign(a.v.map((value, at) => value * a.weights[Math.floor(at / f.head_dim)]), {shape: a.v.shape});
    return [
      step(c, "mix", {
        params: {size: f.head_dim}, out: shape(f.head_dim),
        parts: (sums) => [
          veil(keyStrips({
            name: say("steps.name.weighted"), labels: keys, matrix: weighted, weights: a.weights, weighted: true, tone,
            pick: pickOfKey(c, sums, "weighted", say("steps.name.weighted")),
            scale: Math.max(largest(weighted), largest(a.head_output)),
          }), "qkv"),
          both(c, sums, say("steps.name.head_output"), (w) => w.attention.head_output, {
            stage: "head_output", tone, scale: largest(weighted), example: true,
          }),
        ],
      }),
      step(c, "join", {
        story: say("steps.join.story", {heads: f.num_heads, size: f.head_dim, d: grouped(f.d_model), head}), out: shape(f.d_model),
        parts: (sums) => [
          both(c, sums, say("steps.name.joined"), (w) => w.attention.joined, {
            stage: "joined", span: {from: head * f.head_dim, to: (head + 1) * f.head_dim, tone},
            tell: (value, i) => say("steps.sum.joined", {
              value: number(value), head: Math.floor(i / f.head_dim), index: i % f.head_dim,
            }),
          }),
          both(c, sums, say("steps.name.projected"), (w) => w.attention.projected, {stage: "projected"}),
        ],
      }),
    ];
  };

  Object.assign(atlas.steps, {alike, attentionSteps: (c) => [qkv(c), ...scoresToWeights(c), ...headOut(c)]});
})();
