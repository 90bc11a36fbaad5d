/* Step by step, part 6: predict, then reveal. Questions made from the numbers on the page, and answered by them.
 *
 * A question belongs to a step. While it is open, what the step shows is covered, unless that is what is to be looked at; and so is all
 * else that would give the answer away (data-gives: names of questions). An answer, or "show me", uncovers it. No score is kept.
 */
(() => {
  const {say, make} = atlas;
  const {number, bracketed, percent, softmax, indexOfLargest, largest, quoted, grouped} = atlas.steps;
  const CHOICES = 4;

  /* Up to four of `count` things, the right one among them, in their own order: by how likely they are, so that none is absurd. */
  const contenders = (values, allowed) =>
    [...values.keys()].filter(allowed).sort((a, b) => values[b] - values[a]).slice(0, CHOICES).sort((a, b) => a - b);
  /* An order that gives nothing away and is the same each time: by what stands in the answers. */
  const mixed = (options) => [...options].sort((a, b) => [...a.text].reverse().join("").localeCompare([...b.text].reverse().join("")));
  const banded = (share, bounds) => bounds.findIndex((bound) => share < bound);

  const QUESTIONS = {
    /* Which number's sign does the position turn? It adds at most 1, so none that is larger; which of the small ones, only its pattern says.
     * One that turns, one small one that doesn't, and two large ones, where there are such. */
    position: ({before: {scaled, encoding, input}, token, position}) => {
      if (largest(encoding) > 1.001 || !largest(encoding)) return null;
      const clear = [...scaled.keys()].filter((i) => Math.abs(scaled[i]) > 0.05 && Math.abs(input[i]) > 0.05 && Math.abs(scaled[i]) < 3);
      const turns = (i) => scaled[i] * input[i] < 0;
      const small = (i) => Math.abs(scaled[i]) < 1;
      const start = 7 * token.id + 31 * position; // another place in each list for another token, and the same each time
      const from = (list) => list.map((_, at) => list[(start + at * 5) % list.length]);
      const [turned, ...others] = [turns, (i) => !turns(i) && small(i), (i) => !turns(i) && !small(i)].map((is) => from(clear.filter(is)));
      const picks = [...new Set([turned[0], others[0][0], ...others[1], ...others[0]])].filter((i) => i !== undefined).slice(0, CHOICES);
      if (!turned.length || picks.length < CHOICES) return null;
      const [i] = turned;
      return {
        ask: say("steps.ask.position"),
        options: picks.sort((a, b) => a - b).map((index) => ({
          text: say("steps.ask.position.option", {index, value: number(scaled[index], 2)}), right: index === i,
        })),
        answer: say("steps.ask.position.answer", {
          index: i, sum: `${number(scaled[i], 2)} + ${bracketed(encoding[i], 2)} = ${number(input[i], 2)}`,
        }),
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
      const from = Math.max(1, right - (position % 3)); // three that follow each other, of which now this is right, now that
      const counts = [...new Set([from, from + 1, from + 2, all])].filter((count) => count <= all);
      return {
        ask: say("steps.ask.mask", {count: a.masked.length, position}),
        options: counts.map((count) => ({text: String(count), right: count === right})),
        answer: say("steps.ask.mask.answer", {count: right, hidden: a.masked.length - right}),
      };
    },
    /* How many keys would be left to be looked at if scores were not divided? */
    softmax: ({before: {attention: a}, scaled}) => {
      const seen = a.masked.filter((hidden) => !hidden).length;
      if (!scaled || seen < 2) return null;
      const without = softmax(a.products, a.masked).weights;
      const [now, then] = [a.weights, without].map((weights) => [...weights].filter((weight) => weight >= 0.01).length);
      const most = Math.min(seen, CHOICES); // the last answer: so many, or more where there are more
      return {
        ask: say("steps.ask.softmax", {now}),
        options: Array.from({length: most}, (_, at) => ({
          text: at + 1 === CHOICES && seen > CHOICES ? say("steps.ask.softmax.more", {count: CHOICES}) : String(at + 1),
          right: Math.min(then, most) === at + 1,
        })),
        answer: say("steps.ask.softmax.answer", {
          count: then, most: percent(Math.max(...a.weights)), then: percent(Math.max(...without)),
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
   * onChange is told whenever one is opened or answered; watch(write): what of a walk is to be written anew then, which `renamed` does, until
   * the next walk `forget`s it. */
  const asked = (onChange) => {
    const all = new Map(); // name -> {stands: "closed", "open" or "answered", chosen: which option, or null}
    const watching = new Set();
    return {
      watch: (write) => watching.add(write),
      renamed: () => watching.forEach((write) => write()),
      forget: () => watching.clear(),
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
