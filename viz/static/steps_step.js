/* Step by step, part 8: what one step is made of. Number, title, what happens in words, a question, pictures, the arithmetic of a cell, the
 * formula, and the shape that leaves it. */
(() => {
  const {say, make} = atlas;
  const {strip, sumArea, formula, question, largest, difference, indexOfLargest, labels, named, distinct, disguised} = atlas.steps;

  /* Sections of Vaswani et al. 2017. */
  const PAPER = {
    token: "3.4", embedding: "3.4", position: "3.5", norm: "3.1", add: "3.1",
    qkv: "3.2.2", scores: "3.2.1", mask: "3.2.3", softmax: "3.2.1", mix: "3.2.1", join: "3.2.2",
    other: "3.2.3", hidden: "3.3", output: "3.3", logits: "3.4",
  };

  /* The keys, and what they are called at this moment. Of a causal row the key after it is the answer to what comes next: as long as that
   * is asked for, no name of it is to be had here, nor a position by which another would be told from it. Who writes a name down does so by
   * `watch`, which writes it anew when it changes; `real` is for what is covered itself. */
  const keysOf = ({key_side: side, kind, row}, asked) => {
    const all = labels(side);
    const secret = kind === "decoder_self" ? row + 1 : -1;
    const open = named(all);
    const veiled = named(all.map((label, j) => (j === secret ? disguised(label) : label)));
    return open.map((label, j) => {
      const now = () => (asked.isOpen("logits") ? veiled : open)[j];
      const changes = label.text !== veiled[j].text;
      return {
        real: label.text, special: label.special, gives: j === secret ? "logits" : "",
        get text() {
          return now().text;
        },
        get word() {
          return now().word;
        },
        get covered() {
          return j === secret && asked.isOpen("logits");
        },
        watch: (write) => {
          write();
          if (changes) asked.watch(write);
        },
      };
    });
  };
  /* A walk whose likeliest tokens can be told apart. */
  const toldApart = (walk) => {
    if (!walk?.top) return walk;
    const all = [...walk.top, ...(walk.written ? [walk.written] : [])];
    const found = distinct(all.map(({label}) => label)).map((label, at) => ({...all[at], label}));
    return {...walk, top: found.slice(0, walk.top.length), written: found[walk.top.length] ?? null};
  };
  /* What the model, or this attention, never had can't be taken away. */
  const neverHad = ({without, kind, facts}) => {
    if (without === "embedding_scale" && facts.embedding_scale === 1) return "no_factor";
    return without === "causal_mask" && kind === "encoder_self" ? "no_mask" : "";
  };
  /* What every step needs. ask(cell, then): a cell from the server; asked: how its questions stand (steps_questions.js). */
  const contextOf = (payload, ask, asked) => {
    const {facts, kind, layer, head, position, token} = payload;
    const lacks = neverHad(payload);
    const [before, after] = [payload.before, lacks ? null : payload.after].map(toldApart);
    asked.forget();
    if (before.top) asked.of("logits", atlas.state.steps.guess); // names are written before that question is come to
    return {
      payload, facts, kind, layer, head, position, before, after, lacks, token, ask, asked, keys: keysOf(payload, asked),
      pre: facts.norm === "pre", attention: before.attention.sublayer, sublayers: before.sublayers.map(({name}) => name),
    };
  };
  /* What the arithmetic of a cell reads (steps_sums.js). lead(): lines to be written before what the server answers; tell(): all lines, of
   * a number that is not made here. */
  const cellContext = (c, walk, sub, lead, tell) => ({
    w: walk, f: {...c.facts, embedding_scale: walk.embedding_scale}, position: c.position, scaled: walk.scale_scores,
    sub: sub && walk.sublayers.find(({name}) => name === sub), lead, tell,
  });

  /* Words, or a picture, that give away the answers of some questions ("qkv logits"): covered while one of them is open. */
  const veil = (node, gives) => {
    node.dataset.gives = gives;
    return node;
  };
  const veiled = (words, gives) => {
    const outer = veil(make("span", "veil"), gives);
    outer.append(make("span", "", words));
    return outer;
  };

  /* parts(sums): the pictures, given where arithmetic is written; asks: which question; out: the shape.
   * told: {words, gives}: the end of the story; gives: questions that the pictures answer. */
  const step = (c, id, {
    title = `steps.${id}.title`, story, told, params = {}, parts = () => [], out = "", asks = "", gives = "",
  }) => {
    const section = make("section", "step");
    section.dataset.step = id;
    const head = make("div", "step-head");
    head.append(make("h3", "", say(title, params)));
    if (PAPER[id]) {
      const paper = make("span", "step-paper", say("steps.paper.short", {section: PAPER[id]}));
      paper.title = say("steps.paper", {section: PAPER[id]});
      head.append(paper);
    }
    const words = make("p", "step-story", story ?? say(`steps.${id}.story`, params));
    if (told) words.append(atlas.state.lang === "zh" ? "" : " ", veiled(told.words, told.gives));
    section.append(head, words);
    const card = asks ? question(asks, {...c, scaled: c.before.scale_scores}, section) : null;
    if (card) section.append(card);
    const sums = sumArea(c.ask, c.asked.watch);
    const body = make("div", "step-parts");
    if (gives) veil(body, gives);
    body.append(...parts(sums).flat(2).filter(Boolean), sums.node);
    section.append(body, ...formula(id, c));
    if (out) {
      const arrow = make("p", "step-out");
      arrow.append(make("span", "", out));
      section.append(arrow);
    }
    return section;
  };

  /* A vector, and below it the same without the part that was taken away, where that changes it; one scale for both.
   * stage: how its numbers are made (steps_sums.js), or tell(value, i): where they come from; example: the largest of them is spelled out at
   * once. */
  const both = (c, sums, name, get, {stage, key = null, sub, scale = 0, span, tone, lead, tell, example = false} = {}) => {
    const walks = [[c.before, false], [c.after, true]].filter(([walk]) => walk).map(([walk, after]) => ({walk, after, values: get(walk)}));
    const most = Math.max(scale, ...walks.map(({values}) => largest(values)));
    const changed = walks.length > 1 && difference(walks[0].values, walks[1].values) > 1e-6 * (most || 1);
    return (changed ? walks : walks.slice(0, 1)).map(({walk, after, values}) => {
      const title = after ? say("steps.name.without", {name, part: say(`steps.without.${c.payload.without}.short`)}) : name;
      const context = (i) => cellContext(c, walk, sub, lead && (() => lead(walk, i)), tell && (() => [tell(values[i], i)]));
      const cell = (i) => ({title: say("steps.sum.of", {name: title, index: i}), context: context(i), stage, index: i, key, after});
      if (example && !after) sums.start(cell(indexOfLargest(values.map(Math.abs))));
      const asks = stage && {pick: (i) => sums.show(cell(i)), glance: (i) => sums.glance(i === null ? null : cell(i))};
      const node = strip({name: title, values, scale: most, span, tone, ...asks});
      node.classList.toggle("after", after);
      node.dataset.strip = stage ?? "";
      return node;
    });
  };

  const sublayerOf = (name) => (walk) => walk.sublayers.find((sub) => sub.name === name);
  const choiceButton = (words, patch) => {
    const button = make("button", "quiet", words);
    button.type = "button";
    button.addEventListener("click", () => atlas.set(patch));
    return button;
  };

  Object.assign(atlas.steps, {contextOf, cellContext, step, both, veil, veiled, sublayerOf, choiceButton});
})();
