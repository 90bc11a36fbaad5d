/* The chosen map, large, on a canvas of the Heads tab: tokens along its sides, the weight of the cell that is pointed at below it.
 * What is pointed at here is in focus everywhere (atlas.focus), and the other way round. */
(() => {
  const {state, onChange, say, make, paint} = atlas;
  const FONT = 12; // px
  const LABEL = 15; // px that a line of text needs; narrower rows and columns have no names
  const SLANTED = 18; // px that a name at 45 degrees needs; in narrower columns names stand upright
  const [ROOM, TALL, GAP] = [92, 264, 6]; // px: longest name, tallest map, between a name and the map
  const MOST = 44; // px of one cell

  /* view().z as bytes, with the mark of masked cells. */
  const thumbOf = ({z, masked, rows, columns}) => ({
    rows: rows.length, columns: columns.length,
    data: Uint16Array.from(z, (weight, at) => (masked?.[at] ? paint.MASKED : Math.round(Math.min(1, weight) * 255))),
  });
  const cut = (context, text, room) => {
    if (context.measureText(text).width <= room) return text;
    const letters = [...text];
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
    return `${letters.join("")}…`;
  };

  atlas.headMap = (host) => {
    const frame = make("div", "head-map");
    const canvas = make("canvas");
    const lines = make("canvas", "mosaic-lines");
    const said = make("p", "head-map-said");
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    said.setAttribute("aria-live", "polite");
    frame.append(canvas, lines);
    host.append(frame, said);
    let view = null;
    let drawnWidth = 0;
    let box = null; // of the cells: {left, top, width, height, across, down} in CSS px

    const layout = (context, width) => {
      const [down, across] = [view.rows.length, view.columns.length];
      const longest = (labels) => Math.min(ROOM, Math.max(...labels.map((label) => context.measureText(label.text).width)));
      let left = longest(view.rows) + GAP;
      if (TALL / down < LABEL) left = 0;
      let cell = Math.min(MOST, (width - left) / across, TALL / down);
      const long = longest(view.columns);
      const slanted = cell >= SLANTED;
      if (slanted) cell = Math.min(cell, (width - left - long * 0.71 - FONT / 2) / (across - 0.5)); // the last name leans out
      const named = cell >= LABEL;
      const even = cell >= 8; // of many tokens the map fills its place instead, and its cells are not square
      const size = even ? [cell * across, cell * down] : [width - left, Math.min(TALL, width)];
      const top = named ? (slanted ? long * 0.71 + FONT : long) + GAP : 0;
      return {left, top, width: size[0], height: size[1], across: size[0] / across, down: size[1] / down, named, slanted};
    };
    const fit = (target, width, height, ratio) => {
      Object.assign(target, {width: Math.max(1, Math.round(width * ratio)), height: Math.max(1, Math.round(height * ratio))});
      Object.assign(target.style, {width: `${width}px`, height: `${height}px`});
      const context = target.getContext("2d");
      context.font = `${FONT}px ${getComputedStyle(document.body).fontFamily}`;
      return context;
    };
    const drawNames = (context) => {
      context.fillStyle = `rgb(${paint.colour("ink").join(" ")})`;
      context.textBaseline = "middle";
      if (box.left) {
        context.textAlign = "right";
        view.rows.forEach((label, i) => context.fillText(cut(context, label.text, ROOM), box.left - GAP, box.top + (i + 0.5) * box.down));
      }
      if (!box.named) return;
      context.textAlign = "left";
      view.columns.forEach((label, j) => {
        context.save();
        context.translate(box.left + (j + 0.5) * box.across, box.top - GAP);
        context.rotate(box.slanted ? -Math.PI / 4 : -Math.PI / 2);
        context.fillText(cut(context, label.text, ROOM), 0, 0);
        context.restore();
      });
    };
    const draw = () => {
      const width = host.clientWidth;
      if (!width || !host.offsetParent) return (drawnWidth = 0);
      drawnWidth = width;
      view = state.layer === null ? null : atlas.maps.view();
      frame.setAttribute("aria-label", say("heads.map.label"));
      frame.classList.toggle("waiting", !view);
      if (!view) {
        if (atlas.maps.current()) atlas.maps.want(state.kind, state.layer);
        return tell();
      }
      const ratio = window.devicePixelRatio || 1;
      box = layout(fit(canvas, 1, 1, 1), width);
      const context = fit(canvas, width, Math.ceil(box.top + box.height), ratio);
      fit(lines, width, Math.ceil(box.top + box.height), ratio);
      context.scale(ratio, ratio);
      drawNames(context);
      const [x, y, wide, high] = [box.left, box.top, box.width, box.height].map((size) => Math.round(size * ratio));
      const image = context.createImageData(wide, high);
      const shades = paint.ramp(paint.colour("page"), paint.colour(view.kind), 1, state.colour === "max" ? view.max : 1);
      const [down, across] = [paint.spans(view.rows.length, high), paint.spans(view.columns.length, wide)];
      paint.map(new Uint32Array(image.data.buffer), wide, [0, 0], thumbOf(view), down, across, shades);
      context.putImageData(image, x, y);
      canvas.dataset.drawn = String(Number(canvas.dataset.drawn || 0) + 1);
      canvas.dataset.box = JSON.stringify([x, y, wide, high]);
      drawLines();
    };
    const drawLines = () => {
      tell();
      if (!box || !view) return;
      const ratio = window.devicePixelRatio || 1;
      const context = lines.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, lines.width, lines.height);
      const {row, column} = atlas.focus.get();
      context.fillStyle = `rgb(${paint.colour("ink").join(" ")} / 0.1)`;
      if (row !== null) context.fillRect(0, box.top + row * box.down, box.left + box.width, box.down);
      if (column !== null) context.fillRect(box.left + column * box.across, box.top, box.across, box.height);
      if (row === null || column === null) return;
      context.strokeStyle = `rgb(${paint.colour("ink").join(" ")})`;
      context.strokeRect(box.left + column * box.across + 0.5, box.top + row * box.down + 0.5, box.across - 1, box.down - 1);
    };
    const tell = () => {
      const {row, column} = atlas.focus.get();
      if (!view) return atlas.fill(said, atlas.maps.current() ? say("heads.map.waiting") : "");
      if (row === null || column === null || !view.rows[row] || !view.columns[column]) return atlas.fill(said, say("heads.map.rest"));
      const at = row * view.columns.length + column;
      const cell = say("heads.cell", {row: view.rows[row].text, i: view.rows[row].start, column: view.columns[column].text, j: view.columns[column].start});
      const weight = view.masked?.[at] ? say("heads.cell.masked") : say("heads.cell.weight", {value: view.z[at].toFixed(4)});
      atlas.fill(said, `${cell} · ${weight}`);
    };

    const cellAt = (event) => {
      if (!box || !view) return null;
      const {left, top} = frame.getBoundingClientRect();
      const column = Math.floor((event.clientX - left - box.left) / box.across);
      const row = Math.floor((event.clientY - top - box.top) / box.down);
      return row >= 0 && column >= 0 && row < view.rows.length && column < view.columns.length ? [row, column] : null;
    };
    frame.addEventListener("pointermove", (event) => {
      const cell = cellAt(event);
      if (cell) atlas.focus.hover(...cell);
      else atlas.focus.leave();
    });
    frame.addEventListener("pointerleave", () => atlas.focus.leave());
    frame.addEventListener("click", (event) => {
      const cell = cellAt(event);
      if (cell) atlas.focus.pin(...cell);
    });
    frame.addEventListener("keydown", (event) => {
      const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
      if (!view || (!step && event.key !== "Escape")) return;
      event.preventDefault();
      if (!step) return atlas.focus.clear();
      const {row, column} = atlas.focus.get();
      const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
      const first = row === null || column === null;
      atlas.focus.hover(...(first ? [row ?? 0, column ?? 0] : [clamp(row + step[0], view.rows.length), clamp(column + step[1], view.columns.length)]));
    });
    frame.addEventListener("blur", () => atlas.focus.leave());

    onChange(["lang", "kind", "layer", "head", "rows", "units", "specials", "colour"], draw);
    atlas.onTheme(draw);
    atlas.maps.onMaps(draw);
    atlas.focus.onFocus(drawLines);
    new ResizeObserver(() => host.clientWidth !== drawnWidth && draw()).observe(host);
    draw();
  };
})();
