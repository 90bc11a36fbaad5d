/* One attention map on a small canvas, with numbers it is handed: maps that are not those of the translation on the page, such as that of
 * shuffled words. Tokens stand along its sides, the weight of the cell that is pointed at below it; arrow keys go from cell to cell.
 *
 * show({rows, columns: [{text, id}], z: Float32Array, kind, causal}) draws it. Maps with one `group` light up the same pair of tokens,
 * told apart by `id`, wherever it stands in each.
 */
(() => {
  const {say, make, paint, onChange} = atlas;
  const FONT = 12; // px
  const NEED = 15; // px that a line of text needs; narrower rows and columns have no names
  const SLANTED = 18; // px that a name at 45 degrees needs
  const [ROOM, TALL, GAP, MOST] = [84, 380, 6, 40]; // px: longest name, tallest map, between name and map, one cell
  const cut = (context, text, room) => {
    if (context.measureText(text).width <= room) return text;
    const letters = [...text];
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
    return `${letters.join("")}…`;
  };
  const sized = (canvas, width, height, ratio) => {
    Object.assign(canvas, {width: Math.max(1, Math.round(width * ratio)), height: Math.max(1, Math.round(height * ratio))});
    Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = `${FONT}px ${getComputedStyle(document.body).fontFamily}`;
    return context;
  };

  /* What is pointed at in any map of a group: the ids of row and column, or null. */
  const groups = new Map();
  const groupOf = (name) => {
    if (!groups.has(name)) {
      const maps = new Set();
      groups.set(name, {maps, at: null, point(at) {
        this.at = at;
        maps.forEach((map) => map());
      }});
    }
    return groups.get(name);
  };

  atlas.smallMap = (host, {name, group}) => {
    const frame = make("div", "small-map");
    const [canvas, lines] = [make("canvas"), make("canvas", "small-map-lines")];
    const said = make("p", "small-map-said");
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    said.setAttribute("aria-live", "polite");
    frame.append(canvas, lines);
    host.append(frame, said);
    const shared = groupOf(group);
    let map = null;
    let box = null; // of the cells, in CSS px
    let drawnWidth = 0;

    const layout = (context, width) => {
      const [down, across] = [map.rows.length, map.columns.length];
      const longest = (labels) => Math.min(ROOM, Math.max(...labels.map(({text}) => context.measureText(text).width)));
      const left = TALL / down < NEED ? 0 : longest(map.rows) + GAP;
      let cell = Math.min(MOST, (width - left) / across, TALL / down);
      const long = longest(map.columns);
      const slanted = cell >= SLANTED;
      if (slanted) cell = Math.min(cell, (width - left - long * 0.71 - FONT / 2) / (across - 0.5)); // the last name leans out
      const named = cell >= NEED;
      const top = named ? (slanted ? long * 0.71 + FONT : long) + GAP : 0;
      return {left, top, width: cell * across, height: cell * down, cell, named, slanted};
    };
    const names = (context) => {
      context.fillStyle = `rgb(${paint.colour("ink").join(" ")})`;
      context.textBaseline = "middle";
      context.textAlign = "right";
      const middle = (i) => box.top + (i + 0.5) * box.cell;
      if (box.left) map.rows.forEach(({text}, i) => context.fillText(cut(context, text, ROOM), box.left - GAP, middle(i)));
      if (!box.named) return;
      context.textAlign = "left";
      map.columns.forEach(({text}, j) => {
        context.save();
        context.translate(box.left + (j + 0.5) * box.cell, box.top - GAP);
        context.rotate(box.slanted ? -Math.PI / 4 : -Math.PI / 2);
        context.fillText(cut(context, text, ROOM), 0, 0);
        context.restore();
      });
    };
    const hidden = (i, j) => map.causal && j > i;
    const bytes = () => {
      const across = map.columns.length;
      return Uint16Array.from(map.z, (weight, at) => (
        hidden(Math.floor(at / across), at % across) ? paint.MASKED : Math.round(Math.min(1, weight) * 255)));
    };
    const draw = () => {
      frame.setAttribute("aria-label", say("positions.map.spoken", {name: name()}));
      const width = host.clientWidth;
      if (!map || !width || !host.offsetParent) return (drawnWidth = 0);
      drawnWidth = width;
      const ratio = window.devicePixelRatio || 1;
      box = layout(sized(canvas, 1, 1, 1), width);
      const context = sized(canvas, width, Math.ceil(box.top + box.height) + 1, ratio);
      names(context);
      const [x, y, wide, high] = [box.left, box.top, box.width, box.height].map((size) => Math.round(size * ratio));
      const image = context.createImageData(wide, high);
      const [down, across] = [paint.spans(map.rows.length, high), paint.spans(map.columns.length, wide)];
      const shades = paint.ramp(paint.colour("page"), paint.colour(map.kind), 1, 1);
      const thumb = {data: bytes(), rows: map.rows.length, columns: map.columns.length};
      paint.map(new Uint32Array(image.data.buffer), wide, [0, 0], thumb, down, across, shades);
      context.putImageData(image, x, y);
      context.strokeStyle = `rgb(${paint.colour("line").join(" ")})`;
      context.strokeRect(box.left - 0.5, box.top - 0.5, box.width + 1, box.height + 1);
      canvas.dataset.drawn = String(Number(canvas.dataset.drawn || 0) + 1);
      drawLines();
    };
    const place = (labels, id) => labels.findIndex((label) => label.id === id);
    const pointed = () => (map && shared.at ? [place(map.rows, shared.at[0]), place(map.columns, shared.at[1])] : [-1, -1]);
    const drawLines = () => {
      if (!map || !box) return;
      const [row, column] = pointed();
      const context = sized(lines, drawnWidth, Math.ceil(box.top + box.height) + 1, window.devicePixelRatio || 1);
      if (row >= 0 && column >= 0) {
        context.fillStyle = `rgb(${paint.colour("ink").join(" ")} / 0.1)`;
        context.fillRect(0, box.top + row * box.cell, box.left + box.width, box.cell);
        context.fillRect(box.left + column * box.cell, box.top, box.cell, box.height);
        context.strokeStyle = `rgb(${paint.colour("ink").join(" ")})`;
        context.strokeRect(box.left + column * box.cell + 0.5, box.top + row * box.cell + 0.5, box.cell - 1, box.cell - 1);
      }
      tell(row, column);
    };
    const tell = (row, column) => {
      if (row < 0 || column < 0) return atlas.fill(said, say("positions.map.rest"));
      const value = map.z[row * map.columns.length + column];
      const weight = hidden(row, column) ? say("heads.cell.masked") : say("heads.cell.weight", {value: value.toFixed(4)});
      atlas.fill(said, `${say("heads.cell", {row: map.rows[row].text, i: row, column: map.columns[column].text, j: column})} · ${weight}`);
    };

    const cellAt = (event) => {
      if (!box || !map) return null;
      const {left, top} = frame.getBoundingClientRect();
      const column = Math.floor((event.clientX - left - box.left) / box.cell);
      const row = Math.floor((event.clientY - top - box.top) / box.cell);
      return row >= 0 && column >= 0 && row < map.rows.length && column < map.columns.length ? [row, column] : null;
    };
    const point = (cell) => shared.point(cell && [map.rows[cell[0]].id, map.columns[cell[1]].id]);
    frame.addEventListener("pointermove", (event) => point(cellAt(event)));
    frame.addEventListener("pointerleave", () => point(null));
    frame.addEventListener("blur", () => point(null));
    frame.addEventListener("click", (event) => point(cellAt(event)));
    frame.addEventListener("keydown", (event) => {
      const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
      if (!map || (!step && event.key !== "Escape")) return;
      event.preventDefault();
      if (!step) return point(null);
      const [row, column] = pointed();
      const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
      point(row < 0 ? [0, 0] : [clamp(row + step[0], map.rows.length), clamp(column + step[1], map.columns.length)]);
    });

    shared.maps.add(drawLines);
    atlas.onTheme(draw);
    onChange(["lang"], draw);
    new ResizeObserver(() => host.clientWidth !== drawnWidth && draw()).observe(host);
    const show = (next) => {
      map = next;
      draw();
    };
    return {show, map: () => map};
  };

  /* Weights of a map as they travel: base64 of little-endian 16-bit integers of which 65535 stands for 1. */
  atlas.unpackWeights = (text) => {
    const binary = atob(text);
    const view = new DataView(Uint8Array.from(binary, (char) => char.charCodeAt(0)).buffer);
    return Float32Array.from({length: binary.length / 2}, (_, i) => view.getUint16(2 * i, true) / 65535);
  };
})();
