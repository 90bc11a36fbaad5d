/* What is said of a head, and the strip beside the map: all heads of the chosen kind. */
(() => {
  const {state, onChange, say, has, make} = atlas;
  const KINDS = ["encoder_self", "decoder_self", "cross"];

  /* ---- a head in words; basis "sentence" (the default) or "profile" ---- */
  const nameOf = ({layer, head}) => `L${layer} H${head}`;
  const measured = ({kind, layer, head}, basis) => atlas.maps.head(kind, layer, head, basis);
  const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(2).replace("-", "−"));
  const roleOf = (cell, basis) => {
    const found = measured(cell, basis);
    if (!found) return "";
    const role = say(`role.${found.role}`);
    if (found.score !== null) return say("heads.role.scored", {role, value: number(found.score)});
    const most = found.measures[found.leaning] ?? null;
    return most === null ? role : say("heads.role.leaning", {role, leaning: say(`role.${found.leaning}`), value: number(most)});
  };
  const definitionOf = (cell, basis) => {
    const found = measured(cell, basis);
    return found ? say(`role.${found.role}.help`) : "";
  };
  const spokenOf = (cell, basis) => say("heads.spoken", {kind: say(`kind.${cell.kind}`), name: nameOf(cell), role: roleOf(cell, basis)});
  /* Of what is chosen: a head, or all heads of a layer taken together. */
  const chosen = (basis) => {
    if (typeof state.head === "number") {
      return {name: say("heads.chosen", {name: nameOf(state)}), role: roleOf(state, basis), help: definitionOf(state, basis)};
    }
    const {heads} = atlas.maps.size(state.kind);
    const [key, help] = [`heads.whole.${state.head}`, `head.${state.head}.help`];
    const name = has(key) ? say(key, {layer: state.layer, count: heads}) : "";
    return {name: say("heads.chosen", {name}), role: "", help: has(help) ? say(help) : ""};
  };
  atlas.headWords = {KINDS, nameOf, measured, number, roleOf, definitionOf, spokenOf, chosen};

  /* ---- the strip ---- */
  const GUTTER = 26; // px for the names of layers
  const [LEAST, MOST] = [12, 40]; // px of a head with the gap after it
  atlas.headsStrip = (element) => {
    const title = make("p", "option-name");
    const room = make("div", "mosaic-room");
    const grid = make("div");
    const names = make("div");
    const said = make("div", "head-said");
    const [name, role, help] = ["name", "role", "help"].map((part) => said.appendChild(make("p", `head-said-${part}`)));
    room.append(names, grid);
    element.replaceChildren(said, title, room);

    let pointed = null;
    const tell = () => {
      const other = pointed && !atlas.isChosen(pointed);
      const words = other ? {name: nameOf(pointed), role: roleOf(pointed), help: definitionOf(pointed)} : chosen();
      const empty = !atlas.maps.current() || state.layer === null;
      said.classList.toggle("pointed", Boolean(other));
      [[name, words.name], [role, words.role], [help, words.help]].forEach(([node, text]) => atlas.fill(node, empty ? "" : text));
    };
    const mosaic = atlas.mosaic(grid, {
      spoken: (cell) => spokenOf(cell),
      onPoint: (cell) => {
        pointed = cell;
        tell();
      },
    });

    let drawn = "";
    let named = "";
    let width = element.clientWidth; // told by the browser below: asking, amid changes, costs a layout of the whole page
    const pitchFor = (heads, width) => Math.max(LEAST, Math.min(MOST, Math.floor((width - GUTTER) / heads)));
    const show = () => {
      const size = atlas.maps.size(state.kind);
      element.classList.toggle("empty", !size.layers);
      element.dataset.kind = state.kind;
      title.textContent = say("heads.strip.title", size);
      grid.setAttribute("aria-label", say("heads.strip.label"));
      pointed = null;
      tell();
      drawn = width ? `${state.kind} ${width}` : "";
      if (!size.layers || !width) return;
      const pitch = pitchFor(size.heads, width);
      /* The room of the tallest kind is kept, so that what stands below stays where it is. */
      const heights = KINDS.map((kind) => atlas.maps.size(kind)).map(({layers, heads}) => layers * pitchFor(heads, width));
      room.style.minHeight = `${Math.max(...heights)}px`;
      const shape = `${size.layers} ${size.heads} ${pitch}`;
      if (named !== shape) names.replaceChildren(atlas.mosaicNames({...size, pitch})); // most models have as many heads of every kind
      named = shape;
      mosaic.show({cells: atlas.laidOut(state.kind, size), side: pitch - (pitch >= 24 ? 4 : 2), pitch: [pitch, pitch]});
    };
    onChange(["lang", "kind"], show);
    onChange(["layer", "head"], tell);
    atlas.maps.onMaps(show);
    new ResizeObserver(() => {
      width = element.clientWidth;
      if (width && drawn !== `${state.kind} ${width}`) show();
    }).observe(element);
    show();
  };
})();
