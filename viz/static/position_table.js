/* Positions, the first two sections: how many positions, how dimensions are spaced, tokens as row names; which pairs are drawn as waves. */
(() => {
  const {state, onChange, say, make} = atlas;
  const {about, follow, change, whenSeen} = atlas.positions;

  /* What the address asks for, once its model is there; what that model cannot show is left out, and said so. */
  const NAMES = ["length", "pairs", "named", "axis", "distance", "p", "k"];
  const linked = atlas.linked ?? {}; // a file without an address has none
  let asked = Object.fromEntries(NAMES.filter((name) => linked[name] !== undefined).map((name) => [name, linked[name]]));
  const takeAddress = ({max_length, limit, steps, offered}) => {
    if (!Object.keys(asked).length || (linked.model ?? "embedded") !== state.model) return;
    const inside = {
      length: (value) => value >= 2 && value <= max_length,
      pairs: (value) => new Set(value).size === value.length && value.every((pair) => offered.some((each) => each.pair === pair)),
      distance: (value) => value >= 1 && value < limit,
      p: (value) => value < steps,
      k: (value) => value < steps,
    };
    for (const [name, value] of Object.entries(asked)) {
      if (inside[name]?.(value) ?? true) Object.assign(state.positions, name === "named" ? {tokens: true} : {[name]: value});
      else atlas.leftOut.add(name, String(value));
    }
    asked = {};
  };
  /* Another model may have other dimensions and fewer positions. */
  const START = {axis: "linear", tokens: false, distance: null, p: 2, k: 5};
  let fitted = null; // the model that the choice was made for
  const fit = () => {
    if (!about()) return;
    const {max_length, length, pairs, offered, limit, steps} = about();
    state.positions = {...START, length, pairs, ...state.positions};
    if (fitted !== state.model) state.positions.distance = null; // another one's curve rises elsewhere
    fitted = state.model;
    takeAddress(about());
    const chosen = state.positions;
    const same = chosen.pairs.every((pair) => offered.some((each) => each.pair === pair));
    Object.assign(chosen, {
      length: Math.min(chosen.length, max_length),
      pairs: same ? chosen.pairs : pairs,
      distance: chosen.distance < limit ? chosen.distance : null,
      p: Math.min(chosen.p, steps - 1),
      k: Math.min(chosen.k, steps - 1),
    });
  };
  atlas.onModel(fit);
  /* Only what differs from what the tab opens with; before it has opened, what the address held. */
  const address = () => {
    const spelled = {...asked, ...(asked.pairs ? {pairs: asked.pairs.join(",")} : {})};
    if (!state.positions || !about()) return spelled;
    const {axis, tokens, distance, p, k, length, pairs} = state.positions;
    const unless = (value, usual) => (value === usual ? undefined : value);
    return {
      length: unless(length, about().length), pairs: unless(pairs.join(","), about().pairs.join(",")), named: tokens ? "1" : undefined,
      axis: unless(axis, START.axis), distance: distance ?? undefined, p: unless(p, Math.min(START.p, about().steps - 1)),
      k: unless(k, Math.min(START.k, about().steps - 1)), ...spelled,
    };
  };

  const key = () => {
    const {axis, tokens, length, pairs} = state.positions;
    return JSON.stringify([state.model, state.lang, axis, tokens, length, pairs, tokens && atlas.result()?.request]);
  };
  const tableBar = (element) => {
    const range = element.querySelector("input[type=range]");
    const shown = element.querySelector("[data-length]");
    const tokens = element.querySelector("[data-tokens]");
    const axes = element.querySelector("[data-axis]");
    /* Rows that are named by tokens are as many as there are tokens. */
    const named = () => (state.positions?.tokens ? atlas.result()?.request.model === state.model && atlas.maps.axes(
      {kind: "encoder_self", units: "pieces", specials: "shown"})?.rows.length : 0);
    const say_length = () => {
      const count = named();
      range.disabled = Boolean(count);
      shown.textContent = count || range.value;
    };
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
    atlas.maps.onMaps(show);
    atlas.onResult(show);
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

  Object.assign(atlas.positions, {address, tableBar, tableFoot, waveBar});
})();
