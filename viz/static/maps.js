/* All maps of one translation, decoded when they are needed: what every view of the page reads its numbers from.
 *
 * The payload (form: viz/panels/maps_value.py) comes once per translation. Any kind, layer, head, unit and choice of special tokens is
 * made from it here, without the server. Of a sentence above 64 tokens a layer's weights are asked for when they are wanted.
 * Nothing in this file needs Gradio: an offline page calls atlas.maps.take(payload), and nothing is ever asked for.
 */
atlas.maps = (() => {
  const {state} = atlas;
  const FULL = 65535; // stands for a weight of 1
  const KEPT_WEIGHTS = 24; // maps kept after they were decoded; of 512 tokens one is 1 MB
  const KEPT_VIEWS = 12;

  let payload = null;
  let request = ""; // of the run, as text, to compare
  let chunk = null; // the last one that came: it is not sent again if the same run comes back
  const listeners = new Set();
  const tell = () => listeners.forEach((listener) => listener());

  /* A memory of the last `size` answers. */
  const memory = (size) => {
    const kept = new Map();
    return {
      clear: () => kept.clear(),
      get: (key, make) => {
        const value = kept.has(key) ? kept.get(key) : make();
        kept.delete(key);
        if (value !== null) kept.set(key, value);
        if (kept.size > size) kept.delete(kept.keys().next().value);
        return value;
      },
    };
  };
  const layers = memory(96);
  const maps = memory(KEPT_WEIGHTS);
  const sides = memory(48);
  const views = memory(KEPT_VIEWS);
  const thumbs = memory(8);
  const forget = () => [layers, maps, sides, views, thumbs].forEach((one) => one.clear());

  /* ---- numbers ---- */
  const bytes = (text) => {
    const binary = atob(text);
    const found = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) found[i] = binary.charCodeAt(i);
    return found;
  };
  const stored = (kind, layer, head) => payload?.kinds[kind]?.[{rollout: "rollout", norm: "norm"}[head] || "weights"]?.[layer] ?? null;
  /* Of causal maps only what is not in the future has come: row i of a map of `side` rows with i + 1 cells. */
  const squares = (cells, side) => {
    const found = new Uint16Array(((2 * cells.length) / (side + 1)) * side);
    let from = 0;
    for (let row = 0; row * side < found.length; row++) {
      const count = (row % side) + 1;
      found.set(cells.subarray(from, from + count), row * side);
      from += count;
    }
    return found;
  };
  /* Of a layer: all heads [H, Q, K], its rollout or its norms [Q, K]. */
  const whole = (kind, layer, head) => layers.get(`${kind} ${layer} ${head}`, () => {
    const text = stored(kind, layer, head);
    if (text === null) return null;
    const {buffer} = bytes(text);
    const view = new DataView(buffer); // little-endian on every machine
    const found = new Uint16Array(buffer.byteLength / 2);
    for (let i = 0; i < found.length; i++) found[i] = view.getUint16(2 * i, true);
    return kind === "decoder_self" ? squares(found, size(kind).queries) : found;
  });
  const rowSide = (kind, rows = state.rows) => (kind === "encoder_self" ? "source" : rows);
  const columnSide = (kind) => (kind === "decoder_self" ? "read" : "source");
  const size = (kind) => {
    const of = payload?.kinds[kind];
    if (!of) return {layers: 0, heads: 0, queries: 0, keys: 0};
    const count = (side) => payload.sides[side].pieces.en.length;
    return {layers: of.layers, heads: of.heads, queries: count(rowSide(kind)), keys: count(columnSide(kind))};
  };
  const has = (kind, layer) => stored(kind, layer, 0) !== null;
  const inside = (kind, layer, head) => {
    const {layers: count, heads} = size(kind);
    return Number.isInteger(layer) && layer >= 0 && layer < count
      && (["mean", "max", "rollout", "norm"].includes(head) || (Number.isInteger(head) && head >= 0 && head < heads));
  };
  /* Whether a head "norm" was measured at all. */
  const hasNorm = (kind) => Boolean(payload?.kinds[kind]?.norm);
  /* Float32Array [Q * K], or null: not here, or (norm) not measured. */
  const weights = (kind, layer, head) => maps.get(`${kind} ${layer} ${head}`, () => {
    if (!inside(kind, layer, head)) return null;
    const alone = head === "rollout" || head === "norm";
    const all = whole(kind, layer, alone ? head : "heads");
    if (!all) return null;
    const {heads, queries, keys} = size(kind);
    const cells = queries * keys;
    const found = new Float32Array(cells);
    if (head === "mean") {
      for (let i = 0; i < cells; i++) {
        let sum = 0;
        for (let h = 0; h < heads; h++) sum += all[h * cells + i];
        found[i] = sum / heads / FULL;
      }
    } else if (head === "max") {
      for (let i = 0; i < cells; i++) {
        let most = 0;
        for (let h = 0; h < heads; h++) most = Math.max(most, all[h * cells + i]);
        found[i] = most / FULL;
      }
    } else {
      const start = alone ? 0 : head * cells;
      for (let i = 0; i < cells; i++) found[i] = all[start + i] / FULL;
    }
    return found;
  });

  /* ---- labels: what stands on a side, whole and with the special tokens left out ---- */
  const labels = (side, units) => sides.get(`${side} ${units} ${state.lang}`, () => {
    const of = payload.sides[side][units];
    return of.en.map((english, i) => of[state.lang]?.[i] ?? english);
  });
  const shown = (side, units, specials) => sides.get(`${side} ${units} ${state.lang} ${specials}`, () => {
    const all = labels(side, units);
    const kept = specials === "hidden" ? all.filter((label) => !label.special) : all;
    return kept.length ? kept : all; // nothing but special tokens: an empty map would say nothing
  });
  const axes = ({kind, rows = "predicted", units = "pieces", specials = "shown"} = state) => {
    if (!payload?.kinds[kind]) return null;
    return {
      rows: shown(rowSide(kind, rows), units, specials), columns: shown(columnSide(kind), units, specials),
      rowSequence: kind === "encoder_self" ? "source" : "target", columnSequence: kind === "decoder_self" ? "target" : "source",
    };
  };

  /* ---- one map as it is shown: key columns of a word added up, query rows of a word averaged, so that rows still sum to 1 ---- */
  const view = (choice = state) => {
    const {kind, layer, head, rows = "predicted", units = "pieces", specials = "shown"} = choice;
    return views.get(`${kind} ${layer} ${head} ${rows} ${units} ${specials} ${state.lang}`, () => {
      const weight = weights(kind, layer, head);
      const side = weight && axes(choice);
      if (!side) return null;
      const {keys} = size(kind);
      const kept = new Set(side.columns);
      const out = labels(columnSide(kind), units).filter((label) => !kept.has(label));
      const [down, across] = [side.rows.length, side.columns.length];
      const z = new Float32Array(down * across);
      const masked = kind === "decoder_self" ? new Uint8Array(down * across) : null;
      let hidden = 0;
      let max = 0;
      const sumOf = (weight, row, column) => {
        let found = 0;
        for (let i = row.start; i < row.stop; i++) {
          for (let j = column.start; j < column.stop; j++) found += weight[i * keys + j];
        }
        return found / (row.stop - row.start);
      };
      /* The largest of a word is that of the head that gives most to the word, not a sum of what several heads give to its pieces. */
      const each = head === "max" && units === "words" ? Array.from({length: size(kind).heads}, (_, one) => weights(kind, layer, one)) : null;
      const sum = (row, column) => (each ? each.reduce((most, one) => Math.max(most, sumOf(one, row, column)), 0) : sumOf(weight, row, column));
      side.rows.forEach((row, i) => {
        side.columns.forEach((column, j) => {
          const at = i * across + j;
          if (masked && column.start >= row.stop) return (masked[at] = 1); // every key of the word comes after its last query
          z[at] = sum(row, column);
          if (z[at] > max) max = z[at];
        });
        out.forEach((column) => (hidden += sum(row, column)));
      });
      return {kind, layer, head, rows: side.rows, columns: side.columns, z, masked, hidden: hidden / down, max};
    });
  };

  /* ---- small pictures ---- */
  const thumb = (kind, layer, head) => thumbs.get(`${kind} ${layer} ${head}`, () => {
    if (!inside(kind, layer, head)) return null;
    const {heads, queries, keys} = size(kind);
    const exact = weights(kind, layer, head);
    if (exact) return {data: Uint8Array.from(exact, (weight) => Math.round(weight * 255)), rows: queries, columns: keys, exact: true};
    const of = payload.kinds[kind].thumbs;
    if (!of || !Number.isInteger(head)) return null;
    const cells = of.rows * of.columns;
    const start = (layer * heads + head) * cells;
    const all = layers.get(`${kind} thumbs`, () => bytes(of.data));
    return {data: all.subarray(start, start + cells), rows: of.rows, columns: of.columns, exact: false};
  });
  const head = (kind, layer, index, basis = "sentence") => {
    const of = basis === "profile" ? payload?.profile?.heads : payload?.heads;
    return of?.[kind]?.[layer]?.[index] ?? null;
  };

  /* ---- layers on demand: one question at a time, the last wish first ---- */
  const PATIENCE = 2; // answers that brought nothing, until a wish is given up
  let ask = null; // how to ask the server; none on an offline page
  let wishes = [];
  let asked = null;
  const next = () => {
    if (asked || !ask) return;
    wishes = wishes.filter((wish) => !has(wish.kind, wish.layer) && wish.tries < PATIENCE);
    asked = wishes.at(-1) || null;
    if (!asked) return;
    asked.tries += 1;
    state.wanted_layer = {kind: asked.kind, layer: asked.layer};
    ask();
  };
  const want = (kind, layer) => {
    if (!payload || !ask || !inside(kind, layer, "mean") || has(kind, layer)) return;
    const known = wishes.find((wish) => wish.kind === kind && wish.layer === layer);
    wishes = [...wishes.filter((wish) => wish !== known), known || {kind, layer, tries: 0}];
    next();
  };
  const add = ({kind, layer, ...parts}) => {
    const of = payload.kinds[kind];
    ["weights", "rollout", "norm"].forEach((name) => of[name] && (of[name][layer] = parts[name] ?? null));
    forget();
  };
  /* An answer for an older run is kept out of the newer one's maps. */
  const takeChunk = (value) => {
    const answer = value ? JSON.parse(value) : null;
    if (!answer) return;
    chunk = {...answer, run: JSON.stringify(answer.request)};
    asked = null;
    if (payload && chunk.run === request) {
      add(chunk);
      tell();
    }
    next();
  };
  const take = (value) => {
    const text = value || null;
    payload = typeof text === "string" ? JSON.parse(text) : text;
    request = JSON.stringify(payload?.request ?? null);
    wishes = [];
    asked = null;
    forget();
    if (payload && chunk?.run === request) add(chunk);
    atlas.focus.clear();
    tell();
  };

  /* The two hidden components through which Gradio hands the data over. */
  atlas.mapsValue = (props, watch) => {
    watch("value", () => take(props.value));
    take(props.value);
  };
  atlas.mapsChunk = (props, watch) => {
    ask = () => atlas.begin("maps");
    watch("value", () => takeChunk(props.value));
    atlas.onSettled(() => { // nothing is under way any more: what was asked for has come, or will not
      asked = null;
      next();
    });
    next();
  };

  return {current: () => payload, onMaps: (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    take, size, has, hasNorm, want, weights, axes, view, thumb, head};
})();

