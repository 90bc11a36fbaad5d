/* The Machine tab, part 3: the inside of a block. What goes through it with every shape, its matrices with their sizes and counts, its
 * heads, and ways from here to the screens where it is computed.
 */
(() => {
  const {svg, number, shape, operations, imageOf, KINDS} = atlas.machine;
  const {say, make} = atlas;

  const STACK_OF = {src_embedding: "encoder", encoder_norm: "encoder", memory: "encoder", tgt_embedding: "decoder", decoder_norm: "decoder",
    output: "decoder", softmax: "decoder"};
  /* "encoder.2.self_attn_norm" -> stack "encoder", layer 2, part "self_attn_norm", place "encoder.self_attn_norm". */
  const parse = (id) => {
    const [stack, layer, part = ""] = id.split(".");
    if (!/^\d+$/.test(layer ?? "")) return {id, stack: STACK_OF[id] ?? stack, layer: null, part: id, place: id};
    return {id, stack, layer: Number(layer), part, place: part ? `${stack}.${part}` : stack};
  };
  /* Which words and which rows: norms are all alike, and so are both stacks' feed-forward. */
  const sortOf = ({part, layer, stack}) => {
    if (part.endsWith("norm")) return "norm";
    if (layer !== null && !part) return "layer";
    if (part.endsWith("embedding")) return "embedding";
    if (part.endsWith(".positions")) return "positions";
    if (part === "self_attn") return `${stack}.self_attn`;
    return part === "cross_attn" ? "decoder.cross_attn" : part;
  };
  const nameOf = (about) => {
    const sort = sortOf(about);
    return sort === "layer" ? say("machine.layer", {layer: about.layer}) : say(`machine.place.${sort}`);
  };
  const whereOf = ({stack, layer, part}) => {
    return layer === null || !part ? say(`machine.${stack}`) : `${say(`machine.${stack}`)} · ${say("machine.layer", {layer})}`;
  };

  /* ---- shapes as rectangles, their sides on a logarithmic scale; heads as sheets behind each other ---- */
  const side = (size) => (typeof size === "number" ? 4 + 4.2 * Math.log2(size + 1) : 18);
  const glyph = (sizes, filled) => {
    const [count, rows, columns] = [1, 1, ...sizes].slice(-3);
    const sheets = Math.min(3, count);
    const [width, height] = [side(columns), sizes.length === 1 ? 6 : side(rows)];
    const by = 4 * (sheets - 1);
    const look = {class: `m-glyph${filled ? " filled" : ""}`, "aria-hidden": "true"};
    const node = svg("svg", {width: width + by + 2, height: height + by + 2, ...look});
    for (let sheet = sheets - 1; sheet >= 0; sheet--) {
      node.append(svg("rect", {x: 1 + 4 * sheet, y: 1 + by - 4 * sheet, width, height, rx: 2}));
    }
    return node;
  };
  /* Symbols such as W_Q: what stands after "_" is set lower. */
  const symbols = (content) => {
    const node = make("span", "m-symbol");
    content.split(/_(\w+)/).forEach((part, at) => part && node.append(at % 2 ? make("sub", "", part) : part));
    return node;
  };
  const row = ({sizes, filled = false, symbol, words, times = 1}) => {
    const line = make("div", `m-row${filled ? " weights" : ""}`);
    const picture = make("span", "m-row-glyph");
    picture.append(glyph(times > 1 && sizes.length === 2 ? [times, ...sizes] : sizes, filled));
    const said = make("span", "m-row-words");
    said.append(symbols(symbol), " ", make("span", "faint", words));
    line.append(picture, said, make("span", "m-row-shape", `${times > 1 ? `${times} × ` : ""}${shape(sizes)}`));
    return line;
  };

  /* ---- what goes through each sort of block ---- */
  const rowsOf = (about, value) => {
    const {sizes, shapes, places} = value.picture;
    const {stack, place} = about;
    const sort = sortOf(about);
    const flow = (name, symbol, key) => ({sizes: shapes[name], symbol, words: say(`machine.flow.${key}`)});
    const weights = (name, symbol, key, times) => {
      const found = places[place].tensors.find(([tensor]) => tensor.endsWith(name));
      const sizes = [...found[1]].reverse(); // PyTorch keeps the transposed of what the paper multiplies by
      return {sizes, filled: true, symbol, words: say(`machine.flow.${key}`), times};
    };
    if (sort.endsWith("_attn")) {
      const cross = sort === "decoder.cross_attn";
      const causal = sort === "decoder.self_attn";
      const of = (name) => `${place}.${name}`;
      return [
        flow(of("q"), "X", cross ? "queries.from" : "in"),
        ...(cross ? [flow(of("k"), "M", "memory")] : []),
        weights("q_proj.weight", "W_Q, W_K, W_V", "projections", 3),
        flow(of("q_heads"), "Q = XW_Q", "queries"),
        flow(of("k_heads"), cross ? "K = MW_K,  V = MW_V" : "K = XW_K,  V = XW_V", "keys"),
        flow(of("scores"), `QKᵀ / √${sizes[stack].head_dim}${causal ? " + mask" : ""}`, causal ? "scores.causal" : "scores"),
        flow(of("scores"), "A = softmax", "weights"),
        flow(of("joined"), "AV", "joined"),
        weights("out_proj.weight", "W_O", "out"),
        flow(of("output"), "AVW_O", "back"),
      ];
    }
    if (sort === "feed_forward") {
      return [
        flow(`${stack}.state`, "X", "in"), weights("linear1.weight", "W_1", "widen"),
        {sizes: shapes[`${stack}.hidden`], symbol: `H = ${sizes.activation}(XW_1 + b_1)`, words: say("machine.flow.hidden")},
        weights("linear2.weight", "W_2", "narrow"), flow(`${stack}.state`, "HW_2 + b_2", "back"),
      ];
    }
    if (sort === "norm") {
      return [flow(`${stack}.state`, "X", "in"),
        {sizes: [sizes.d_model], filled: true, symbol: "γ, β", words: say("machine.flow.gain"), times: 2},
        flow(`${stack}.state`, "γ(x − μ) / σ + β", "normed")];
    }
    if (sort === "embedding") {
      const rows = sizes.scale === 1 ? ["E[ids]", "embedded.plain"] : [`E[ids] · √${number(sizes.d_model)}`, "embedded"];
      return [flow(`${stack}.ids`, "ids", "ids"),
        {sizes: [sizes[stack].vocab_size, sizes.d_model], filled: true, symbol: "E", words: say("machine.flow.table")},
        flow(`${stack}.embedded`, ...rows)];
    }
    if (sort === "positions") {
      return [flow(`${stack}.embedded`, "X", "in"),
        {sizes: [sizes.max_len, sizes.d_model], symbol: "PE", words: say("machine.flow.positions")},
        flow(`${stack}.input`, "X + PE", "placed")];
    }
    if (sort === "memory") {
      return [flow("encoder.final", "M", "final"), flow("decoder.cross_attn.k", "M", "read")];
    }
    if (sort === "output") {
      const [symbol, key] = places.output.shared ? ["E", "shared"] : ["W", "unembed"];
      return [flow("decoder.final", "X", "in"),
        {sizes: [sizes.decoder.vocab_size, sizes.d_model], filled: true, symbol, words: say(`machine.flow.${key}`)},
        flow("logits", `X${symbol}ᵀ${sizes.output_bias ? " + b" : ""}`, "logits")];
    }
    if (sort === "softmax") return [flow("logits", "z", "logits"), flow("logits", "exp(z) / Σ exp(z)", "probabilities")];
    return [];
  };
  /* ---- the tables below ---- */
  const table = (rows, total) => {
    const node = make("table", "m-tensors");
    rows.forEach(([name, about, count]) => {
      const line = node.insertRow();
      line.append(make("th", "", name), make("td", "m-row-shape", about), make("td", "", count));
      line.firstChild.scope = "row";
    });
    const last = node.createTFoot().insertRow();
    last.append(make("th", "", say("machine.sum")), make("td"), make("td", "", number(total)));
    last.firstChild.scope = "row";
    return node;
  };
  const product = (sizes) => sizes.reduce((before, size) => before * size, 1);
  const tensorsOf = (about, value) => {
    const place = value.picture.places[about.place];
    if (!place) return null;
    const short = (name) => (name.startsWith(`${about.id}.`) ? name.slice(about.id.length + 1) : name);
    const rows = place.tensors.map(([name, sizes]) => [short(name.replace("{layer}", about.layer)), shape(sizes), number(product(sizes))]);
    if (place.shared) rows.push([value.picture.places[place.shared].tensors[0][0], say(`machine.shared.${place.shared}`), "0"]);
    return table(rows, place.count);
  };
  const sublayersOf = ({stack, layer}, value) => {
    const found = Object.entries(value.picture.places).filter(([name]) => name.startsWith(`${stack}.`));
    const total = found.reduce((sum, [, {count}]) => sum + count, 0);
    const rows = found.map(([name, {count, operations: done}]) => [
      nameOf(parse(name.replace(".", `.${layer}.`))), done ? operations(done) : "", number(count),
    ]);
    return table(rows, total);
  };

  /* ---- the heads of this layer, to choose from ---- */
  const heads = (about, value, {real, chosen, onHead}) => {
    const kind = KINDS[about.place];
    const list = make("div", "m-heads");
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", say("machine.heads.choose"));
    const {heads: count} = value.picture.sizes[about.stack];
    for (let head = 0; head < count; head++) {
      const url = imageOf(kind, about.layer, head);
      const button = make("button", `m-head-button ${kind}`);
      const isChosen = chosen.kind === kind && chosen.layer === about.layer && chosen.head === head;
      button.type = "button";
      Object.assign(button.dataset, {layer: about.layer, head});
      button.setAttribute("aria-pressed", String(isChosen));
      button.setAttribute("aria-label", say("machine.head", {layer: about.layer, head}));
      if (url) {
        const picture = make("img");
        Object.assign(picture, {src: url, alt: ""});
        button.append(picture);
      }
      button.append(make("span", "", `H${head}`));
      button.addEventListener("click", () => onHead(kind, about.layer, head));
      list.append(button);
    }
    return real ? list : null;
  };

  /* ---- all of it ---- */
  const action = (key, go) => {
    const button = make("button", "quiet", say(key));
    button.type = "button";
    button.addEventListener("click", go);
    return button;
  };
  /* `actions`: {real, chosen, onHead(kind, layer, head), onJump(tab, kind, layer)}. */
  const inside = (host, id, value, actions) => {
    const about = parse(id);
    const sort = sortOf(about);
    const place = value.picture.places[about.place];
    const kind = KINDS[about.place] ?? (sort === "memory" ? "cross" : "");
    const kicker = make("p", `m-kicker ${kind}`, whereOf(about));
    const title = make("h3", "", nameOf(about));
    title.tabIndex = -1;
    const parts = [kicker, title, make("p", "m-help", say(`machine.help.${sort}`))];
    const norm = about.layer === null ? "final" : value.picture.sizes.norm;
    if (sort === "norm") parts.push(make("p", "m-help", say(`machine.help.norm.${norm}`)));
    if (sort === "feed_forward") {
      const layer = Object.entries(value.picture.places).filter(([name]) => name.startsWith(`${about.stack}.`));
      const total = layer.reduce((sum, [, {count}]) => sum + count, 0);
      parts.push(make("p", "m-help", say("machine.help.feed_forward.share", {share: atlas.percent(place.count / total), total: number(total)})));
    }
    const to = make("p", "m-actions");
    const attention = KINDS[about.place];
    if (actions.real) {
      const kindThere = attention ?? (sort === "memory" ? "cross" : `${about.stack}_self`);
      const tabs = ["steps", ...(attention ? ["heads", "translate"] : [])];
      to.append(...tabs.map((tab) => action(`machine.to.${tab}`, () => actions.onJump(tab, kindThere, about.layer))));
      if (sort === "positions") to.append(action("machine.to.positions", () => actions.onJump("positions")));
    }
    if (to.children.length) parts.push(to);
    const rows = rowsOf(about, value);
    if (rows.length) {
      const flow = make("div", "m-flow");
      flow.append(...rows.map(row));
      parts.push(flow);
    }
    const list = kind && about.layer !== null && sort !== "layer" ? heads(about, value, actions) : null;
    if (list) parts.push(make("h4", "", say("machine.heads.choose")), list);
    const done = sort === "layer" ? null : place?.operations;
    if (done) {
      const share = atlas.percent(done / value.picture.operations, 1);
      parts.push(make("p", "m-operations", say("machine.operations.share", {count: operations(done), share})));
    }
    const tensors = sort === "layer" ? sublayersOf(about, value) : tensorsOf(about, value);
    if (tensors) parts.push(make("h4", "", sort === "layer" ? say("machine.sublayers") : say("machine.tensors", {name: id})), tensors);
    host.replaceChildren(...parts);
    host.dataset.block = id;
    return title;
  };

  Object.assign(atlas.machine, {inside, parse});
})();
