/* The Machine tab, part 2: the picture of the whole encoder-decoder.
 *
 * Two columns, the decoder's the mirror of the encoder's, so that memory flows between them. In each a line runs down: the stream of
 * states. A sublayer branches off and is added back; with post-norm the norm sits on the stream, with pre-norm on the branch.
 * Nothing here knows Gradio or the server: everything comes from the value of viz/panels/machine_value.py.
 */
(() => {
  const {svg, text, number, shortly, shape, wire, arrowAt, plus, fitting, widthOf, headSquare} = atlas.machine;
  const {say} = atlas;

  const WIDTH = 872;
  const BUS = 436; // where memory runs between the columns
  const SIDES = {
    encoder: {left: 0, stream: 84, blocks: 146, edge: 146, label: 70, anchor: "end"},
    decoder: {left: 472, stream: 788, blocks: 472, edge: 726, label: 802, anchor: "start"},
  };
  const COLUMN = 400; // width of a column, and of the blocks beside the stream
  const BLOCK = 254;
  const PILL = 112;
  const KINDS = {"encoder.self_attn": "encoder_self", "decoder.self_attn": "decoder_self", "decoder.cross_attn": "cross"};
  const PER_ROW = 16;

  /* How many layers of a stack are drawn one by one; above, one stands for all. */
  const MOST_LAYERS = 12;
  const foldedAll = (view, layers) => view.fold === "one" || layers > MOST_LAYERS;

  /* `view`: {fold, open: {encoder: [layer, ...], decoder}, block, tokens: {source, read, predicted} or null, real: maps are this model's,
   * chosen: {kind, layer, head}}. Returns {node, width, height, blocks: [{id, column, node, x, y, w, h}]}. */
  const draw = (value, view) => {
    const {sizes, places, shapes} = value.picture;
    const layers = {frames: svg("g"), wires: svg("g"), blocks: svg("g"), labels: svg("g", {"aria-hidden": "true"})};
    const blocks = [];
    const put = (layer, ...nodes) => layers[layer].append(...nodes);

    /* ---- a block: a button with a name; what is drawn in it is for the eye ---- */
    const block = (id, column, [x, y, w, h], {name, count, kind, classes = "", spoken = [], expanded, round = 8}) => {
      const counted = count === undefined ? "" : say("machine.parameters", {count: number(count)});
      const said = [name, counted, ...spoken].filter(Boolean).join(", ");
      const node = svg("g", {
        class: `m-block ${classes}`, role: "button", tabindex: -1, "aria-label": said, "data-id": id, "data-kind": kind,
        ...(expanded === undefined ? {"aria-pressed": String(view.block === id)} : {"aria-expanded": String(expanded)}),
      });
      node.classList.toggle("selected", view.block === id);
      node.append(svg("rect", {x, y, width: w, height: h, rx: round, class: "m-box"}));
      put("blocks", node);
      blocks.push({id, column, node, x, y, w, h});
      return node;
    };
    const wide = (id, column, y, {name, about, count, shared, kind, h = 52}) => {
      const {left} = SIDES[column];
      const node = block(id, column, [left, y, COLUMN, h], {name, count, kind, spoken: [about, shared].filter(Boolean)});
      node.append(text(left + 16, y + 22, name, "m-name"), text(left + 16, y + 40, about, "m-about"));
      node.append(text(left + COLUMN - 16, y + 22, shared || shortly(count), shared ? "m-about" : "m-count", "end"));
      return y + h;
    };
    const pill = (id, column, y, {name, count, kind, w = PILL, h = 28}) => {
      const {stream} = SIDES[column];
      const node = block(id, column, [stream - w / 2, y, w, h], {name, count, kind, round: h / 2});
      node.append(text(stream, y + h / 2 + 4.5, name, "m-pill", "middle"));
      if (count) { // beside it, on the side where the blocks are
        const [at, anchor] = column === "encoder" ? [stream + w / 2 + 8, "start"] : [stream - w / 2 - 8, "end"];
        node.append(text(at, y + h / 2 + 4.5, shortly(count), "m-count", anchor));
      }
      put("wires", arrowAt([stream, y - 1], [stream, y - 10], "m-stream"));
      return y + h;
    };
    const shapeAt = (column, y, name, prefix = "") => {
      const {label, anchor} = SIDES[column];
      put("labels", text(label, y + 4, `${prefix}${shape(shapes[name])}`, "m-shape", anchor));
    };

    /* ---- words ---- */
    const tokens = (column, y, labels, letter) => {
      const {left, stream} = SIDES[column];
      const style = {size: 13, padding: 16, gap: 5, rest: 44};
      const {shown, left: more} = labels ? fitting(labels, COLUMN, style) : {shown: [[letter, widthOf(letter, 13) + 16]], left: 0};
      const row = [...shown, ...(more ? [[`+${more}`, style.rest - style.gap]] : [])];
      const whole = row.reduce((sum, [, width]) => sum + width + style.gap, -style.gap);
      /* Beside the stream's end, so that the line leaves from under the words. */
      let x = column === "encoder" ? left : left + COLUMN - whole;
      if (stream < x || stream > x + whole) x = stream - whole / 2;
      const group = svg("g", {class: "m-tokens"});
      row.forEach(([label, width]) => {
        const word = text(x + width / 2, y + 19, label, "m-token", "middle");
        group.append(svg("rect", {x, y, width, height: 28, rx: 6}), word);
        x += width + style.gap;
      });
      put("labels", group);
      return y + 28;
    };

    /* ---- sublayers ---- */
    const squares = (node, [x, y], kind, layer, {heads, side, gap, perRow, pitch = side + gap}) => {
      for (let head = 0; head < heads; head++) {
        const at = [x + (head % perRow) * pitch + (pitch - side - gap) / 2, y + Math.floor(head / perRow) * (side + gap)];
        const {chosen} = view;
        const isChosen = view.real && chosen.kind === kind && chosen.layer === layer && chosen.head === head;
        node.append(headSquare(...at, side, {kind, layer, head, real: view.real, chosen: isChosen}));
      }
    };
    const grid = (heads, room, largest) => {
      const perRow = Math.min(heads, PER_ROW);
      const gap = perRow > 8 ? 3 : 4;
      const side = Math.min(largest, Math.floor((room - (perRow - 1) * gap) / perRow));
      return {heads, perRow, gap, side, height: Math.ceil(heads / perRow) * (side + gap) - gap};
    };
    const attention = (id, column, place, layer, y) => {
      const {blocks: x} = SIDES[column];
      const kind = KINDS[place];
      const {heads, head_dim} = sizes[column];
      const squaresOf = grid(heads, BLOCK - 30, 24);
      const h = 50 + squaresOf.height + 14;
      const name = say(`machine.place.${place}`);
      const about = say("machine.heads", {heads, head_dim});
      const node = block(id, column, [x, y, BLOCK, h], {name, count: places[place].count, kind, classes: "m-attention", spoken: [about]});
      node.append(text(x + 16, y + 23, name, "m-name"), text(x + BLOCK - 14, y + 23, shortly(places[place].count), "m-count", "end"));
      node.append(text(x + 16, y + 41, about, "m-about"));
      node.append(svg("path", {d: `M${x + 3.5} ${y + 11}V${y + h - 11}`, class: "m-stripe"}));
      squares(node, [x + 16, y + 51], kind, layer, squaresOf);
      return h;
    };
    const feedForward = (id, column, place, y) => {
      const {blocks: x} = SIDES[column];
      const {d_ff} = sizes[column];
      const name = say("machine.place.feed_forward");
      const about = say("machine.widens", {d_model: number(sizes.d_model), d_ff: number(d_ff), activation: sizes.activation});
      const node = block(id, column, [x, y, BLOCK, 54], {name, count: places[place].count, spoken: [about]});
      node.append(text(x + 16, y + 23, name, "m-name"), text(x + BLOCK - 14, y + 23, shortly(places[place].count), "m-count", "end"));
      node.append(text(x + 16, y + 41, about, "m-about"));
      /* How much wider it gets in its middle, to scale. */
      const most = Math.max(sizes.d_model, d_ff);
      const [narrow, broad] = [(36 * sizes.d_model) / most, (36 * d_ff) / most];
      const middle = x + BLOCK - 32;
      const corner = (width, at) => [`${middle - width / 2} ${at}`, `${middle + width / 2} ${at}`];
      const [[a, b], [c, d], [e, f]] = [corner(narrow, y + 31), corner(broad, y + 38), corner(narrow, y + 45)];
      node.append(svg("path", {d: `M${a}L${b}L${d}L${f}L${e}L${c}Z`, class: "m-widen"}));
      return 54;
    };
    /* From the stream through a sublayer and back. Returns where the next one begins. */
    const sublayer = (column, layer, part, y) => {
      const {stream, blocks: x, edge} = SIDES[column];
      const place = `${column}.${part}`;
      const id = `${column}.${layer}.${part}`;
      const pre = sizes.norm === "pre";
      const isAttention = part !== "feed_forward";
      const feed = x + BLOCK / 2;
      let top = y + 4;
      if (pre) {
        const name = say("machine.place.norm");
        const {count} = places[`${place}_norm`];
        const node = block(`${id}_norm`, column, [x, top, BLOCK, 26], {name, count, classes: "m-slim", round: 13});
        node.append(text(x + 16, top + 17.5, name, "m-pill"), text(x + BLOCK - 14, top + 17.5, shortly(count), "m-count", "end"));
        put("wires", wire([[stream, top + 13], [edge, top + 13]], {arrow: true}));
        top += 26;
      } else {
        top += 8;
      }
      /* What goes in: one line, or one each for queries, keys and values. */
      const inputs = isAttention ? (part === "cross_attn" ? "Q" : "QKV") : " ";
      const below = top + (isAttention ? 24 : 16);
      [...inputs].forEach((letter, at) => {
        const tick = isAttention ? x + 24 + 34 * at : feed;
        const from = pre ? [[tick, top]] : [[stream, top], [tick, top]];
        put("wires", wire([...from, [tick, below - 1]], {arrow: true}));
        if (letter.trim()) put("labels", text(tick + 7, below - 8, letter, "m-letter"));
      });
      if (isAttention) {
        put("labels", text(x + 24 + 34 * inputs.length - 6, below - 8, shape(shapes[`${place}.q`]), "m-shape"));
      }
      const h = isAttention ? attention(id, column, place, layer, below) : feedForward(id, column, place, below);
      if (part === "cross_attn") crossings.push({keys: below + 22, values: below + 44});
      const back = below + h - 16;
      put("wires", wire([[edge, back], [stream + Math.sign(edge - stream) * 10, back]], {arrow: true}), plus(stream, back));
      let end = below + h;
      if (pre) {
        shapeAt(column, back, `${column}.state`);
      } else {
        const at = Math.max(back + 20, end - 4);
        end = pill(`${id}_norm`, column, at, {name: say("machine.place.norm"), count: places[`${place}_norm`].count});
        shapeAt(column, end + 14, `${column}.state`);
        end += 14;
      }
      return end + 14;
    };

    /* ---- layers ---- */
    const crossings = []; // where memory enters the decoder
    const parts = (column) => (column === "encoder" ? ["self_attn", "feed_forward"] : ["self_attn", "cross_attn", "feed_forward"]);
    const layerCount = (column) => parts(column).flatMap((part) => [part, `${part}_norm`])
      .reduce((sum, part) => sum + places[`${column}.${part}`].count, 0);
    /* Where one layer stands for all: to the one before or after it. */
    const stepper = (column, way, sign, to, x, y) => {
      const off = to < 0 || to >= sizes[column].layers;
      const look = {name: say(`machine.layer.${way}`), classes: `m-layer m-step${off ? " off" : ""}`};
      const node = block(`${column}.${way}`, column, [x, y, 31, 26], look);
      node.removeAttribute("aria-pressed");
      node.setAttribute("aria-disabled", String(off));
      node.dataset.to = to;
      node.append(text(x + 15.5, y + 18, sign, "m-name", "middle"));
    };
    const openLayer = (column, layer, y, stands) => {
      const {left} = SIDES[column];
      const name = say("machine.layer", {layer});
      const count = layerCount(column);
      const frame = svg("rect", {x: left, y, width: COLUMN, rx: 14, class: "m-frame"});
      const sheet = (by) => svg("rect", {x: left + by, y: y + by, width: COLUMN - 2 * by, rx: 14, class: "m-sheet"});
      const sheets = stands ? [10, 5].map(sheet) : [];
      put("frames", ...sheets, frame);
      const place = [left + 6, y + 6, stands ? COLUMN - 80 : COLUMN - 12, 26];
      const head = block(`${column}.${layer}`, column, place, {name, count, classes: "m-layer", expanded: true});
      head.append(text(left + 16, y + 24, name, "m-name"), text(left + (stands ? 300 : 382), y + 24, shortly(count), "m-count", "end"));
      if (stands) {
        const times = say("machine.layer.times", {layers: sizes[column].layers});
        head.append(text(left + SIDES.encoder.blocks, y + 24, times, "m-times"));
        stepper(column, "back", "‹", layer - 1, left + 328, y + 6);
        stepper(column, "on", "›", layer + 1, left + 361, y + 6);
      }
      let end = y + 40;
      parts(column).forEach((part) => (end = sublayer(column, layer, part, end)));
      [frame, ...sheets].forEach((rect) => rect.setAttribute("height", end - y));
      return end + (stands ? 14 : 6);
    };
    const foldedLayer = (column, layer, y) => {
      const {left, stream, blocks: x, edge} = SIDES[column];
      const kinds = parts(column).slice(0, -1).map((part) => KINDS[`${column}.${part}`]);
      const {heads} = sizes[column];
      /* One kind stands right under the heads of an open layer; two share the width, a little off where memory comes in. */
      const alone = kinds.length === 1;
      const room = alone ? BLOCK - 30 : (BLOCK - 26) / 2;
      const full = grid(heads, room, 24);
      const small = alone ? {...grid(heads, room, 18), pitch: full.side + full.gap} : grid(heads, room, 12);
      const drawn = heads <= PER_ROW && small.side >= 4;
      const name = say("machine.layer", {layer});
      const look = {name, count: layerCount(column), classes: "m-layer m-folded", expanded: false, round: 10};
      const node = block(`${column}.${layer}`, column, [left, y, COLUMN, 36], look);
      const [nameX, anchor] = column === "encoder" ? [left + 16, "start"] : [left + COLUMN - 16, "end"];
      node.append(text(nameX, y + 22.5, name, "m-about", anchor));
      if (drawn) {
        kinds.forEach((kind, at) => squares(node, [x + 16 + at * (room + 8), y + 18 - small.side / 2], kind, layer, small));
      } else {
        node.append(text(x + 16, y + 22.5, say("machine.heads", {heads, head_dim: sizes[column].head_dim}), "m-about"));
      }
      const out = Math.sign(edge - stream);
      const loop = `M${stream} ${y + 8}h${out * 44}a10 10 0 0 ${out > 0 ? 1 : 0} 0 20h${-out * 39}`;
      put("blocks", svg("path", {d: loop, class: "m-line"}), plus(stream, y + 28, 5),
        svg("path", {d: `M${stream} ${y}V${y + 23}M${stream} ${y + 33}V${y + 36}`, class: "m-line m-stream"}));
      if (column === "decoder") crossings.push({folded: y + 18});
      return y + 36 + 6;
    };
    const stack = (column, y) => {
      const count = sizes[column].layers;
      const open = view.open[column];
      if (foldedAll(view, count)) return openLayer(column, open[0], y, true);
      let end = y;
      for (let layer = 0; layer < count; layer++) end = (open.includes(layer) ? openLayer : foldedLayer)(column, layer, end);
      return end;
    };

    /* ---- columns ---- */
    const streams = [];
    const top = (column, labels, letter) => {
      const {left, stream, blocks: x, edge} = SIDES[column];
      const which = column === "encoder" ? "src" : "tgt";
      const {count, shared} = places[`${which}_embedding`];
      const {layers: count_of, vocab_size} = sizes[column];
      put("labels", text(left, 16, say(`machine.${column}`), "m-title"),
        text(left + COLUMN, 16, say("machine.stack", {layers: count_of, count: shortly(count_of * layerCount(column))}), "m-count", "end"));
      const y = tokens(column, 34, labels, letter);
      shapeAt(column, y + 15, `${column}.ids`);
      const width = number(sizes.d_model);
      const scale = sizes.scale === 1 ? "" : say("machine.scaled", {d_model: width, scale: atlas.machine.scale(sizes.scale)});
      put("wires", arrowAt([stream, y + 29], [stream, y], "m-stream"));
      let end = wide(`${which}_embedding`, column, y + 30, {
        name: say("machine.place.embedding"), about: `${number(vocab_size)} × ${width}${scale}`, count,
        shared: shared && say(`machine.shared.${shared}`),
      });
      streams.push([stream, y, end]);
      shapeAt(column, end + 15, `${column}.embedded`);
      const at = end + 34;
      const name = say("machine.place.positions");
      const node = block(`${column}.positions`, column, [x, at - 16, BLOCK, 32], {name, count: 0, classes: "m-slim", round: 16});
      node.append(text(x + 16, at + 4.5, name, "m-pill"), waves(x + BLOCK - 76, at, 62));
      put("wires", wire([[edge, at], [stream + Math.sign(edge - stream) * 10, at]], {arrow: true}), plus(stream, at));
      end = at + 16;
      shapeAt(column, end + 6, `${column}.input`);
      return {start: y, end: end + 22};
    };
    /* Three dimensions of this very encoding, along the first 24 positions. */
    const waves = (x, y, width) => {
      const curve = (pair) => Array.from({length: 97}, (_, i) => {
        const position = i / 4;
        return `${i ? "L" : "M"}${x + (width * i) / 96} ${y - 9 * Math.sin(position / 10000 ** ((2 * pair) / sizes.d_model))}`;
      }).join("");
      const pairs = [0, sizes.d_model / 16, sizes.d_model / 7].map(Math.floor);
      return svg("g", {class: "m-waves"}, ...pairs.map((pair) => svg("path", {d: curve(pair)})));
    };
    const closing = (column, y) => (places[`${column}_norm`]
      ? pill(`${column}_norm`, column, y + 4, {name: say("machine.place.norm"), count: places[`${column}_norm`].count}) + 8 : y);

    const encoder = top("encoder", view.tokens?.source, say("machine.tokens.source"));
    let y = closing("encoder", stack("encoder", encoder.end));
    const memoryAt = y + 32;
    shapeAt("encoder", y + 8, "encoder.final");
    pill("memory", "encoder", memoryAt - 14, {name: say("machine.place.memory"), kind: "cross"});
    streams.push([SIDES.encoder.stream, encoder.start, memoryAt]);
    const encoderEnd = memoryAt + 24;

    const decoder = top("decoder", view.tokens?.read, say("machine.tokens.read"));
    y = closing("decoder", stack("decoder", decoder.end));
    shapeAt("decoder", y + 9, "decoder.final");
    put("wires", arrowAt([SIDES.decoder.stream, y + 21], [SIDES.decoder.stream, y], "m-stream"));
    const {count, shared} = places.output;
    const again = shared && say(`machine.shared.${shared}`);
    y = wide("output", "decoder", y + 22, {
      name: say("machine.place.output"), count, shared: shared && !count ? again : "",
      about: `${number(sizes.d_model)} → ${number(sizes.decoder.vocab_size)}${shared && count ? ` · ${again}` : ""}`,
    });
    shapeAt("decoder", y + 12, "logits");
    y = pill("softmax", "decoder", y + 24, {name: say("machine.place.softmax")});
    put("wires", arrowAt([SIDES.decoder.stream, y + 19], [SIDES.decoder.stream, y], "m-stream"));
    streams.push([SIDES.decoder.stream, decoder.start, y + 19]);
    const decoderEnd = tokens("decoder", y + 20, view.tokens?.predicted, say("machine.tokens.predicted"));

    /* ---- memory into every cross-attention ---- */
    const places_of = crossings.flatMap(({keys, values, folded}) => (folded === undefined ? [keys, values] : [folded]));
    const enter = SIDES.decoder.left - 1;
    const joint = (at) => svg("path", {d: ends.includes(at) ? "" : `M${BUS} ${at}h9`, class: "m-line m-memory"});
    const ends = [Math.min(...places_of), Math.max(...places_of)].filter((at, i) => (i ? at > memoryAt : at < memoryAt));
    const leave = SIDES.encoder.stream + PILL / 2;
    ends.forEach((at) => put("wires", wire([[leave, memoryAt], [BUS, memoryAt], [BUS, at], [enter, at]], {name: "m-memory"})));
    crossings.forEach(({keys, values, folded}) => {
      const branch = (at) => put("wires", wire([[BUS + 9, at], [enter, at]], {name: "m-memory", arrow: true}), joint(at));
      if (folded !== undefined) return branch(folded);
      [[keys, "K"], [values, "V"]].forEach(([at, letter]) => {
        branch(at);
        put("labels", text(BUS + 15, at - 5, letter, "m-letter m-of-memory", "middle"));
      });
    });
    const read = shape(shapes["decoder.cross_attn.k"]);
    put("labels", text(leave + 14, memoryAt - 8, say("machine.memory.leads", {shape: read}), "m-shape"));

    /* One matrix for both sides, where it is one. */
    const tie = blocks.find(({id}) => id === "tgt_embedding");
    if (places.tgt_embedding.shared) {
      const at = tie.y + tie.h / 2;
      put("wires", svg("path", {d: `M${COLUMN} ${at}H${SIDES.decoder.left}`, class: "m-tie"}));
      put("labels", text(BUS, at - 7, say("machine.tied"), "m-shape", "middle"));
    }
    streams.forEach(([x, from, to]) => layers.wires.prepend(svg("path", {d: `M${x} ${from}V${to}`, class: "m-line m-stream"})));
    const height = Math.max(encoderEnd, decoderEnd) + 8;
    const node = svg("g", {}, layers.frames, layers.wires, layers.blocks, layers.labels);
    return {node, width: WIDTH, height, blocks};
  };

  atlas.machine.draw = draw;
  atlas.machine.foldedAll = foldedAll;
  atlas.machine.KINDS = KINDS;
  atlas.machine.scale = (value) => String(Number(value.toPrecision(4)));
})();
