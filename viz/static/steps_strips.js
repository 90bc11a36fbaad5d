/* Step by step, part 2: a vector as a strip of bars, up for positive and down for negative numbers.
 *
 * A strip is a slider to the keyboard and to screen readers: arrow keys go from number to number, Enter asks how one was made. Bars are
 * whole device pixels wide, so that even 256 of them stand apart; where there is less than one for each, a pixel shows its own range.
 */
(() => {
  const {make, say, paint} = atlas;
  const {number, norm, largest} = atlas.steps;
  const WIDEST = 9; // px of a bar with its gap
  const [HEIGHT, LOW] = [44, 22];

  /* Strips live as long as what they stand in: each new walk forgets those of the old one. */
  const live = new Map();
  const resized = new ResizeObserver((entries) => entries.forEach(({target}) => live.get(target)?.()));
  atlas.onTheme(() => live.forEach((draw) => draw()));
  const forget = (root) => [...live.keys()].filter((frame) => root.contains(frame)).forEach((frame) => {
    resized.unobserve(frame);
    live.delete(frame);
  });

  const paintBars = (canvas, {values, scale, tone, alpha, span}, width, height) => {
    const ratio = window.devicePixelRatio || 1;
    const {length} = values;
    const room = Math.max(1, Math.floor(width * ratio));
    const even = Math.floor(Math.min(room / length, WIDEST * ratio));
    const across = even >= 1 ? even * length : room;
    const down = Math.round(height * ratio);
    Object.assign(canvas, {width: across, height: down});
    Object.assign(canvas.style, {width: `${across / ratio}px`, height: `${height}px`});
    const context = canvas.getContext("2d");
    const middle = Math.round(down / 2);
    const line = Math.max(1, Math.round(ratio));
    const to = (value) => (value / (scale || 1)) * (middle - line);
    const fill = (at, wide, low, high) => {
      const top = Math.round(middle - to(high));
      const bottom = Math.round(middle - to(low));
      if (bottom > top) context.fillRect(at, top, wide, bottom - top); // what is less than half a pixel is left to the line
    };
    context.fillStyle = `rgb(${paint.colour("line").join(" ")})`;
    context.fillRect(0, middle, across, line);
    const colours = [tone, span?.tone].map((name) => name && `rgb(${paint.colour(name).join(" ")})`);
    const gap = even >= 3 * ratio ? Math.max(1, Math.round(ratio)) : even >= 3 ? 1 : 0;
    context.globalAlpha = alpha;
    for (let at = 0; at < (even >= 1 ? length : across); at++) {
      const from = even >= 1 ? at : Math.floor((at * length) / across);
      const stop = even >= 1 ? at + 1 : Math.max(from + 1, Math.floor(((at + 1) * length) / across));
      const part = values.subarray(from, stop);
      context.fillStyle = span && from >= span.from && from < span.to ? colours[1] : colours[0];
      fill(at * (even >= 1 ? even : 1), even >= 1 ? even - gap : 1, Math.min(0, ...part), Math.max(0, ...part));
    }
    return across / ratio;
  };

  /* values [n]; scale: what the tallest bar stands for; tone: a colour of the page; span {from, to, tone}: a part in another colour;
   * pick(index): what a click asks for; glance(index or null): told what is pointed at; readout: where numbers are told, if not in a line
   * of the strip's own. */
  const strip = ({
    name, values, scale = largest(values), tone = "muted", alpha = 1, span, low = false, pick, glance, readout, spoken = name, at = atIndex,
  }) => {
    const figure = make("div", `strip${low ? " low" : ""}`);
    const frame = make("div", "strip-frame");
    const canvas = make("canvas");
    const cursor = make("i", "strip-cursor");
    const height = low ? LOW : HEIGHT;
    let said = readout;
    if (!said) {
      const head = make("p", "strip-head");
      said = make("span", "strip-said");
      head.append(make("span", "strip-name", name), said);
      figure.append(head);
    }
    const rest = said.dataset.rest ?? say("steps.strip.rest", {norm: number(norm(values), 2), most: number(largest(values), 2)});
    said.dataset.rest = rest;
    let current = null;
    let held = null;
    let width = 0;
    frame.style.height = `${height}px`;
    frame.tabIndex = 0;
    frame.setAttribute("role", "slider");
    frame.setAttribute("aria-label", spoken);
    frame.setAttribute("aria-valuemin", "0");
    frame.setAttribute("aria-valuemax", String(values.length - 1));
    frame.dataset.size = String(values.length);
    frame.append(canvas, cursor);
    figure.append(frame);

    const show = (index) => {
      current = index;
      cursor.hidden = index === null;
      frame.setAttribute("aria-valuenow", String(index ?? 0));
      frame.setAttribute("aria-valuetext", at(index ?? 0, values));
      atlas.fill(said, index === null ? rest : at(index, values));
      said.classList.toggle("pointed", index !== null);
      glance?.(index === held ? null : index);
      if (index === null) return;
      const pitch = width / values.length;
      cursor.style.left = `${index * pitch}px`;
      cursor.style.width = `${Math.max(2, pitch)}px`;
    };
    const indexOf = (event) => {
      const x = event.clientX - frame.getBoundingClientRect().left;
      return width && x >= 0 && x < width ? Math.floor((x / width) * values.length) : null;
    };
    const choose = (index) => {
      if (index === null || !pick) return;
      held = index;
      show(index);
      pick(index);
    };
    frame.addEventListener("pointermove", (event) => show(indexOf(event) ?? held));
    frame.addEventListener("pointerdown", (event) => show(indexOf(event) ?? held));
    frame.addEventListener("pointerleave", () => show(held));
    frame.addEventListener("click", (event) => choose(indexOf(event)));
    frame.addEventListener("focus", () => current === null && frame.matches(":focus-visible") && show(0));
    frame.addEventListener("blur", () => show(held));
    frame.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 16, PageDown: -16}[event.key];
      const to = event.key === "Home" ? 0 : event.key === "End" ? values.length - 1 : step && (current ?? -1) + step;
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "Enter" || event.key === " ") choose(current);
      else if (event.key === "Escape") show((held = null));
      else if (to === undefined) return;
      else show(Math.max(0, Math.min(values.length - 1, to)));
      event.preventDefault();
    });
    frame.toggleAttribute("data-asks", Boolean(pick));

    const draw = () => {
      if (!frame.clientWidth) return;
      width = paintBars(canvas, {values, scale, tone, alpha, span}, frame.clientWidth, height);
      canvas.dataset.drawn = "1";
      if (current !== null) show(current);
    };
    live.set(frame, draw);
    resized.observe(frame); // tells once at the start, too
    show(null);
    return figure;
  };
  const atIndex = (index, values) => say("steps.strip.at", {index, value: number(values[index])});

  /* One strip for every key: [S, K] as rows, with one line that tells the numbers of all of them. labels: those of steps_step.js. */
  const FEW = 12;
  const keyStrips = ({name, labels, matrix, tone = "muted", scale = largest(matrix), weights, weighted = false, pick}) => {
    const block = make("div", "key-strips");
    const head = make("p", "strip-head");
    const said = make("span", "strip-said");
    said.dataset.rest = atlas.steps.shape(...matrix.shape);
    head.append(make("span", "strip-name", name), said);
    block.append(head);
    /* Of many keys those with the most weight, in the order of the sentence. */
    const order = labels.map((_, j) => j).sort((a, b) => weights[b] - weights[a]).slice(0, FEW).sort((a, b) => a - b);
    const line = (j) => {
      const label = make("div", `key-strip${weighted ? " weighted" : ""}`);
      const word = make("span", "key-word");
      word.dir = "auto";
      const own = make("span");
      word.append(own);
      if (labels[j].gives) word.dataset.gives = labels[j].gives;
      const values = atlas.steps.row(matrix, j);
      const at = (index) => say("steps.strip.at_key", {key: labels[j].text, index, value: number(values[index])});
      label.append(word);
      if (weighted) label.append(make("span", "key-weight", weights[j] > 0 && weights[j] < 0.005 ? "< 0.01" : number(weights[j], 2)));
      const bars = strip({values, scale, tone, low: true, readout: said, pick: pick && ((index) => pick(index, j)), spoken: name, at});
      label.append(bars);
      const frame = bars.querySelector(".strip-frame");
      labels[j].watch(() => {
        own.textContent = labels[j].text;
        word.classList.toggle("covered", labels[j].covered);
        frame.setAttribute("aria-label", say("steps.strip.of_key", {name, key: labels[j].text}));
        frame.setAttribute("aria-valuetext", at(Number(frame.getAttribute("aria-valuenow"))));
      });
      return label;
    };
    block.append(...order.map(line));
    if (order.length < labels.length) {
      const more = make("button", "plain", say("steps.strip.all", {count: labels.length - order.length}));
      more.type = "button";
      more.addEventListener("click", () => {
        forget(block);
        block.replaceChildren(head, ...labels.map((_, j) => line(j)));
        block.querySelector(".strip-frame").focus();
      });
      block.append(more);
    }
    return block;
  };

  Object.assign(atlas.steps, {strip, keyStrips, forgetStrips: forget});
})();
