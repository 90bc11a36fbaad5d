/* Step by step, part 8: the walk itself. From one answer of the server to the list of steps, in the order in which this model takes them:
 * normalised before or after a sublayer, encoder or decoder, with the rest of its path in short. */
(() => {
  const {say, make, has} = atlas;
  const {strip, keyStrips, keyTable, sumArea, formula, question, streamPicture, topTokens} = atlas.steps;
  const {largest, difference, number, shape, softmax, percent, indexOfLargest, quoted, grouped} = atlas.steps;

  /* What every step needs. ask(cell, then): a cell from the server. */
  const contextOf = (payload, ask, guess) => {
    const {facts, kind, before, after, token} = payload;
    const keys = atlas.steps.labels(payload.key_side);
    return {
      payload, facts, kind, before, after, keys, token, ask, guess, position: payload.position, layer: payload.layer, head: payload.head,
      pre: facts.norm === "pre", writes: Boolean(before.top),
      attention: before.attention.sublayer, sublayers: before.sublayers.map(({name}) => name), tone: kind,
    };
  };

  /* ---- one step: number, title, what happens, pictures, arithmetic, formula, and the shape that leaves it ---- */
  const PAPER = {
    token: "3.4", embedding: "3.4", position: "3.5", norm: "3.1", add: "3.1", qkv: "3.2.2", scores: "3.2.1", mask: "3.2.3", softmax: "3.2.1", mix: "3.2.1",
    join: "3.2.2", other: "3.2.3", hidden: "3.3", output: "3.3", logits: "3.4",
  };
  const step = (c, id, {title = `steps.${id}.title`, story, params = {}, parts = () => [], out = "", code = id, asks = ""}) => {
    const section = make("section", "step");
    const head = make("div", "step-head");
    const body = make("div", "step-parts");
    section.dataset.step = id;
    head.append(make("h3", "", say(title, params)));
    if (PAPER[id]) {
      const paper = make("span", "step-paper", `§ ${PAPER[id]}`);
      paper.title = say("steps.paper", {section: PAPER[id]});
      head.append(paper);
    }
    const sums = sumArea(c.ask);
    const made = parts(sums).flat().filter(Boolean);
    body.append(...made);
    if (body.querySelector("[data-asks], .key-table button, .top button")) body.append(sums.node);
    const card = asks ? question(asks, {...c, scaled: c.before.scale_scores}, section, c.guess) : null;
    section.append(head, ...[].concat(story ?? say(`steps.${id}.story`, params)).map((line) => make("p", "step-story", line)));
    if (card) section.append(card);
    section.append(body, ...formula(code));
    const arrow = make("p", "step-out");
    arrow.append(make("span", "", out));
    if (out) section.append(arrow);
    return section;
  };

  /* A vector before, and below it the same without the part that was taken away, where that changes it; one scale for both. */
  const both = (c, sums, name, get, {stage, index = (i) => i, key = null, sub, scale, span, tone, lead} = {}) => {
    const walks = [[c.before, false], [c.after, true]].filter(([walk]) => walk).map(([walk, after]) => ({walk, after, values: get(walk)}));
    const [first, second] = walks;
    const most = Math.max(scale ?? 0, ...walks.map(({values}) => largest(values)));
    const shown = second && difference(first.values, second.values) > 1e-6 * (most || 1) ? walks : [first];
    return shown.map(({walk, after, values}) => {
      const title = after ? say("steps.name.without", {name, part: say(`steps.without.${c.payload.without}.short`)}) : name;
      const show = (i) => sums.show(say("steps.sum.of", {name: title, index: i}), cellContext(c, walk, sub, lead && (() => lead(walk, i))), {stage, index: index(i), key, after});
      const node = strip({name: title, values, scale: most, span, tone, pick: stage && show});
      node.classList.toggle("after", after);
      node.dataset.strip = stage ?? "";
      return node;
    });
  };
  const cellContext = (c, walk, sub, lead) => ({
    w: walk, f: {...c.facts, embedding_scale: walk.embedding_scale}, position: c.position, scaled: walk.scale_scores, sub: sub && walk.sublayers.find(({name}) => name === sub), lead,
  });
  const sublayerOf = (name) => (walk) => walk.sublayers.find((sub) => sub.name === name);

  /* ---- into the model ---- */
  const entrance = (c) => {
    const {facts: f, token} = c;
    const source = c.payload.side === "source";
    const scale = Math.max(...[c.before, c.after].filter(Boolean).flatMap(({embedding, scaled, encoding, input}) => [embedding, scaled, encoding, input].map(largest)));
    const common = {token: token.label.text, id: grouped(token.id), position: c.position, d: f.d_model};
    const root = number(f.embedding_scale, f.embedding_scale % 1 ? 2 : 0);
    const plain = f.embedding_scale === 1;
    return [
      step(c, "token", {story: say(source ? "steps.token.story" : "steps.token.story.read", {...common, count: grouped(f.vocab_size)}), params: common, out: "id"}),
      step(c, "embedding", {
        story: say(plain ? "steps.embedding.plain" : "steps.embedding.story", {...common, root}), params: common, out: shape(f.d_model), code: plain ? "embedding_plain" : "embedding",
        parts: (sums) => [
          both(c, sums, say("steps.name.embedding"), (w) => w.embedding, {scale}),
          plain ? [] : both(c, sums, say("steps.name.scaled", {root}), (w) => w.scaled, {scale, stage: "scaled"}),
        ],
      }),
      step(c, "position", {
        params: common, out: shape(f.d_model), code: f.layout === "halves" ? "position_halves" : "position", asks: "position",
        parts: (sums) => [
          both(c, sums, say("steps.name.encoding", common), (w) => w.encoding, {scale, stage: "encoding"}),
          both(c, sums, say("steps.name.input"), (w) => w.input, {scale, stage: "input"}),
        ],
      }),
      step(c, "stream", {
        story: say(c.layer ? "steps.stream.story" : "steps.stream.first", {layer: c.layer, before: c.layer === 1 ? "0" : `0–${c.layer - 1}`, layers: f.layers}),
        parts: () => [streamPicture(c)], out: shape(f.d_model), code: "",
      }),
    ];
  };

  /* ---- parts of a sublayer ---- */
  const normStep = (c, name, where) => step(c, "norm", {
    title: `steps.norm.${where}.title`, story: say(`steps.norm.${where}.story`), out: shape(c.facts.d_model), code: where === "after" ? "add_post" : "norm",
    parts: (sums) => normStrips(c, sums, name, where),
  });
  const normLead = (c, from, sub) => (walk, i) => {
    const of = sub(walk);
    const level = (from(of)[i] - of.mean) / Math.sqrt(of.variance + c.facts.eps);
    return [say("steps.sum.level", {sum: `(${number(from(of)[i])} − ${atlas.steps.bracketed(of.mean)}) / √(${number(of.variance)} + ${number(c.facts.eps)}) = ${number(level)}`})];
  };
  const normStrips = (c, sums, name, where) => {
    const sub = sublayerOf(name);
    const pre = where === "before";
    const from = (of) => (pre ? of.input : of.added);
    const numbers = sub(c.before);
    return [
      both(c, sums, say(pre ? "steps.name.stream" : "steps.name.added"), (w) => from(sub(w)), pre ? {} : {stage: "added", sub: name}),
      both(c, sums, say("steps.name.normed"), (w) => (pre ? sub(w).normed : sub(w).after), {stage: "normed", key: name, sub: name, lead: normLead(c, from, sub)}),
      make("p", "step-note deep", say("steps.norm.numbers", {mean: number(numbers.mean), variance: number(numbers.variance), eps: number(c.facts.eps, 5)})),
    ];
  };
  const addStep = (c, name) => {
    const sub = sublayerOf(name);
    return step(c, "add", {
      title: c.pre ? "steps.add.title" : "steps.add.post.title", story: say(c.pre ? "steps.add.story" : "steps.add.post.story"), out: shape(c.facts.d_model),
      code: c.pre ? "add_pre" : "add_post",
      parts: (sums) => {
        const scale = Math.max(...[sub(c.before)].flatMap(({input, output, added}) => [input, output, added].map(largest)));
        return [
          both(c, sums, say("steps.name.stream"), (w) => sub(w).input, {scale}),
          both(c, sums, say("steps.name.output"), (w) => sub(w).output, {scale}),
          c.pre ? both(c, sums, say("steps.name.added"), (w) => sub(w).added, {scale, stage: "added", sub: name}) : normStrips(c, sums, name, "after"),
        ];
      },
    });
  };

  /* ---- attention, the chosen one ---- */
  const attention = (c) => {
    const {facts: f, keys, kind, before: {attention: a}, after} = c;
    const count = keys.length;
    const [from, to] = [c.head * f.head_dim, (c.head + 1) * f.head_dim];
    const pickKey = (sums, after_ = false) => (stage, j) => sums.show(
      say("steps.sum.of_key", {name: say(`steps.row.${stage}`, {root: f.head_dim}), key: keys[j].text}),
      cellContext(c, after_ ? after : c.before), {stage, index: j, key: null, after: after_},
    );
    const text = (values, digits = 2) => [...values].map((value) => number(value, digits));
    const row = (id, values, options = {}) => ({
      id, name: say(`steps.row.${id}`, {root: f.head_dim}), cells: text(values, options.digits), exact: text(values, 4), off: a.masked.slice(), ...options,
    });
    const {top, powers, sum} = softmax(a.scores, a.masked);
    const masks = a.masked.map((hidden) => (hidden ? -Infinity : 0));
    const masked = a.scores.map((score, j) => score + masks[j]);
    const best = indexOfLargest(a.weights);
    const table = (sums, rows, spoken) => keyTable({labels: keys, rows, pick: pickKey(sums), spoken: say(spoken)});
    const cell = (sums, stage) => (i, j) => sums.show(
      say("steps.strip.of_key", {name: say("steps.sum.of", {name: say(`steps.name.${stage}`), index: i}), key: keys[j].text}),
      cellContext(c, c.before), {stage, index: i, key: j, after: false},
    );
    return [
      step(c, "qkv", {
        story: say(`steps.qkv.story.${kind}`, {size: f.head_dim}), out: `q ${shape(f.head_dim)} · K ${shape(count, f.head_dim)} · V ${shape(count, f.head_dim)}`,
        code: kind === "cross" ? "qkv_cross" : "qkv_self", asks: "qkv",
        parts: (sums) => {
          const pair = make("div", "pair");
          pair.append(
            keyStrips({name: say("steps.name.k"), labels: keys, matrix: a.k, tone: "muted", weights: a.weights, pick: cell(sums, "k")}),
            keyStrips({name: say("steps.name.v"), labels: keys, matrix: a.v, tone: "muted", weights: a.weights, pick: cell(sums, "v")}),
          );
          return [both(c, sums, say("steps.name.q"), (w) => w.attention.q, {stage: "q"}), pair];
        },
      }),
      step(c, "scores", {
        story: say("steps.scores.story", {size: f.head_dim, root: number(Math.sqrt(f.head_dim), 2)}), out: shape(count), asks: "scores",
        parts: (sums) => [table(sums, [row("product", a.products, {off: []}), row("score", a.scores, {off: []})], "steps.scores.title")],
      }),
      step(c, "mask", {
        story: say(`steps.mask.story.${kind}`, {count: a.masked.filter(Boolean).length}), out: shape(count), asks: "mask",
        parts: (sums) => [
          table(sums, [row("score", a.scores, {deep: true, off: []}), {...row("mask", masks, {digits: 0}), cells: masks.map((value) => number(value, 0))}, row("masked", masked)],
            "steps.mask.title"),
        ],
      }),
      step(c, "softmax", {
        story: say("steps.softmax.story", {token: quoted(rowLabel(c)), key: quoted(keys[best]), share: percent(a.weights[best])}), out: shape(count), asks: "softmax",
        parts: (sums) => [
          table(sums, [row("power", powers, {deep: true, digits: 4}), row("weight", a.weights, {tints: [...a.weights]})], "steps.softmax.title"),
          make("p", "step-note deep", say("steps.softmax.numbers", {top: number(top, 2), sum: number(sum)})),
          after && make("p", "step-note", say("steps.softmax.without", {part: say(`steps.without.${c.payload.without}.short`)})),
          after && keyTable({
            labels: keys, spoken: say(`steps.without.${c.payload.without}`), pick: pickKey(sums, true),
            rows: [row("weight", after.attention.weights, {tints: [...after.attention.weights], off: after.attention.masked.slice()})],
          }),
        ],
      }),
      step(c, "mix", {
        params: {size: f.head_dim}, out: shape(f.head_dim),
        parts: (sums) => [
          keyStrips({name: say("steps.name.weighted"), labels: keys.map((key, j) => ({...key, text: `${number(a.weights[j], 2)} × ${key.text}`})), matrix: a.v, tone: c.tone, weights: a.weights}),
          both(c, sums, say("steps.name.head_output"), (w) => w.attention.head_output, {stage: "head_output", tone: c.tone}),
        ],
      }),
      step(c, "join", {
        story: say("steps.join.story", {heads: f.num_heads, size: f.head_dim, d: f.d_model, head: c.head}), out: shape(f.d_model),
        parts: (sums) => [
          both(c, sums, say("steps.name.joined", {head: c.head}), (w) => w.attention.joined, {span: {from, to, tone: c.tone}}),
          both(c, sums, say("steps.name.projected"), (w) => w.attention.projected, {stage: "projected"}),
        ],
      }),
    ];
  };
  /* The word whose row it is: what is read in the encoder, what is written in the decoder. */
  const rowLabel = (c) => {
    if (c.payload.side === "source") return c.token.label;
    return atlas.steps.labels("predicted")[c.payload.row] ?? c.token.label;
  };

  const feedForward = (c) => {
    const {facts: f} = c;
    return [
      step(c, "hidden", {
        story: say("steps.hidden.story", {d: grouped(f.d_model), hidden: grouped(f.d_ff), activation: has(`steps.activation.${f.activation}`) ? say(`steps.activation.${f.activation}`) : ""}),
        out: shape(f.d_ff), asks: "hidden",
        parts: (sums) => {
          const scale = largest(c.before.feed_forward.hidden);
          return [
            both(c, sums, say("steps.name.hidden"), (w) => w.feed_forward.hidden, {stage: "hidden", scale}),
            both(c, sums, say("steps.name.active"), (w) => w.feed_forward.active, {stage: "active", scale}),
          ];
        },
      }),
      step(c, "output", {
        params: {d: grouped(f.d_model), hidden: grouped(f.d_ff)}, out: shape(f.d_model), code: "",
        parts: (sums) => [both(c, sums, say("steps.name.ff_output"), (w) => sublayerOf("feed_forward")(w).output, {stage: "ff_output"})],
      }),
    ];
  };

  /* The decoder's other attention, which is not the chosen one. */
  const otherAttention = (c, name) => {
    const kind = name === "cross_attn" ? "cross" : "decoder_self";
    const open = make("button", "quiet", say("steps.other.open"));
    open.type = "button";
    open.addEventListener("click", () => atlas.set({kind}));
    return step(c, "other", {
      title: `steps.other.${kind}.title`, story: say(`steps.other.${kind}`), out: shape(c.facts.d_model), code: "",
      parts: (sums) => [both(c, sums, say("steps.name.output"), (w) => sublayerOf(name)(w).output), open],
    });
  };

  const sublayer = (c, name) => {
    const inner = name === c.attention ? attention(c) : name === "feed_forward" ? feedForward(c) : otherAttention(c, name);
    return {
      title: say(`steps.group.${name === c.attention ? c.kind : name === "cross_attn" ? "cross" : name === "self_attn" ? "decoder_self" : name}`, {layer: c.layer, head: c.head}),
      branch: true, steps: [c.pre ? normStep(c, name, "before") : [], inner, addStep(c, name)].flat(),
    };
  };

  /* ---- out of the model ---- */
  const exit = (c) => {
    const {facts: f, before: w} = c;
    const rest = f.layers - 1 - c.layer;
    const later = step(c, "later", {
      story: say(rest ? "steps.later.story" : "steps.later.none", {count: rest, last: f.layers - 1}), out: shape(f.d_model), code: "",
      parts: (sums) => [both(c, sums, say(c.pre ? "steps.name.final" : "steps.name.final.post"), (walk) => walk.final)],
    });
    if (!w.top) return [later, memoryStep(c)];
    return [later, step(c, "logits", {
      story: say("steps.logits.story", {count: grouped(f.vocab_size), d: f.d_model}), out: shape(grouped(f.vocab_size)), asks: "logits",
      parts: (sums) => {
        const pick = (walk, after) => (stage, at) => {
          const {id, label} = walk.top[at];
          const title = say(`steps.top.spoken.${stage}`, {token: label.text, value: number(walk.top[at][stage])});
          sums.show(title, cellContext(c, walk), stage === "logit" ? {stage, index: id, key: null, after} : {stage, index: at});
        };
        const lists = [topTokens({walk: w, written: w.written, pick: pick(w, false), name: c.after ? say("steps.with") : ""})];
        if (c.after?.top) lists.push(topTokens({walk: c.after, written: c.after.written, pick: pick(c.after, true), name: say(`steps.without.${c.payload.without}.short`)}));
        const pair = make("div", "pair");
        pair.append(...lists);
        return [pair, w.written && make("p", "step-note", say(w.written.rank === 1 ? "steps.logits.first" : "steps.logits.other", {
          token: quoted(w.written.label), rank: grouped(w.written.rank), probability: percent(w.written.probability)}))];
      },
    })];
  };
  const memoryStep = (c) => step(c, "memory", {
    story: say("steps.memory.story"), out: shape(c.keys.length, c.facts.d_model),
    parts: () => {
      const open = make("button", "quiet", say("steps.memory.open"));
      open.type = "button";
      open.addEventListener("click", () => atlas.set({kind: "cross"}));
      return [open];
    },
  });

  atlas.steps.walk = (payload, ask, guess) => {
    const c = contextOf(payload, ask, guess);
    return {context: c, groups: [
      {title: say("steps.group.in"), steps: entrance(c)},
      ...c.sublayers.map((name) => sublayer(c, name)),
      {title: say(c.writes ? "steps.group.out" : "steps.group.out.encoder"), steps: exit(c)},
    ]};
  };
})();
