/* Part 5: the Positions tab: how many positions, which pairs of dimensions, tokens as row names. */
(() => {
  const {state, set, onChange, say, make} = atlas;

  const change = (patch) => set({positions: {...state.positions, ...patch}});
  const redraw = () => atlas.begin("positions");

  const head = (element, props) => {
    const line = element.querySelector("[data-layout]");
    const show = () => (line.textContent = say(`positions.layout.${props.value.layout}`));
    onChange(["lang"], show);
    atlas.applyText(element);
    show();
  };

  const foot = (element, props) => {
    const key = props.value.layout === "halves" ? "positions.heatmap.caption.halves" : "positions.heatmap.caption";
    const show = () => atlas.fill(element.querySelector("[data-heat-caption]"), say(key));
    onChange(["lang"], show);
    show();
  };

  const controls = (element, props) => {
    const {max_length, length, pairs, max_pairs, offered} = props.value;
    if (!state.positions) Object.assign(state, {positions: {length, pairs, tokens: false}});
    const range = element.querySelector("input[type=range]");
    const shown = element.querySelector("[data-length]");
    const tokens = element.querySelector("[data-tokens]");
    const chips = element.querySelector("[data-pairs]");
    range.max = max_length;
    range.value = state.positions.length;
    tokens.checked = state.positions.tokens;
    const say_length = () => (shown.textContent = range.value);
    const soon = atlas.debounce(120, () => change({length: Number(range.value)}));
    range.addEventListener("input", () => {
      say_length();
      soon();
    });
    tokens.addEventListener("change", () => change({tokens: tokens.checked}));

    const boxes = offered.map(({pair, dims}) => {
      const label = make("label", "choice");
      const box = make("input");
      box.type = "checkbox";
      box.addEventListener("change", () => {
        const chosen = boxes.filter((each) => each.box.checked).map((each) => each.pair);
        if (chosen.length) change({pairs: chosen});
        show();
      });
      const name = make("span");
      label.append(box, name);
      chips.append(label);
      return {pair, dims, box, name};
    });
    /* The last one stays, and no more than max_pairs can be chosen. */
    const show = () => boxes.forEach(({pair, dims, box, name}) => {
      box.checked = state.positions.pairs.includes(pair);
      box.disabled = box.checked ? state.positions.pairs.length === 1 : state.positions.pairs.length >= max_pairs;
      name.textContent = dims.join(" · ");
      box.setAttribute("aria-label", say("positions.pair", {first: dims[0], second: dims[1]}));
    });
    onChange(["lang", "positions"], show);
    onChange(["lang", "positions"], redraw);
    atlas.onResult(() => state.positions.tokens && redraw());
    atlas.applyText(element);
    say_length();
    show();
    redraw();
  };

  atlas.positions = {head, foot, controls};
})();
