/* Step by step, part 6: predict, then reveal. Questions made from the numbers on the page, and answered by them.
 *
 * A question belongs to a step. While it is open, what the step shows is covered, unless that is what is to be looked at; and so is all
 * else that would give the answer away (data-gives: names of questions). An answer, or "show me", uncovers it. No score is kept.
 */
(() => {
  const {say, make} = atlas;
  const {number, percent, softmax, entropy, indexOfLargest, norm, quoted, grouped} = atlas.steps;
  const CHOICES = 4;

  /* Up to four of `count` things, the right one among them, in their own order: by how likely they are, so that none is absurd. */
  const contenders = (values, allowed) =>
    [...values.keys()].filter(allowed).sort((a, b) => values[b] - values[a]).slice(0, CHOICES).sort((a, b) => a - b);
  /* An order that gives nothing away and is the same each time: by what stands in the answers. */
  const mixed = (options) => [...options].sort((a, b) => [...a.text].reverse().join("").localeCompare([...b.text].reverse().join("")));
  const banded = (share, bounds) => bounds.findIndex((bound) => share < bound);

  const QUESTIONS = {
    /* Whose vector is longer, the word's or the place's? */
    position: ({before: w}) => {
      const [word, scaled, place] = [w.embedding, w.scaled, w.encoding].map(norm);
      if (!place || !scaled) return null;
      const ratio = scaled / place;
      const right = ratio > 1.25 ? "word" : ratio < 0.8 ? "place" : "same";
      return {
        ask: say("steps.ask.position"),
        options: ["word", "same", "place"].map((value) => ({text: say(`steps.ask.position.${value}`), right: value === right})),
        answer: say("steps.ask.position.answer", {word: number(word, 2), scaled: number(scaled, 2), place: number(place, 2)}),
      };
    },
    /* Which key fits the query best? To be seen from the strips. */
    qkv: ({before: {attention: a}, keys}) => {
      const picks = contenders(a.products, (j) => !a.masked[j]);
      if (picks.length < 2) return null;
      const best = indexOfLargest(picks.map((j) => a.products[j]));
      const said = picks.map((j) => number(a.products[j], 2));
      if (said.filter((value) => value === said[best]).length > 1) return null; // two fit equally well
      const hides = a.masked.includes(true);
      return {
        look: true, // the answer is to be found in the pictures
        ask: say(hides ? "steps.ask.fits.seen" : "steps.ask.fits"),
        options: picks.map((j, at) => ({text: keys[j].text, right: at === best, token: true})),
        answer: say("steps.ask.fits.answer", {key: quoted(keys[picks[best]]), value: number(a.products[picks[best]], 2)}),
      };
    },
    /* The dot product is given: what is the score? Not of the key that fits best, which is what the question before asks. */
    scores: ({before: {attention: a}, keys, facts, scaled}) => {
      const seen = [...a.products.keys()].filter((at) => !a.masked[at]);
      const best = seen[indexOfLargest(seen.map((at) => a.products[at]))];
      const others = seen.length > 1 ? seen.filter((at) => at !== best) : seen;
      const j = others[indexOfLargest(others.map((at) => Math.abs(a.products[at])))];
      const product = a.products[j];
      if (!scaled || Math.abs(product) < 0.5 || facts.head_dim < 4) return null;
      const {head_dim: size} = facts;
      const values = [[product / Math.sqrt(size), true], [product / size], [product * Math.sqrt(size)], [product - Math.sqrt(size)]];
      return {
        ask: say("steps.ask.scores", {key: quoted(keys[j]), product: number(product, 2), size}),
        options: mixed(values.map(([value, right = false]) => ({text: number(value, 2), right}))),
        answer: say("steps.ask.scores.answer", {
          product: number(product, 2), size, root: number(Math.sqrt(size), 2), score: number(a.scores[j], 2),
        }),
      };
    },
    /* How many keys may this row look at? */
    mask: ({before: {attention: a}, position, kind}) => {
      const right = a.masked.filter((hidden) => !hidden).length;
      if (kind !== "decoder_self" || a.masked.length < 2) return null;
      const all = a.masked.length;
      const counts = [...new Set([right, all, right - 1, right + 1, 1])].filter((count) => count > 0 && count <= all);
      return {
        ask: say("steps.ask.mask", {count: a.masked.length, position}),
        options: counts.slice(0, CHOICES).sort((x, y) => x - y).map((count) => ({text: String(count), right: count === right})),
        answer: say("steps.ask.mask.answer", {count: right, hidden: a.masked.length - right}),
      };
    },
    /* What would become of this row if scores were not divided? */
    softmax: ({before: {attention: a}, scaled}) => {
      if (!scaled || a.masked.filter((hidden) => !hidden).length < 2) return null;
      const without = softmax(a.products, a.masked).weights;
      const [most, then] = [a.weights, without].map((weights) => Math.max(...weights));
      const [spread, spreadThen] = [a.weights, without].map(entropy);
      const right = Math.abs(spread - spreadThen) < 0.02 ? "same" : spreadThen < spread ? "sharper" : "flatter";
      return {
        ask: say("steps.ask.softmax"),
        options: ["sharper", "same", "flatter"].map((value) => ({text: say(`steps.ask.softmax.${value}`), right: value === right})),
        answer: say("steps.ask.softmax.answer", {
          most: percent(most), then: percent(then), spread: number(spread, 2), spread_then: number(spreadThen, 2),
        }),
      };
    },
    /* How many of the hidden numbers does the activation let through? */
    hidden: ({before: {feed_forward: ff}, facts}) => {
      if (facts.activation !== "relu") return null;
      const count = ff.active.filter((value) => value > 0).length;
      const band = banded(count / ff.active.length, [0.1, 0.3, 0.6, 1.1]);
      return {
        ask: say("steps.ask.hidden", {count: grouped(ff.active.length)}),
        options: ["few", "some", "half", "most"].map((value, at) => ({text: say(`steps.ask.hidden.${value}`), right: at === band})),
        answer: say("steps.ask.hidden.answer", {
          count: grouped(count), all: grouped(ff.active.length), share: percent(count / ff.active.length),
        }),
      };
    },
    /* What comes next? */
    logits: ({before: {top}}) => {
      if (!top || top.length < 2) return null;
      const options = top.slice(0, CHOICES).map(({label}, at) => ({text: label.text, right: at === 0, token: true}));
      if (new Set(options.map(({text}) => text)).size < options.length) return null; // two pieces that read the same
      return {
        ask: say("steps.ask.logits"),
        options: mixed(options),
        answer: say("steps.ask.logits.answer", {token: quoted(top[0].label), probability: percent(top[0].probability)}),
      };
    },
  };

  /* How the questions of one row stand: it outlives what is on the page, so that an answered one stays so in the other language.
   * onChange is told whenever one is opened or answered. */
  const asked = (onChange) => {
    const all = new Map(); // name -> {stands: "closed", "open" or "answered", chosen: which option, or null}
    return {
      clear: () => all.clear(),
      leave: (id) => all.delete(id), // there is nothing to ask
      of: (id, open) => all.get(id) ?? all.set(id, {stands: open ? "open" : "closed", chosen: null}).get(id),
      isOpen: (id) => all.get(id)?.stands === "open",
      to: (id, stands, chosen = null) => {
        all.set(id, {stands, chosen});
        onChange();
      },
    };
  };

  /* `section` is the step: data-asks "closed", "open" or "answered". Returns the card, or null where there is nothing to ask. */
  const card = (id, context, section) => {
    const question = QUESTIONS[id]?.(context);
    const {asked: standing} = context;
    if (!question) {
      standing.leave(id);
      return null;
    }
    const box = make("div", "guess");
    const start = make("button", "guess-start", say("steps.guess.start"));
    const ask = make("p", "guess-ask", question.ask);
    const options = make("div", "guess-options");
    const answer = make("p", "guess-answer");
    const show = make("button", "plain guess-show", say("steps.guess.show"));
    [start, show].forEach((button) => (button.type = "button"));
    answer.setAttribute("aria-live", "polite");
    const reveal = (chosen) => {
      section.dataset.asks = "answered";
      question.options.forEach(({right}, at) => {
        const button = options.children[at];
        const mark = right ? "right" : at === chosen ? "wrong" : "";
        button.dataset.mark = mark;
        button.setAttribute("aria-pressed", String(at === chosen));
      });
      const said = chosen === null ? "" : say(question.options[chosen].right ? "steps.guess.right" : "steps.guess.wrong");
      answer.textContent = [said, question.answer].filter(Boolean).join(atlas.state.lang === "zh" ? "" : " ");
    };
    const answered = (chosen) => {
      reveal(chosen);
      standing.to(id, "answered", chosen);
    };
    options.append(...question.options.map(({text, token}, at) => {
      const button = make("button", "guess-option", text);
      button.type = "button";
      if (token) button.dir = "auto";
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => answered(at));
      return button;
    }));
    show.addEventListener("click", () => answered(null));
    start.addEventListener("click", () => {
      section.dataset.asks = "open";
      standing.to(id, "open");
      options.firstChild.focus();
    });
    const now = standing.of(id, atlas.state.steps.guess);
    section.dataset.asks = now.stands;
    if (now.stands === "answered") reveal(now.chosen);
    section.toggleAttribute("data-eyes-open", Boolean(question.look));
    box.append(start, ask, options, show, answer);
    return box;
  };

  Object.assign(atlas.steps, {question: card, asked});
})();