/* What is looked at now: a row, a column or a cell of the map shown, the same in every view.
 *
 * It is kept by place in the sentence, not by number, so it stays on its word when pieces become words or another head is chosen.
 */
atlas.focus = (() => {
  const NONE = {row: null, column: null};
  const listeners = new Set();
  let pin = null; // {row, column}: {sequence, start} or null each
  let over = null;
  let last = "";
  const sides = () => atlas.maps.axes();

  const place = (list, sequence, index) => (list[index ?? -1] ? {sequence, start: list[index].start} : null);
  const places = ({row, column}) => {
    const now = sides();
    if (!now) return null;
    const found = {row: place(now.rows, now.rowSequence, row), column: place(now.columns, now.columnSequence, column)};
    return found.row || found.column ? found : null;
  };
  const index = (list, sequence, where) => {
    if (!where || where.sequence !== sequence) return null;
    const found = list.findIndex(({start, stop}) => start <= where.start && where.start < stop);
    return found < 0 ? null : found;
  };
  const indices = (found) => {
    const now = found && sides();
    return now ? {row: index(now.rows, now.rowSequence, found.row), column: index(now.columns, now.columnSequence, found.column)} : NONE;
  };
  const get = () => ({...indices(over || pin), pinned: Boolean(pin) && !over});
  const pinned = () => indices(pin);

  const tell = () => {
    const now = JSON.stringify([get(), pinned()]);
    if (now === last) return;
    last = now;
    listeners.forEach((listener) => listener(get()));
  };
  /* What has no place in the map shown now is let go. */
  const replace = () => {
    const still = (found) => (found && places(indices(found))) || null;
    pin = still(pin);
    over = still(over);
    tell();
  };
  atlas.onChange(["kind", "rows", "units", "specials"], replace);

  return {
    get, pinned,
    hover(row, column) {
      over = places({row, column});
      tell();
    },
    leave() {
      over = null;
      tell();
    },
    pin(row, column) {
      const wanted = places({row, column});
      const same = JSON.stringify(wanted) === JSON.stringify(pin);
      pin = same ? null : wanted;
      over = null;
      tell();
    },
    clear() {
      pin = over = null;
      tell();
    },
    onFocus: (listener) => (listeners.add(listener), () => listeners.delete(listener)),
  };
})();
