/* Step by step, part 7: three small pictures. The length of the stream from layer to layer; the most likely tokens; the row with and
 * without the part that was taken away. */
(() => {
  const {say, make, set} = atlas;
  const {number, percent, entropy, indexOfLargest, keyTable, grouped, hover} = atlas.steps;

  const button = (className, act, content = "") => {
    const node = make("button", className, content);
    node.type = "button";
    node.addEventListener("click", act);
    return node;
  };

  /* ---- the length of the vector as it enters each layer, and after the last; a click chooses the layer ---- */
  const stream = ({before, after, layer}) => {
    const most = Math.max(...before.stream_norms, ...(after?.stream_norms ?? []));
    const last = before.stream_norms.length - 1;
    const line = make("div", "stream");
    line.append(...before.stream_norms.map((value, at) => {
      const end = at === last;
      const name = end ? say("steps.stream.end") : `L${at}`;
      const item = end ? make("div", "stream-item") : button("stream-item", () => set({layer: at}));
      const bars = make("span", "stream-bars");
      [value, after?.stream_norms[at]].filter((height) => height !== undefined).forEach((height) => {
        const bar = make("i");
        bar.style.setProperty("--p", (height / (most || 1)).toFixed(4));
        bars.append(bar);
      });
      item.append(bars, make("b", "", number(value, 1)), make("span", "stream-name", name));
      item.classList.toggle("chosen", at === layer);
      if (!end) {
        item.setAttribute("aria-label", say("steps.stream.spoken", {layer: at, value: number(value, 2)}));
        item.setAttribute("aria-pressed", String(at === layer));
      }
      return item;
    }));
    return line;
  };

  /* ---- the ten most likely tokens; pick(which of them) asks how its logit or its probability was made ---- */
  const top = ({walk, written, pick, name}) => {
    const list = make("div", "top");
    if (name) list.append(make("p", "strip-name top-name", name));
    const head = make("p", "top-line top-head deep");
    head.append(make("span"), make("span"), make("span", "", say("steps.top.probability")), make("span", "", say("steps.top.logit")));
    list.append(head);
    const line = ({id, label, logit, probability}, at, rank) => {
      const item = make("div", `top-line${written && written.id === id ? " written" : ""}`);
      const word = make("span", "top-word", rank ? `${rank}. ${label.text}` : label.text);
      word.dir = "auto";
      word.title = `${hover(label)} · ${id}`;
      const bar = make("i");
      bar.style.setProperty("--p", probability.toFixed(4));
      const [share, score] = [["probability", percent(probability), number(probability)], ["logit", number(logit, 2), number(logit)]]
        .map(([stage, text, exact]) => {
          const cell = pick && at !== null ? button(`top-${stage}`, () => pick(stage, at), text) : make("span", `top-${stage}`, text);
          cell.title = exact;
          cell.setAttribute("aria-label", say(`steps.top.spoken.${stage}`, {token: label.text, value: exact}));
          return cell;
        });
      score.classList.add("deep");
      item.append(word, bar, share, score);
      return item;
    };
    list.append(...walk.top.map((entry, at) => line(entry, at)));
    if (written && !walk.top.some(({id}) => id === written.id)) list.append(line(written, null, grouped(written.rank)));
    if (list.textContent.includes("␣")) list.append(make("p", "step-note", say("steps.space")));
    return list;
  };

  /* ---- with and without ---- */
  const pair = (name, was, now) => {
    const item = make("div", "compare-fact");
    const values = make("p", "compare-values");
    values.append(make("span", "", was), make("i", "", "→"), make("b", "", now));
    item.append(make("p", "option-name", name), values);
    return item;
  };
  const compare = (c) => {
    const {payload: {without, translations}, before, after, keys, lacks} = c;
    const {alike, choiceButton, veil} = atlas.steps; // of parts that come later
    const box = make("section", "compare");
    if (lacks) {
      box.append(make("h3", "", say(`steps.without.${without}`)), make("p", "step-story", say(`steps.without.${lacks}`)));
      if (lacks === "no_mask") box.append(choiceButton(say("steps.without.no_mask.open"), {kind: "decoder_self"}));
      return box;
    }
    const names = [say("steps.with"), say(`steps.without.${without}.short`)];
    const rows = [before, after].map(({attention: {weights, masked}}, at) => ({
      id: at ? "after" : "before", name: names[at], cells: [...weights].map((weight) => number(weight)), tints: [...weights], off: masked,
    }));
    const most = ({attention: {weights}}) => `${percent(Math.max(...weights))} ${keys[indexOfLargest(weights)].real}`;
    const spread = ({attention: {weights}}) => number(entropy(weights), 2);
    const facts = veil(make("div", "compare-facts"), "qkv softmax logits");
    facts.append(
      pair(say("steps.compare.largest"), most(before), most(after)), pair(say("steps.compare.entropy"), spread(before), spread(after)),
    );
    if (before.top?.length && after.top?.length) {
      const next = ({top: [{label, probability}]}) => `${label.text} ${percent(probability)}`;
      facts.append(pair(say("steps.compare.next"), next(before), next(after)));
    }
    const title = make("h3", "", say(`steps.without.${without}`));
    const best = indexOfLargest(before.attention.weights);
    const table = veil(keyTable({labels: keys, rows, best, spoken: title.textContent}), "qkv softmax");
    box.append(title, make("p", "step-story", say(`steps.without.${without}.help`)));
    box.append(make("p", "step-note", say(alike(c) ? "steps.without.alike" : "steps.without.anew")));
    box.append(make("p", "step-note compare-covered", say("steps.compare.covered")), table, facts);
    if (translations) {
      const texts = veil(make("div", "compare-texts"), "logits");
      texts.append(...[["before", names[0]], ["after", names[1]]].map(([which, name]) => {
        const column = make("div", which);
        const words = make("p", "compare-text", translations[which] || say("steps.compare.nothing"));
        words.dir = "auto";
        column.append(make("p", "option-name", say("steps.compare.translation", {which: name})), words);
        return column;
      }));
      const same = without === "causal_mask" ? "mask" : "same";
      box.append(texts, make("p", "faint", say(`steps.compare.${translations.changed ? "changed" : same}`)));
    }
    box.append(make("p", "faint", say("steps.compare.below", {after: names[1]})));
    return box;
  };

  Object.assign(atlas.steps, {streamPicture: stream, topTokens: top, comparison: compare});
})();
