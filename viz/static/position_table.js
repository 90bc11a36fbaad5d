/* Positions, the first two sections: how many positions, how dimensions are spaced, tokens as row names; which pairs are drawn as waves. */
(() => {
  const {state, onChange, say, make} = atlas;
  const {about, follow, change, whenSeen} = atlas.positions;

  /* Another model may have other dimensions and fewer positions. */
  const fit = () => {
    if (!about()) return;
    const {max_length, length, pairs, offered} = about();
    const kept = (state.positions?.pairs || []).filter((pair) => offered.some((each) => each.pair === pair));
    Object.assign(state, {positions: {
      axis: "linear",
      tokens: false,
      ...state.positions,
      length: Math.min(state.positions?.length ?? length, max_length),
      pairs: kept.length && kept.length === state.positions.pairs.length ? kept : pairs,
    }});
  };
  atlas.onModel(fit);

  const key = () => {
    const {axis, tokens, length, pairs} = state.positions;
    return JSON.stringify([state.model, state.lang, axis, tokens, length, pairs, tokens && atlas.result()?.request]);
  };
  const tableBar = (element) => {
    const range = element.querySelector("input[type=range]");
    const shown = element.querySelector("[data-length]");
    const tokens = element.querySelector("[data-tokens]");
    const axes = element.querySelector("[data-axis]");
    const say_length = () => (shown.textContent = range.value);
    const soon = atlas.debounce(120, () => change({length: Number(range.value)}));
    range.addEventListener("input", () => {
      say_length();
      soon();
    });
    tokens.addEventListener("change", () => change({tokens: tokens.checked}));
    const show = () => {
      fit();
      if (!about()) return;
      range.max = about().max_length;
      range.value = state.positions.length;
      tokens.checked = state.positions.tokens;
      const options = ["linear", "log"].map((value) => ({value, label: say(`positions.axis.${value}`)}));
      atlas.choices(axes, options, state.positions.axis, (axis) => change({axis}));
      say_length();
    };
    atlas.applyText(element);
    onChange(["positions"], show);
    follow(show);
    whenSeen(document.getElementById("at-table"), "positions", key);
    whenSeen(document.getElementById("at-waves"), "positions", key);
  };

  const tableFoot = (element) => {
    const line = element.querySelector("[data-heat-caption]");
    follow(() => atlas.fill(line, say(about()?.layout === "halves" ? "positions.heatmap.caption.halves" : "positions.heatmap.caption")));
  };

  const waveBar = (element) => {
    const chips = element.querySelector("[data-pairs]");
    let boxes = [];
    const makeBox = ({pair, dims}) => {
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
      return {pair, dims, box, name, label};
    };
    /* The last one stays, and no more than max_pairs can be chosen. */
    const show = () => boxes.forEach(({pair, dims, box, name}) => {
      box.checked = state.positions.pairs.includes(pair);
      box.disabled = box.checked ? state.positions.pairs.length === 1 : state.positions.pairs.length >= about().max_pairs;
      name.textContent = dims.join(" · ");
      box.setAttribute("aria-label", say("positions.pair", {first: dims[0], second: dims[1]}));
    });
    const build = () => {
      fit();
      if (!about()) return;
      boxes = about().offered.map(makeBox);
      chips.replaceChildren(...boxes.map(({label}) => label));
      show();
    };
    onChange(["lang", "positions"], () => about() && show());
    atlas.onModel(build);
    atlas.applyText(element);
    build();
  };

  Object.assign(atlas.positions, {tableBar, tableFoot, waveBar});
})();
