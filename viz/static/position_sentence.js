/* Positions in the visitor's sentence: lengths of word and position, one word at two places, a head's view of positions.
 *
 * Each section asks Python when it is seen (positions.js, whenSeen); what it answers for says in `request` whose sentence it is.
 * The choices are kept in the store as `position_sentence`; which head is chosen is the same choice as in Translate.
 */
(() => {
  const {state, set, onChange, say, make} = atlas;
  const SELF = ["encoder_self", "decoder_self"];
  const EXAMPLE = "The cat saw the other cat near the station."; // words that stand there twice
  state.position_sentence = {side: atlas.linked?.side ?? "source", places: atlas.linked?.places ?? null};
  const change = (patch) => set({position_sentence: {...state.position_sentence, ...patch}});
  const sectionOf = (element) => element.closest(".position-section");
  const caption = (element, text) => atlas.fill(sectionOf(element)?.querySelector("[data-caption]"), text);
  const same = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

  /* What the sections share: asks when `key()` has changed (null: not yet), shows each answer, and steps back while the answer is another
   * sentence's. */
  const follow = (element, props, watch, name, key, show) => {
    let facts = null;
    const current = () => Boolean(facts) && same(facts.request, atlas.result()?.request);
    const mark = () => sectionOf(element)?.classList.toggle("stale", Boolean(facts) && (!current() || Boolean(atlas.belongs())));
    const again = () => {
      mark();
      show(facts, current());
    };
    const take = () => {
      facts = typeof props.value === "string" ? JSON.parse(props.value || "null") : props.value ?? null;
      again();
    };
    watch("value", take);
    onChange(["lang"], again);
    atlas.maps.onMaps(again);
    atlas.onResult(again);
    atlas.onMark(mark);
    const look = atlas.positions.whenSeen(element, `position_${name}`, () => {
      const request = atlas.result()?.request;
      const own = key();
      return request && own ? JSON.stringify([request, state.lang, ...own]) : null;
    });
    atlas.applyText(element);
    take();
    return look;
  };
  /* A small legend: [class of the mark, its name]. */
  const legend = (host, marks) => host.replaceChildren(...marks.map(([mark, name]) => {
    const item = make("li", "", name);
    item.prepend(make("i", mark));
    return item;
  }));
  const two = (value) => value.toFixed(2).replace("-", "−");
  /* The run that the page has come to: not the recorded one where a link or a reload asks for another. */
  const settled = () => {
    const result = atlas.result();
    return !result || (atlas.kept?.runs && result.badge === "recorded") ? null : result.request;
  };
  atlas.positionParts = {settled, SELF, sectionOf, caption, same, follow, legend, two};

  /* ---- lengths ---- */
  atlas.positionLengths = (element, props, watch) => {
    const sides = element.querySelector("[data-sides]");
    const show = (facts) => {
      atlas.choices(sides, ["source", "read"].map((value) => ({value, label: say(`positions.lengths.${value}`)})),
        state.position_sentence.side, (side) => change({side}));
      const scaled = facts && facts.factor !== 1;
      legend(element.querySelector("[data-marks]"), [
        [scaled ? "ring" : "dot", say("positions.lengths.embedding")], [scaled ? "dot" : "ring", say("positions.lengths.scaled")],
        ["bar", say("positions.lengths.position")],
      ]);
      if (!facts) return;
      const {embedding, scaled: long, position, sqrt_d, d_model} = facts;
      const numbers = {
        embedding: two(embedding), scaled: two(long), position: two(position), factor: two(sqrt_d), d_model,
        before: two(position / embedding), after: two(long / position),
      };
      const parts = [say("positions.lengths.said", numbers), say(`positions.lengths.${scaled ? "scales" : "plain"}`)];
      caption(element, parts.join(state.lang === "zh" ? "" : " "));
    };
    const look = follow(element, props, watch, "lengths", () => [state.position_sentence.side], show);
    onChange(["position_sentence"], look);
  };

  /* ---- one word at two places ---- */
  /* A row of buttons that the tab key enters once; arrow keys go along it. */
  atlas.roving = (host) => {
    const all = () => [...host.querySelectorAll("button")];
    host.addEventListener("keydown", (event) => {
      const list = all();
      const at = list.indexOf(event.target);
      const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: list.length - 1}[event.key];
      if (at < 0 || to === undefined || event.defaultPrevented) return;
      event.preventDefault();
      list[Math.max(0, Math.min(list.length - 1, to))].focus();
    });
    host.addEventListener("focusin", (event) => all().forEach((button) => (button.tabIndex = button === event.target ? 0 : -1)));
    return () => {
      const list = all();
      if (!list.some((button) => button.tabIndex === 0)) list.forEach((button, i) => (button.tabIndex = i ? -1 : 0));
    };
  };
  const tokens = () => atlas.maps.axes({kind: "encoder_self", units: "pieces", specials: "shown"})?.rows ?? [];
  atlas.positionPlaces = (element, props, watch) => {
    const row = element.querySelector("[data-words]");
    const twice = element.querySelector("[data-twice]");
    const enter = atlas.roving(row);
    let chosen = []; // as the row shows it: what was picked last, until the answer is there
    let origin = null; // the run whose tokens stand in the row
    const press = () => [...row.children].forEach((button, i) => button.setAttribute("aria-pressed", String(chosen.includes(i))));
    const pick = (place) => {
      if (chosen.includes(place)) return;
      chosen = [chosen.at(-1), place].filter((each) => each !== undefined);
      press();
      if (chosen.length === 2) change({places: [...chosen].sort((a, b) => a - b)});
    };
    const showWords = () => {
      const labels = tokens();
      const shape = labels.map(({text}) => text).join(" ");
      if (row.dataset.shape === shape) return press();
      row.dataset.shape = shape;
      row.replaceChildren(...labels.map(({text, special}, place) => {
        const button = make("button", `word-chip${special ? " special" : ""}`, text);
        button.type = "button";
        button.dir = "auto";
        button.append(make("b", "", String(place)));
        button.addEventListener("click", () => pick(place));
        return button;
      }));
      enter();
      press();
    };
    const pairButton = ([first, second]) => {
      const button = make("button", "plain pair-button", `${tokens()[first]?.text ?? ""} ${first} · ${second}`);
      button.type = "button";
      button.dir = "auto";
      button.addEventListener("click", () => change({places: [first, second]}));
      return button;
    };
    const tryButton = () => {
      const button = make("button", "plain pair-button", EXAMPLE);
      button.type = "button";
      button.lang = "en";
      button.addEventListener("click", () => {
        const box = document.querySelector("#sentence textarea");
        Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(box, EXAMPLE);
        box.dispatchEvent(new Event("input", {bubbles: true}));
      });
      return button;
    };
    const show = (facts, current) => {
      /* Places are those of one sentence: of another they mean nothing. */
      const request = settled();
      if (origin !== null && !same(origin, request)) state.position_sentence = {...state.position_sentence, places: null};
      if (request) origin = request;
      if (current) chosen = facts.places;
      showWords();
      legend(element.querySelector("[data-marks]"), [["line", say("positions.with")], ["dashes", say("positions.without")]]);
      if (!facts || !current) return;
      const english = ["en", "eng"].includes(atlas.model()?.source);
      const offers = facts.repeated.length ? facts.repeated.slice(0, 6).map(pairButton) : english ? [tryButton()] : [];
      twice.replaceChildren(make("span", "", say(facts.repeated.length ? "positions.places.twice" : "positions.places.once")), ...offers);
      const told = facts.same ? tokens() : atlas.steps.distinct(tokens()); // two tokens may read alike but for the space before them
      const names = facts.places.map((place) => told[place]?.text ?? "");
      const numbers = {
        first: names[0], second: names[1], i: facts.places[0], j: facts.places[1],
        embedding: two(facts.with[0]), input: two(facts.with[1]), last: two(facts.with.at(-1)), off: two(facts.without.at(-1)),
      };
      caption(element, say(facts.same ? "positions.places.said.same" : "positions.places.said.other", numbers));
    };
    /* Places from the page's address that this sentence does not have are left out, and the visitor is told. */
    const fit = () => {
      const {places} = state.position_sentence;
      const there = (place) => place < tokens().length;
      if (!places || !same(atlas.maps.current()?.request, settled()) || (places.every(there) && places[0] !== places[1])) return;
      atlas.leftOut.add("places", places.join(","));
      state.position_sentence = {...state.position_sentence, places: null};
    };
    const look = follow(element, props, watch, "places", () => settled() && (fit(), true) && [state.position_sentence.places], show);
    onChange(["position_sentence"], look);
  };

  /* ---- a head's view of positions ---- */
  let maps = null;
  let waiting = null; // drawn before the maps' own block was there
  const labelsOf = (kind) => atlas.maps.axes({kind, rows: "read", units: "pieces", specials: "shown"})?.rows ?? [];
  const fillMaps = (facts) => {
    if (!maps) return (waiting = facts);
    maps.host.hidden = !facts.real;
    const labels = labelsOf(facts.kind).map(({text}, id) => ({text, id}));
    if (!facts.real || labels.length !== facts.size) return;
    maps.all.forEach(([name, map]) => map.show({
      rows: labels, columns: labels, z: atlas.unpackWeights(facts[name]), kind: facts.kind, causal: facts.kind === "decoder_self",
    }));
  };
  atlas.positionHeadMaps = (element) => {
    const host = element.querySelector("[data-maps]");
    const all = ["alone", "real"].map((name) => {
      const figure = host.appendChild(make("figure"));
      const title = figure.appendChild(make("figcaption"));
      title.dataset.t = `positions.head.map.${name}`;
      return [name, atlas.smallMap(figure, {name: () => say(`positions.head.map.${name}`), group: "head"})];
    });
    maps = {host, all};
    atlas.applyText(element);
    if (waiting) fillMaps(waiting);
  };
  atlas.positionHead = (element, props, watch) => {
    const find = (name) => element.querySelector(`[data-${name}]`);
    const range = (count) => Array.from({length: count}, (_, value) => ({value, label: String(value)}));
    const show = (facts, current) => {
      const own = SELF.includes(state.kind) && typeof state.head === "number";
      const chosen = own ? state : facts ?? {kind: "encoder_self", layer: null, head: null};
      const pick = (patch) => set({kind: chosen.kind, layer: chosen.layer ?? 0, head: chosen.head ?? 0, ...patch});
      const kinds = SELF.map((value) => ({value, label: say(`kind.${value}.short`), spoken: say(`kind.${value}`)}));
      atlas.choices(find("kinds"), kinds, chosen.kind, (kind) => pick({kind}));
      const {layers, heads} = atlas.maps.size(chosen.kind);
      atlas.choices(find("layers"), range(layers), chosen.layer, (layer) => pick({layer}));
      atlas.choices(find("heads"), range(heads), chosen.head, (head) => pick({head}));
      if (!facts || !current) return;
      fillMaps(facts);
      const signed = (value) => (value > 0 ? `+${value}` : String(value).replace("-", "−"));
      const numbers = {
        name: `L${facts.layer} H${facts.head}`, favourite: signed(facts.favourite), spread: two(facts.spread),
        real: signed(facts.real_favourite), weight: two(facts.real_weight), pairs: facts.real_pairs,
        overlap: two(facts.overlap), even: two(facts.even), limit: facts.limit,
      };
      caption(element, say("positions.head.said", numbers));
      const line = sectionOf(element).querySelector("[data-overlap]");
      const parts = [say("positions.head.overlap", numbers), ...(facts.real ? [] : [say("positions.head.long", numbers)])];
      atlas.fill(line, parts.join(state.lang === "zh" ? "" : " "));
    };
    const key = () => (SELF.includes(state.kind) ? [state.kind, state.layer, state.head] : ["cross"]);
    let again = () => {};
    const look = follow(element, props, watch, "head", key, (facts, current) => {
      again = () => show(facts, current);
      again();
    });
    onChange(["kind", "layer", "head"], () => {
      again();
      look();
    });
  };
})();
