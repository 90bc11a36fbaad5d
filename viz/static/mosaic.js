/* Heads drawn small, many at once: what the strip beside a map and the Heads tab are made of.
 *
 * All heads of a group are painted on one canvas. Over it lies a grid of transparent buttons, so that every head has a name, a place in
 * the tab order and the arrow keys. Numbers come from atlas.maps, choices go to the store: nothing here asks the server.
 */
(() => {
  const {state, set, onChange, make} = atlas;
  const MASK = [128, 132, 140]; // MASK_COLOR of viz/figures/colors.py
  const VEIL = 0.16; // how much of it a masked cell has: a little more than the large map, which has strokes too
  const FAINT = 0.22; // of the colour of a head that has stepped back
  const id = ({kind, layer, head}) => `${kind}-${layer}-${head}`;

  /* ---- colours: from the page's own ground to the kind's colour, as 256 steps ---- */
  const remembered = (memory, key, compute) => {
    if (!memory.has(key)) memory.set(key, compute());
    return memory.get(key);
  };
  const colours = new Map(); // asking for a style makes the browser lay the page out, so each is asked for once
  atlas.onTheme(() => colours.clear());
  const colour = (name) => remembered(colours, name, () => {
    const hex = getComputedStyle(document.body).getPropertyValue(`--${name}`).trim();
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  });
  const packed = (from, to, share) => {
    const [red, green, blue] = from.map((part, i) => Math.round(part + (to[i] - part) * share));
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0; // canvas pixels are RGBA in a little-endian word
  };
  /* The same three scales as the large map: 0 to 1, 0 to the largest weight of this head, or three powers of ten. */
  const scaled = (weight, most) => {
    if (state.colour === "max") return most ? weight / most : 0;
    if (state.colour === "log") return weight > 0.001 ? Math.min(1, Math.log10(weight) / 3 + 1) : 0;
    return weight;
  };
  const ramp = (from, to, strength, most) =>
    Uint32Array.from({length: 257}, (_, value) => (value < 256 ? packed(from, to, strength * scaled(value / 255, most)) : packed(from, MASK, VEIL * strength)));

  /* ---- one map, as pixels ---- */
  const MASKED = 256; // stands where a weight of 0 to 255 would
  /* Where the tokens of one side fall, as [first, end] for each pixel: a token is several pixels, or, of many tokens, a pixel several. */
  const spans = (count, pixels) => Array.from({length: pixels}, (_, pixel) => {
    if (count > pixels) return [pixel, pixel + 1].map((edge) => Math.floor((edge * count) / pixels));
    const at = Math.floor(((pixel + 0.5) * count) / pixels);
    return [at, at + 1];
  });
  const largest = ({data, columns}, [top, bottom], [left, right]) => {
    let most = -1;
    for (let row = top; row < bottom; row++) {
      for (let at = row * columns + left; at < row * columns + right; at++) if (data[at] !== MASKED && data[at] > most) most = data[at];
    }
    return most < 0 ? MASKED : most;
  };
  /* thumb: {data, rows, columns}; shades: a colour for each of 0 to 255 and MASKED; pixels: a picture `stride` wide. */
  const paintMap = (pixels, stride, [x, y], thumb, down, across, shades) => {
    const {data, columns} = thumb;
    const plain = thumb.rows <= down.length && columns <= across.length;
    for (let i = 0; i < down.length; i++) {
      const line = (y + i) * stride + x;
      const row = down[i];
      for (let j = 0; j < across.length; j++) {
        pixels[line + j] = shades[plain ? data[row[0] * columns + across[j][0]] : largest(thumb, row, across[j])];
      }
    }
  };
  const thumbs = new Map();
  atlas.maps.onMaps(() => thumbs.clear());
  const thumbOf = ({kind, layer, head}) => {
    const thumb = atlas.maps.thumb(kind, layer, head);
    if (!thumb) return null;
    const {rows, columns} = thumb;
    const data = Uint16Array.from(thumb.data);
    const most = data.reduce((a, b) => (a > b ? a : b), 0) / 255;
    if (kind === "decoder_self") {
      for (let row = 0; row < rows; row++) data.fill(MASKED, row * columns + row + 1, (row + 1) * columns);
    }
    return {data, rows, columns, most};
  };

  atlas.paint = {colour, ramp, spans, map: paintMap, MASKED};

  /* ---- what is in focus: the share [from, to] of a kind's rows, and of its columns, that it takes, or null ---- */
  const SIDES = {encoder_self: ["source", "source"], decoder_self: ["written", "read"], cross: ["written", "source"]};
  const bands = (kind) => {
    const {row, column} = atlas.focus.get();
    const axes = row === null && column === null ? null : atlas.maps.axes();
    if (!axes) return [null, null];
    const [wantedRow, wantedColumn] = SIDES[kind];
    const [ownRow, ownColumn] = SIDES[state.kind];
    const {queries, keys} = atlas.maps.size(kind);
    const band = (label, size) => (label ? [label.start / size, label.stop / size] : null);
    /* A row of another kind is the same decoder state, a column of another kind the same source token, or it is not shown. */
    return [
      wantedRow === ownRow ? band(axes.rows[row], queries) : null,
      wantedColumn === ownColumn ? band(axes.columns[column], keys) : null,
    ];
  };

  /* ---- a group of heads on one canvas ----
   * show({cells: [{kind, layer, head, x, y, faint, caption: [line, ...]}], side, pitch: [across, down], flow}) draws them; x and y count
   * cells. flow: the heads are one row that is broken into lines, and the arrow keys go along it. `spoken` names a head, `onPoint` gets the
   * one that is pointed at or focused, or null. */
  const isChosen = atlas.isChosen = ({kind, layer, head}) => kind === state.kind && layer === state.layer && head === state.head;
  atlas.mosaic = (host, {spoken, onPoint = () => {}}) => {
    const canvas = make("canvas");
    const lines = make("canvas", "mosaic-lines");
    const frame = make("i", "mosaic-layer");
    host.classList.add("mosaic");
    host.setAttribute("role", "group");
    host.append(canvas, lines, frame);
    const buttons = new Map();
    let shown = null;
    let stale = false;
    let entry = ""; // the one button that the tab key reaches

    const move = (event, cell) => {
      const [x, y] = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key] || [0, 0];
      const {cells, flow} = shown;
      let next = null;
      if (event.key === "Home" || event.key === "End") next = cells.filter((each) => each.y === cell.y).at(event.key === "Home" ? 0 : -1);
      else if (!x && !y) return;
      else if (flow && x) next = cells[cells.indexOf(cell) + x];
      else next = cells.find((each) => each.x === cell.x + x && each.y === cell.y + y);
      event.preventDefault();
      if (next) buttons.get(id(next)).focus();
    };
    const makeButton = () => {
      const button = make("button", "mosaic-head");
      button.type = "button";
      const point = () => onPoint(button.cell);
      button.addEventListener("click", () => {
        const {kind, layer, head} = button.cell;
        set({kind, layer, head});
      });
      button.addEventListener("pointerenter", point);
      button.addEventListener("pointerleave", () => onPoint(host.querySelector(":focus-visible")?.cell ?? null));
      button.addEventListener("focus", () => {
        reach(id(button.cell));
        if (button.matches(":focus-visible")) point();
      });
      button.addEventListener("blur", () => onPoint(null));
      button.addEventListener("keydown", (event) => move(event, button.cell));
      return button;
    };
    const reach = (key) => {
      buttons.get(entry)?.setAttribute("tabindex", "-1");
      entry = key;
      buttons.get(entry)?.setAttribute("tabindex", "0");
    };

    const place = () => {
      const {cells, side, pitch} = shown;
      const wanted = new Set(cells.map(id));
      buttons.forEach((button, key) => wanted.has(key) || (button.remove(), buttons.delete(key)));
      const order = [];
      cells.forEach((cell) => {
        const key = id(cell);
        if (!buttons.has(key)) buttons.set(key, makeButton());
        const button = buttons.get(key);
        button.cell = cell;
        button.dataset.cell = key;
        button.tabIndex = -1;
        Object.assign(button.style, {left: `${cell.x * pitch[0]}px`, top: `${cell.y * pitch[1]}px`, width: `${side}px`, height: `${side}px`});
        order.push(button);
      });
      /* In the order that they are seen in; what stands right is not touched, so focus stays. */
      order.forEach((button, at) => host.children[at + 3] === button || host.insertBefore(button, host.children[at + 3] || null));
      const [columns, rows] = ["x", "y"].map((axis) => Math.max(0, ...cells.map((cell) => cell[axis] + 1)));
      const caption = cells[0]?.caption ? pitch[1] - side : 0;
      shown.size = [Math.max(0, (columns - 1) * pitch[0] + side), Math.max(0, (rows - 1) * pitch[1] + side)];
      Object.assign(host.style, {width: `${shown.size[0]}px`, height: `${shown.size[1] + caption}px`});
      name();
      mark();
    };
    const name = () => shown?.cells.forEach((cell) => {
      const button = buttons.get(id(cell));
      const words = spoken(cell);
      if (button.ariaLabel !== words) button.setAttribute("aria-label", words);
      const caption = cell.caption ?? [];
      if (button.dataset.caption === caption.join(" ")) return;
      button.dataset.caption = caption.join(" ");
      const lines = make("span", "mosaic-caption");
      lines.append(...caption.map((line) => make("span", "", line)));
      button.replaceChildren(...(caption.length ? [lines] : []));
    });
    const mark = () => {
      if (!shown) return;
      const chosen = shown.cells.find(isChosen);
      buttons.forEach((button) => {
        button.setAttribute("aria-pressed", String(button.cell === chosen));
        button.classList.toggle("faint-head", Boolean(button.cell.faint));
      });
      /* Of a whole layer (mean, max ...) the layer is framed. */
      const row = shown.flow || typeof state.head === "number" ? [] : shown.cells.filter(({kind, layer}) => kind === state.kind && layer === state.layer);
      frame.hidden = !row.length;
      if (row.length) {
        Object.assign(frame.style, {
          top: `${row[0].y * shown.pitch[1]}px`, height: `${shown.side}px`, width: `${(row.length - 1) * shown.pitch[0] + shown.side}px`,
        });
      }
      if (!host.contains(document.activeElement) || !buttons.has(entry)) reach(id(chosen || row[0] || shown.cells[0] || {}));
      else reach(entry);
    };

    /* ---- painting: in device pixels, so that a token's edge is sharp ---- */
    const fit = (target) => {
      const ratio = window.devicePixelRatio || 1;
      const [width, height] = shown.size.map((size) => Math.max(1, Math.round(size * ratio)));
      if (target.width !== width) target.width = width;
      if (target.height !== height) target.height = height;
      Object.assign(target.style, {width: `${shown.size[0]}px`, height: `${shown.size[1]}px`});
      return ratio;
    };
    const origin = (cell, ratio) => [Math.round(cell.x * shown.pitch[0] * ratio), Math.round(cell.y * shown.pitch[1] * ratio)];
    /* Called with nothing on the page to measure in between: measuring would make the browser lay it out twice. */
    const paint = () => {
      if (!shown?.cells.length) return;
      stale = false;
      const started = performance.now();
      const ratio = fit(canvas);
      const side = Math.round(shown.side * ratio);
      const context = canvas.getContext("2d");
      const image = context.createImageData(canvas.width, canvas.height);
      const pixels = new Uint32Array(image.data.buffer);
      const page = colour("page");
      const memory = new Map();
      shown.cells.forEach((cell) => {
        const thumb = remembered(thumbs, id(cell), () => thumbOf(cell));
        if (!thumb) return;
        const strength = cell.faint ? FAINT : 1;
        const most = state.colour === "max" ? thumb.most : 1;
        const shades = remembered(memory, `${cell.kind} ${strength} ${most}`,
          () => ramp(page, remembered(memory, cell.kind, () => colour(cell.kind)), strength, most));
        const [down, across] = [thumb.rows, thumb.columns].map((count) => remembered(memory, count, () => spans(count, side)));
        paintMap(pixels, canvas.width, origin(cell, ratio), thumb, down, across, shades);
      });
      context.putImageData(image, 0, 0);
      canvas.dataset.drawn = String(Number(canvas.dataset.drawn || 0) + 1);
      canvas.dataset.took = (performance.now() - started).toFixed(1); // ms
      paintLines();
    };
    const paintLines = () => {
      if (stale || !shown?.cells.length) return;
      const ratio = fit(lines);
      const context = lines.getContext("2d");
      context.clearRect(0, 0, lines.width, lines.height);
      const side = Math.round(shown.side * ratio);
      const memory = new Map();
      context.fillStyle = `rgb(${colour("ink").join(" ")} / 0.13)`;
      shown.cells.forEach((cell) => {
        if (cell.faint) return;
        const [row, column] = remembered(memory, cell.kind, () => bands(cell.kind));
        const [x, y] = origin(cell, ratio);
        const run = ([from, to]) => [Math.round(from * side), Math.max(Math.round(ratio), Math.round(to * side) - Math.round(from * side))];
        if (row) context.fillRect(x, y + run(row)[0], side, run(row)[1]);
        if (column) context.fillRect(x + run(column)[0], y, run(column)[1], side);
      });
    };

    /* To be called while the group can be seen. */
    const show = (next) => {
      shown = {...next};
      place();
      paint();
    };
    /* In a tab that is not open nothing is painted until it is. */
    const repaint = () => {
      stale = !host.offsetParent;
      if (!stale) paint();
    };
    new ResizeObserver(() => stale && repaint()).observe(host);
    window.addEventListener("resize", () => shown && canvas.width !== Math.max(1, Math.round(shown.size[0] * devicePixelRatio)) && repaint());
    atlas.onTheme(repaint);
    onChange(["colour"], repaint);
    onChange(["kind", "layer", "head"], mark);
    atlas.focus.onFocus(paintLines);
    return {show, name, cells: () => shown?.cells ?? []};
  };

  /* ---- names of layers and heads along a group; numbers alone where there is no room for the letter ---- */
  atlas.mosaicNames = ({layers, heads, pitch}) => {
    const names = make("div", "mosaic-names");
    names.setAttribute("aria-hidden", "true");
    const roomy = pitch >= 27;
    const every = pitch >= 15 ? 1 : 2;
    const put = (text, style, className) => {
      const node = make("span", className, text);
      Object.assign(node.style, style);
      names.append(node);
    };
    for (let layer = 0; layer < layers; layer += every) put(`L${layer}`, {top: `${layer * pitch}px`, height: `${pitch}px`}, "layer-name");
    for (let head = 0; head < heads; head += every) put(roomy ? `H${head}` : String(head), {left: `${head * pitch}px`, width: `${pitch}px`}, "head-name");
    return names;
  };
  atlas.laidOut = (kind, size) => {
    const cells = [];
    for (let layer = 0; layer < size.layers; layer++) {
      for (let head = 0; head < size.heads; head++) cells.push({kind, layer, head, x: head, y: layer});
    }
    return cells;
  };
})();
