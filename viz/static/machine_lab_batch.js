/* Two experiments on the sentence of the page: the three masks of a padded batch, and one pass against word by word. */
(() => {
  const {state, onChange, say, make} = atlas;
  const {change, compact, whole, tiny, milliseconds, keyOf, request, fillTable, experiment, find} = atlas.lab;
  const KINDS = ["encoder_self", "decoder_self", "cross"];

  /* ---- masks ---- */
  /* Until the visitor writes one: the longest of the model's examples that is not the sentence itself. */
  const usualSecond = () => {
    const others = (atlas.model()?.examples ?? []).filter((text) => text !== request()?.text);
    return others.reduce((longest, text) => (text.length > longest.length ? text : longest), "");
  };
  const second = () => state.lab.own ?? usualSecond();
  const masks = experiment("masks", () => (request() ? keyOf(request(), second()) : null), () => (state.lab.second = second()));

  const [NAMES, FEW, BESIDE] = [66, 40, 8]; // px for the names of rows, at most and at least, and what stands between them and the cells
  const [LEAST, BARE] = [17, 13]; // px of a cell into which −∞ goes, and of one that shows its colour alone
  /* The shortest example of the model, for one whose own sentence is too long. */
  const shortest = () => (atlas.model()?.examples ?? []).reduce((best, text) => (!best || text.length < best.length ? text : best), "");
  const translate = (text) => {
    const box = document.querySelector("#sentence textarea");
    Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(box, text);
    box.dispatchEvent(new Event("input", {bubbles: true}));
  };
  const RIM = {encoder_self: ["source", "source"], decoder_self: ["target", "target"], cross: ["target", "source"]};
  const lengthOf = (sentence, side) => sentence[side === "source" ? "src_len" : "tgt_len"];
  const tableOf = (kind, sentence, number, rows) => {
    const [rowSide, columnSide] = RIM[kind];
    const table = make("table", "lab-mask");
    const caption = make("caption");
    const name = make("b", "", String(number));
    const words = make("bdi", "", rowSide === "source" ? sentence.text : sentence.translation);
    caption.append(name, " ", words);
    caption.title = say("lab.masks.sentence", {kind: say(`kind.${kind}`), number});
    const nameOf = ({text}, place, side) => {
      const node = make("span");
      node.append(make("bdi", "", text));
      node.title = text;
      node.classList.toggle("pad", place >= lengthOf(sentence, side));
      return node;
    };
    const keys = sentence[columnSide].map((label, j) => ({text: nameOf(label, j, columnSide), className: "across"}));
    const body = rows.map((marks, i) => {
      const cells = [...marks].map((mark) => ({text: mark === "0" ? "0" : "−∞", className: mark === "0" ? "seen" : "masked"}));
      const row = [{text: nameOf(sentence[rowSide][i], i, rowSide), head: true}, ...cells];
      row.className = i >= lengthOf(sentence, rowSide) ? "unused" : "";
      return row;
    });
    fillTable(table, ["", ...keys], body);
    table.prepend(caption);
    return table;
  };
  const kindOf = (value, kind) => {
    const column = make("div", `lab-mask-kind ${kind}`);
    const top = make("div", "lab-mask-head");
    const shape = value.shapes[kind].join(", ");
    top.append(make("h4", "", say(`kind.${kind}`)), make("p", "", say(`lab.masks.${kind}`)),
      make("p", "faint", say(kind === "decoder_self" ? "lab.masks.shape.causal" : "lab.masks.shape", {shape})));
    column.append(top, ...value.sentences.map((sentence, b) => {
      const frame = make("div", "lab-scroll");
      frame.tabIndex = 0;
      frame.setAttribute("role", "region");
      frame.setAttribute("aria-label", say("lab.masks.sentence", {kind: say(`kind.${kind}`), number: b + 1}));
      frame.append(tableOf(kind, sentence, b + 1, value.masks[kind][b]));
      return frame;
    }));
    return column;
  };
  atlas.lab.masks = (element, props, watch) => {
    const input = element.querySelector("input");
    const host = find(element, "masks");
    const fit = () => {
      if (document.activeElement !== input) input.value = second();
      input.placeholder = say("lab.masks.second.hint");
    };
    const take = () => {
      soon.cancel();
      if (input.value.trim() !== second()) change({own: input.value.trim()});
    };
    const soon = atlas.debounce(700, take);
    input.addEventListener("input", soon);
    input.addEventListener("change", take);
    input.addEventListener("keydown", (event) => event.key === "Enter" && !event.isComposing && take());
    /* Cells as large as fit. Where −∞ does not go into them, names are cut; then colours stand for the numbers; then the table scrolls. */
    const size = () => {
      const column = host.querySelector(".lab-mask-kind")?.clientWidth;
      if (!column) return;
      const longest = Math.max(...masks.value().sentences.flatMap(({source, target}) => [source.length, target.length]));
      const dense = column - BESIDE - FEW < longest * (LEAST + 1);
      const least = dense ? BARE : LEAST;
      const names = Math.max(FEW, Math.min(NAMES, column - BESIDE - longest * (least + 1)));
      host.classList.toggle("dense", dense);
      find(element, "dense").hidden = !dense;
      host.style.setProperty("--names", `${names}px`);
      const fits = Math.floor((column - BESIDE - names) / longest) - 1;
      host.style.setProperty("--cell", `${Math.max(least, Math.min(26, fits))}px`);
    };
    new ResizeObserver(size).observe(host);
    masks.onShow((value) => {
      host.replaceChildren(...KINDS.map((kind) => kindOf(value, kind)));
      size();
      host.style.setProperty("--sentences", value.sentences.length);
      const said = value.sentences.length > 1 ? "lab.masks.checked" : "lab.masks.checked.one";
      atlas.fill(find(element, "checked"), say(said, {leak: tiny(value.leak), difference: tiny(value.difference)}));
    });
    const shorter = find(element, "shorter");
    const offer = find(element, "shorter-text");
    offer.addEventListener("click", () => translate(offer.textContent));
    const take_ = () => {
      shorter.hidden = props.value?.problem?.code !== "masks_too_long" || !shortest();
      offer.textContent = shortest();
      masks.take(props.value);
    };
    watch("value", take_);
    onChange(["lang", "lab"], fit);
    atlas.onModel(fit);
    atlas.onResult(fit);
    masks.section(element);
    fit();
    take_();
  };

  /* ---- one pass or many ---- */
  const WAYS = ["parallel", "cached", "uncached"];
  const serial = experiment("serial", () => (request() ? keyOf(request(), state.lab.again) : null));
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

  const showWays = (table, value) => {
    const {tgt_len: steps, ways, difference} = value;
    const rows = {parallel: steps, cached: steps, uncached: (steps * (steps + 1)) / 2};
    const passes = {parallel: 1, cached: steps, uncached: steps};
    const line = (name, cell) => [{text: say(`lab.serial.${name}`), head: true}, ...WAYS.map(cell)];
    const time = (way) => {
      const [least, middle, most] = ways[way].seconds.map(milliseconds);
      const cell = make("span", "", middle);
      if (ways[way].repeats > 1) cell.append(make("small", "", say("lab.serial.range", {least, most})));
      return cell;
    };
    fillTable(table, ["", ...WAYS.map((way) => say(`lab.serial.${way}`))], [
      line("passes", (way) => whole(passes[way])),
      line("computed", (way) => whole(rows[way])),
      line("operations", (way) => ({text: compact(sum(ways[way].operations)), title: whole(sum(ways[way].operations))})),
      line("time", time),
      line("difference", (way) => (way === "parallel" ? say("lab.serial.reference") : tiny(Math.max(...difference[way])))),
    ]);
  };
  const bar = (value, most, className, name) => {
    const line = make("div", `lab-bar-line ${className}`);
    const track = line.appendChild(make("i"));
    track.style.setProperty("--share", value / most);
    const number = line.appendChild(make("span", "", compact(value)));
    number.title = `${name}: ${whole(value)}`;
    return line;
  };
  const showSteps = (table, value) => {
    const {ways, difference, reads, writes} = value;
    const most = Math.max(...ways.cached.operations, ...ways.uncached.operations);
    const header = [say("lab.serial.step"), say("lab.serial.reads"), say("lab.serial.writes")];
    const twice = (name) => {
      const cell = make("span", "", say(`lab.serial.${name}`));
      cell.append(make("small", "", `${say("lab.serial.per_step.cached")} · ${say("lab.serial.per_step.uncached")}`));
      return cell;
    };
    fillTable(table, [...header, twice("per_step"), twice("row")], reads.map((token, t) => {
      const bars = make("div", "lab-bars");
      bars.append(...["cached", "uncached"].map((way) => bar(ways[way].operations[t], most, way, say(`lab.serial.${way}`))));
      return [{text: String(t + 1), head: true}, make("bdi", "", token), make("bdi", "", writes[t]), bars,
        `${tiny(difference.cached[t])} · ${tiny(difference.uncached[t])}`];
    }));
  };
  atlas.lab.serial = (element, props, watch) => {
    find(element, "again").addEventListener("click", () => change({again: state.lab.again + 1}));
    serial.onShow((value) => {
      const repeats = value.ways.uncached.repeats;
      const cut = value.tgt_len < value.whole ? ` ${say("lab.serial.cut", {count: value.tgt_len, whole: value.whole})}` : "";
      showWays(find(element, "ways"), value);
      showSteps(find(element, "steps"), value);
      atlas.fill(find(element, "measured"), repeats > 1 ? say("lab.serial.measured", {repeats}) : say("lab.serial.measured.once"));
      atlas.fill(find(element, "note"), `${say("lab.serial.note")}${cut}`);
    });
    watch("value", () => serial.take(props.value));
    serial.section(element);
    serial.take(props.value);
  };
})();
