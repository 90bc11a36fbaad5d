/* Positions: wavelengths, similarity by distance, other schemes, and adding against joining. Pictures and numbers come from the server. */
(() => {
  const {state, onChange, say, make} = atlas;
  const {follow, change, whenSeen} = atlas.positions;

  /* Lines of text from the server, [{key, params}], in the language of the page. */
  const write = (host, lines) => host.replaceChildren(...lines.map(({key, params}) => make("p", "caption", say(key, params))));
  const request = () => atlas.result()?.request ?? null;
  const sectionOf = (element) => element.closest(".position-section");
  /* Shows props.value as `show(value)` does, now, when another comes and when the language changes. */
  const shown = (element, props, watch, show) => {
    const again = () => props.value && show(props.value);
    watch("value", again);
    onChange(["lang"], again);
    atlas.applyText(element);
    again();
    return again;
  };

  const wavelengths = (element, props, watch) => {
    const host = element.querySelector("[data-said]");
    shown(element, props, watch, (lines) => write(host, lines));
    whenSeen(sectionOf(element), "position_wavelengths", () => JSON.stringify([state.model, state.lang, request()]));
  };

  /* ---- distance: until one is chosen, the step taken apart is that of the first rise ---- */
  let found = null; // {first, last, distance}
  const distanceBar = (element) => {
    const range = element.querySelector("input");
    const output = element.querySelector("output");
    const back = element.querySelector("[data-first]");
    const soon = atlas.debounce(120, () => change({distance: Number(range.value)}));
    range.addEventListener("input", () => {
      output.textContent = range.value;
      soon();
    });
    back.addEventListener("click", () => change({distance: null}));
    atlas.positions.showDistance = () => {
      range.max = found.last;
      range.value = found.distance;
      output.textContent = range.value;
      back.hidden = found.first === null || found.first === found.distance;
    };
    atlas.applyText(element);
    if (found) atlas.positions.showDistance();
  };
  const distance = (element, props, watch) => {
    const host = element.querySelector("[data-said]");
    shown(element, props, watch, (value) => {
      if (!value.said) return;
      found = value;
      write(host, value.said);
      atlas.positions.showDistance?.();
    });
    whenSeen(sectionOf(element), "position_distance", () => (
      JSON.stringify([state.model, state.lang, state.positions.length, state.positions.distance ?? null])
    ));
  };

  /* ---- other schemes ---- */
  const grouped = (count) => count.toLocaleString("en-US");
  const told = (table) => table && {
    encoder: table.num_encoder_layers, decoder: table.num_decoder_layers, wide: table.d_model, tokens: grouped(table.tokens),
    loss: table.valid_loss.toFixed(2), places: table.places, texts: grouped(table.texts), norm: table.norm.toFixed(1),
    sines: table.sines.toFixed(1),
  };
  const schemes = (element, props, watch) => {
    const host = element.querySelector("[data-said]");
    shown(element, props, watch, ({parameters, spread, head_dim, num_heads, limit, d_model, table}) => {
      element.querySelectorAll("[data-number]").forEach((cell) => (cell.textContent = grouped(parameters[cell.dataset.number])));
      const params = {head_dim, num_heads, limit, d_model, spread: spread === null ? "" : atlas.positions.tiny(spread)};
      write(host, [
        {key: spread === null ? "positions.schemes.said.odd" : "positions.schemes.said", params},
        {key: table ? "positions.schemes.said.learned" : "positions.schemes.said.unlearned", params: {...params, ...told(table)}},
      ]);
    });
    whenSeen(sectionOf(element), "position_schemes", () => JSON.stringify([state.model, state.lang]));
  };

  /* ---- adding against joining ---- */
  const bar = (count, most, least) => {
    const node = make("i", "way-bar");
    node.style.setProperty("--p", count / most);
    node.style.setProperty("--least", least / count);
    return node;
  };
  const join = (element, props, watch) => {
    const host = element.querySelector("[data-ways]");
    const line = element.querySelector("[data-said]");
    shown(element, props, watch, ({src_len, tgt_len, sentence, d_model, d_ff, ways}) => {
      const most = (name) => Math.max(...Object.values(ways).map((way) => way[name]));
      const number = (way, name) => {
        const cell = make("div", "way-number");
        const more = way[name] - ways.added[name];
        const text = make("p");
        text.append(make("span", "faint", say(`positions.join.${name}`)), make("b", "", grouped(way[name])));
        const share = atlas.percent(more / ways.added[name], 1);
        const difference = make("p", "faint more", more ? `+${grouped(more)} · +${share}` : "");
        cell.append(text, bar(way[name], most(name), ways.added[name]), difference);
        return cell;
      };
      host.replaceChildren(...Object.entries(ways).map(([name, way]) => {
        const node = make("section", "way");
        const words = make("div");
        const params = {d_model, width: way.width, double: 2 * d_model, d_ff};
        words.append(make("h4", "", say(`positions.join.${name}`)), make("p", "", say(`positions.join.${name}.help`, params)));
        node.append(words, number(way, "parameters"), number(way, "operations"));
        return node;
      }));
      line.textContent = say(sentence ? "positions.join.said" : "positions.join.said.none", {src_len, tgt_len});
    });
    whenSeen(sectionOf(element), "position_join", () => JSON.stringify([state.model, request()]));
  };

  Object.assign(atlas.positions, {wavelengths, distanceBar, distance, schemes, join, write});
})();
