/* Part 6: the Positions tab: how many positions, which pairs of dimensions, tokens as row names. */
(() => {
  const {state, set, onChange, say, make} = atlas;

  const change = (patch) => set({positions: {...state.positions, ...patch}});
  const redraw = () => atlas.begin("positions");

  const about = () => atlas.model()?.positions;
  /* Whatever is shown stays with the model in use; without one, the tab says so. */
  const follow = (show) => {
    onChange(["lang"], show);
    atlas.onModel(show);
    show();
  };

  const head = (element) => {
    const line = element.querySelector("[data-layout]");
    atlas.applyText(element);
    follow(() => {
      document.body.classList.toggle("atlas-no-positions", !about());
      atlas.fill(line, about() ? say(`positions.layout.${about().layout}`) : "");
    });
  };

  const foot = (element) => {
    const line = element.querySelector("[data-heat-caption]");
    follow(() => atlas.fill(line, say(about()?.layout === "halves" ? "positions.heatmap.caption.halves" : "positions.heatmap.caption")));
  };

  const controls = (element) => {
    const range = element.querySelector("input[type=range]");
    const shown = element.querySelector("[data-length]");
    const tokens = element.querySelector("[data-tokens]");
    const chips = element.querySelector("[data-pairs]");
    const say_length = () => (shown.textContent = range.value);
    const soon = atlas.debounce(120, () => change({length: Number(range.value)}));
    range.addEventListener("input", () => {
      say_length();
      soon();
    });
    tokens.addEventListener("change", () => change({tokens: tokens.checked}));

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
    /* Another model may have other dimensions and fewer positions. */
    const fit = () => {
      if (!about()) return;
      const {max_length, length, pairs, offered} = about();
      const kept = (state.positions?.pairs || []).filter((pair) => offered.some((each) => each.pair === pair));
      Object.assign(state, {positions: {
        length: Math.min(state.positions?.length ?? length, max_length),
        pairs: kept.length && kept.length === state.positions.pairs.length ? kept : pairs,
        tokens: state.positions?.tokens ?? false,
      }});
      range.max = max_length;
      range.value = state.positions.length;
      tokens.checked = state.positions.tokens;
      boxes = offered.map(makeBox);
      chips.replaceChildren(...boxes.map(({label}) => label));
      say_length();
      show();
      redraw();
    };
    onChange(["lang", "positions"], () => about() && (show(), redraw()));
    atlas.onModel(fit);
    atlas.onResult(() => state.positions?.tokens && redraw());
    atlas.applyText(element);
    fit();
  };

  atlas.positions = {head, foot, controls};
})();
