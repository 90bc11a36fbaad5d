/* One map as a Plotly figure, built in the page: the same rules as viz/figures/attention_heatmap.py and frame.py.
 *
 * Everything that does not depend on the map (colours, fonts, themes, fixed settings) comes from a template made there, so it is written
 * once; tests/browser/test_heatmap_parity.py holds the two figures against each other.
 */
atlas.heatmap = (() => {
  const {say, state} = atlas;
  const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);
  const most = (numbers) => numbers.reduce((all, one) => Math.max(all, one), 0);
  const whole = (pixels) => Math.floor(pixels + 0.5 - 1e-6); // frame.whole

  /* ---- words ---- */
  const rowName = (choice) => (choice.kind === "encoder_self" ? "encoder_self" : choice.rows);
  const form = (choice) => (typeof choice.head === "number" ? "head" : choice.head);
  const sentences = (view, choice) => {
    const measure = say(`map.measure.${form(choice)}`, {count: atlas.maps.size(choice.kind).heads});
    const scale = say(`map.scale.${choice.colour}`, {measure, largest: view.max.toFixed(4)});
    return [`↓ ${say(`map.row.${rowName(choice)}`)}`, `→ ${say("map.column")}`, scale];
  };

  /* ---- colour ---- */
  const ticks = (view, choice, {sizes}) => {
    if (choice.colour === "log") {
      const powers = Array.from({length: 1 - sizes.log}, (_, i) => sizes.log + i);
      return [powers, powers.map((power) => String(10 ** power))];
    }
    const top = choice.colour === "max" && view.max > 0 ? view.max : 1;
    return [[0, top], ["0", top === view.max && choice.colour === "max" ? view.max.toFixed(4) : "1"]];
  };

  /* ---- sizes in px ---- */
  const cellSize = (count, comfortable, room) => Math.max(Math.min(comfortable, room / count), 6);
  /* Names of rows get the room of the widest of all maps of the run, so that a map of another kind stands on the same place; Plotly would
   * also draw twice where margins change. */
  const rowWidth = (choice) => most(["encoder_self", "cross"].flatMap((kind) => ["predicted", "read"].map((rows) => (
    most(atlas.maps.axes({...choice, kind, rows}).rows.map((label) => label.width))
  ))));
  const layoutSize = ({rows, columns}, choice, {sizes}) => {
    const row = Math.max(cellSize(rows.length, 40, 560), cellSize(rows.length, sizes.pitch, 960));
    const column = cellSize(columns.length, sizes.pitch, 960);
    const left = sizes.edge + 8 + whole(sizes.token * rowWidth(choice));
    const longest = sizes.token * most(columns.map((label) => label.width));
    const upright = longest * columns.length > 600 ? longest : 0;
    const top = sizes.header + 24;
    return {
      left, top, row, column,
      height: whole(top + upright + row * rows.length + 10),
      narrowest: Math.max(sizes.least, whole(left + column * columns.length + sizes.edge)),
      widest: Math.max(sizes.least, whole(left + 1.8 * Math.max(row, column) * columns.length + sizes.edge)),
    };
  };

  /* ---- parts ---- */
  const hiddenAxis = (axis, labels, reverse) => {
    const [low, high] = [-0.5, labels.length - 0.5];
    return Object.assign(axis, {
      range: reverse ? [high, low] : [low, high], autorangeoptions: {clipmin: low, clipmax: high},
      tickvals: labels.map((_, i) => i), ticktext: labels.map((label, i) => `${label.hover} · ${i}`),
    });
  };
  const labelAxis = (axis, labels, cell, {sizes}) => {
    const step = Math.max(1, Math.ceil(sizes.pitch / cell - 1e-9));
    const shown = labels.map((_, i) => i).filter((i) => i % step === 0);
    axis.tickfont.size = cell >= 20 ? sizes.token : sizes.note;
    return Object.assign(axis, {tickvals: shown, ticktext: shown.map((i) => labels[i].short)});
  };
  /* Strokes over masked cells, joined from one end of a diagonal of them to the other (_hatching). */
  const hatching = (masked, down, across, {sizes}) => {
    const strokes = [];
    for (let total = 0; total < down + across - 1; total += Math.ceil(Math.max(down, across) / sizes.strokes)) {
      let start = null;
      const last = Math.min(across, total + 1);
      for (let k = Math.max(0, total - down + 1); k <= last; k++) {
        const inside = k < last && masked[(total - k) * across + k];
        if (inside && start === null) start = k;
        if (inside || start === null) continue;
        const [left, right] = [start - 0.5, k - 0.5];
        strokes.push(`M${left} ${total - left}L${right} ${total - right}`);
        start = null;
      }
    }
    return strokes.join("");
  };
  const inRows = (flat, down, across) => Array.from({length: down}, (_, i) => flat.subarray(i * across, (i + 1) * across));

  const figure = (view, template, choice = state) => {
    const {data: [map, carrier, veil], layout} = structuredClone(template.figures[view.kind]);
    const {sizes} = template;
    const [down, across] = [view.rows.length, view.columns.length];
    const [values, texts] = ticks(view, choice, template);
    const size = layoutSize(view, choice, template);
    const log = choice.colour === "log";
    const name = rowName(choice);
    const tokens = `${say(`map.hover.${name}`)} <b>%{y}</b><br>${say("map.hover.key")} <b>%{x}</b>`;

    const colour = log ? (weight) => Math.log10(Math.max(weight, 10 ** sizes.log)) : (weight) => weight;
    const z = Float32Array.from(view.z, (weight, i) => (view.masked?.[i] ? NaN : colour(weight)));
    const gap = Number(Math.min(size.row, size.column) >= sizes.gap);
    Object.assign(map, {
      xgap: gap, ygap: gap, z: inRows(z, down, across), zmin: values[0], zmax: values.at(-1),
      hovertemplate: `${tokens}<br>${say("map.hover.weight")} <b>%{${log ? "customdata" : "z"}:.4f}</b><extra></extra>`,
    });
    /* Plotly finds no entry in an array of typed arrays. */
    if (log) {
      map.customdata = inRows(view.z, down, across)
        .map((row, i) => Array.from(row, (weight, j) => (view.masked?.[i * across + j] ? null : weight)));
    }
    carrier.marker.color = [values[0]];
    const data = [map, carrier];
    const path = view.masked ? hatching(view.masked, down, across, template) : "";
    if (path) {
      const hovertemplate = `${tokens}<br>${say("map.hover.masked")}<extra></extra>`;
      data.push(Object.assign(veil, {z: inRows(view.masked, down, across), hovertemplate}));
    }
    if (path) layout.shapes[0].path = path;
    else delete layout.shapes;

    layout.height = size.height;
    Object.assign(layout.margin, {l: size.left, t: size.top});
    hiddenAxis(layout.xaxis, view.columns, false);
    hiddenAxis(layout.yaxis, view.rows, true);
    labelAxis(layout.xaxis2, view.columns, size.column, template);
    labelAxis(layout.yaxis2, view.rows, size.row, template);
    layout.title.text = sentences(view, choice).join("<br>");
    Object.assign(layout.coloraxis, {cmin: values[0], cmax: values.at(-1)});
    const end = whole(2 + (sizes.note * sum([...texts.at(-1)].map((char) => template.digits[char]))) / 2);
    const bar = {len: (values.length < 4 ? 52 : 88) + 2 * end, xpad: end, tickvals: values, ticktext: texts};
    Object.assign(layout.coloraxis.colorbar, bar);
    layout.uirevision = [JSON.stringify(atlas.maps.current().request), view.kind, choice.units, choice.specials].join("|");
    Object.assign(layout.meta, {
      queries: view.rows.map((label) => label.raw), keys: view.columns.map((label) => label.raw),
      min_width: size.narrowest, min_height: size.height, max_width: size.widest,
    });
    return {data, layout};
  };

  /* ---- names, measured: what Plotly's automargin would find out by drawing everything, measuring it, and drawing it once more ---- */
  const AIR = 13; // px between the name of a row and its cells, and before it
  const pen = document.createElement("canvas").getContext("2d");
  const entities = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&#36;": "$"};
  const measured = new Map(); // by font and name
  const widthOf = (font, name) => {
    const key = `${font} ${name}`;
    if (!measured.has(key)) {
      if (measured.size > 4000) measured.clear();
      pen.font = font;
      measured.set(key, pen.measureText(name.replace(/&(amp|lt|gt|#36);/g, (entity) => entities[entity])).width);
    }
    return measured.get(key);
  };
  const widths = (axis, {font}) => axis.ticktext.map((name) => widthOf(`${axis.tickfont.size}px ${font.family}`, name));
  /* Names of columns, of these widths, stand upright where two of them would touch. */
  const touch = (wide, {tickvals}, pitch) => (
    wide.some((width, i) => i && (width + wide[i - 1]) / 2 + 2 > pitch * (tickvals[i] - tickvals[i - 1]))
  );
  /* Margins and angle of a figure that has got its width, as Plotly's paths; `seen`: the range of columns in sight. Margins are those of
   * the whole map, so that nothing moves when one looks closer. */
  const fit = (layout, seen) => {
    const {xaxis2, yaxis2, meta} = layout;
    const room = meta.room ??= {...layout.margin};
    const [across, down] = [widths(xaxis2, layout), widths(yaxis2, layout)];
    const l = Math.max(room.l, Math.ceil(most(down)) + AIR);
    const pitch = (count) => (layout.width - l - room.r) / count;
    const columns = meta.keys.length;
    const upright = touch(across, xaxis2, pitch(columns));
    const over = upright ? 0 : Math.ceil((across.at(-1) - pitch(columns)) / 2) + 4; // of the last name, beyond the last cell
    return {
      "margin.l": l, "margin.r": Math.max(room.r, over), "margin.t": room.t + (upright ? Math.ceil(most(across)) : 0),
      "margin.autoexpand": false, "title.automargin": false, "xaxis2.automargin": false, "yaxis2.automargin": false,
      "xaxis2.title.standoff": undefined, "yaxis2.title.standoff": undefined, // Plotly would measure all names to place no title
      "xaxis2.tickangle": touch(across, xaxis2, pitch(seen ? seen[1] - seen[0] : columns)) ? -90 : 0,
    };
  };

  /* The map as sentences for people who cannot see it: for every row the column with the largest weight (map_in_words). */
  const TOLD = 40; // of a long map, only so many rows
  const inWords = ({rows, columns, z, masked}) => {
    const lines = rows.slice(0, TOLD).map((row, i) => {
      const weights = z.subarray(i * columns.length, (i + 1) * columns.length);
      const best = weights.reduce((found, weight, j) => (weight > weights[found] ? j : found), 0);
      if (masked?.[i * columns.length + best]) return say("alt.map.alone", {row: row.text});
      return say("alt.map.line", {row: row.text, column: columns[best].text, value: weights[best].toFixed(2)});
    });
    if (rows.length > TOLD) lines.push(say("alt.map.more", {count: rows.length - TOLD}));
    return say("alt.map", {rows: rows.length, columns: columns.length, lines: lines.join(state.lang === "zh" ? "" : " ")});
  };
  return {figure, fit, inWords};
})();
