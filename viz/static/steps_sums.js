/* Step by step, part 4: the arithmetic of any one cell, spelled out.
 *
 * What is made of numbers that are here is written at once. Of linear maps the page has no weights: it asks the server for the one line of
 * the matrix that made the cell (event "cell", viz/panels/steps.py).
 */
(() => {
  const {say, make} = atlas;
  const {number, bracketed, grouped, row, softmax, sine, isSine, strip, largest} = atlas.steps;
  const MOST = 6; // terms of a long sum that are written out
  const SERVER = ["q", "k", "v", "projected", "hidden", "ff_output", "logit", "normed", "final"];

  /* Σ a b + bias, as text: the largest terms in their order, the rest as one number. */
  const sumOfProducts = (a, b, bias = null, most = MOST) => {
    const terms = Array.from(a, (value, i) => ({i, value: value * b[i]}));
    const shown = [...terms].sort((x, y) => Math.abs(y.value) - Math.abs(x.value)).slice(0, most).sort((x, y) => x.i - y.i);
    const rest = terms.reduce((sum, {value}) => sum + value, 0) - shown.reduce((sum, {value}) => sum + value, 0);
    const parts = shown.map(({i}) => `${bracketed(a[i], 3)} × ${bracketed(b[i], 3)}`);
    if (terms.length > shown.length) parts.push(say("steps.sum.more", {count: grouped(terms.length - shown.length), rest: number(rest)}));
    if (bias) parts.push(say("steps.sum.bias", {value: bracketed(bias)}));
    return parts.join(" + ");
  };
  /* The same of numbers that are only added. */
  const sumOf = (values, most) => {
    const shown = [...values.keys()].sort((x, y) => values[y] - values[x]).slice(0, most).sort((x, y) => x - y);
    const parts = shown.map((i) => number(values[i]));
    const rest = values.reduce((sum, value, i) => (shown.includes(i) ? sum : sum + value), 0);
    if (values.length > shown.length) parts.push(say("steps.sum.more", {count: grouped(values.length - shown.length), rest: number(rest)}));
    return parts.join(" + ");
  };

  const ACTIVATIONS = {
    relu: (x, y) => `max(0, ${number(x)}) = ${number(y)}`,
    gelu: (x, y) => `${number(x)} × Φ(${number(x)}) = ${number(y)}`,
    silu: (x, y) => `${number(x)} × σ(${number(x)}) = ${number(y)}`,
  };

  /* stage -> lines of text. w: a walk; f: facts of the model; i: which number of the vector, or which key; j: which key, beside i. */
  const here = {
    scaled: ({w, f: {embedding_scale: root}}, i) => [
      `${number(w.embedding[i])} × ${number(root, root % 1 ? 4 : 0)} = ${number(w.scaled[i])}`,
    ],
    encoding: ({w, f, position}, i) => {
      if (w.encoding.every((value) => value === 0)) return ["0"];
      const value = w.encoding[i];
      if (!isSine(f, position, value, i)) return [say("steps.sum.stored", {position, index: i, value: number(value)})];
      const {name, exponent, turned} = sine(f, position, i);
      return [`${name}(${position} / 10000^${number(exponent)}) = ${name}(${number(turned)}) = ${number(value)}`];
    },
    input: ({w}, i) => [`${number(w.scaled[i])} + ${bracketed(w.encoding[i])} = ${number(w.input[i])}`],
    product: ({w: {attention: a}}, j) => [`${sumOfProducts(a.q, row(a.k, j))} = ${number(a.products[j])}`],
    score: ({w: {attention: a}, f, scaled}, j) => [scaled
      ? `${number(a.products[j])} / √${f.head_dim} = ${number(a.products[j])} / ${number(Math.sqrt(f.head_dim))} = ${number(a.scores[j])}`
      : `${number(a.products[j])} = ${number(a.scores[j])}`],
    mask: ({w: {attention: a}}, j) => [`${number(a.scores[j])} + ${a.masked[j] ? "(−∞) = −∞" : `0 = ${number(a.scores[j])}`}`],
    masked: (context, j) => here.mask(context, j),
    power: ({w: {attention: a}}, j) => {
      const {top, powers} = softmax(a.scores, a.masked);
      return a.masked[j] ? ["e^(−∞) = 0"] : [`e^(${number(a.scores[j])} − ${bracketed(top)}) = ${number(powers[j])}`];
    },
    weight: ({w: {attention: a}}, j) => {
      const {powers, sum} = softmax(a.scores, a.masked);
      const total = `${sumOf(powers, 12)} = ${number(sum)}`;
      return [total, `${number(powers[j])} / ${number(sum)} = ${number(a.weights[j])}`];
    },
    weighted: ({w: {attention: a}}, i, j) => {
      const value = row(a.v, j)[i];
      return [`${number(a.weights[j])} × ${bracketed(value)} = ${number(a.weights[j] * value)}`];
    },
    head_output: ({w: {attention: a}}, i) => {
      const column = Float32Array.from(a.weights, (_, j) => row(a.v, j)[i]);
      return [`${sumOfProducts(a.weights, column, null, 8)} = ${number(a.head_output[i])}`];
    },
    active: ({w: {feed_forward: ff}, f}, i) => [ACTIVATIONS[f.activation](ff.hidden[i], ff.active[i])],
    added: ({sub}, i) => [`${number(sub.input[i])} + ${bracketed(sub.output[i])} = ${number(sub.added[i])}`],
    probability: ({w}, i) => {
      const {logit, probability} = w.top[i];
      const line = `e^(${number(logit)} − ${bracketed(w.log_sum_exp)}) = ${number(probability)}`;
      const over = w.shared_anew && w.never_written ? "steps.sum.log_sum_exp.written" : "steps.sum.log_sum_exp";
      return [line, say(over, {value: number(w.log_sum_exp)})];
    },
  };

  /* What the server answered: {inputs, weights, bias, sum}. */
  const ofServer = ({inputs, weights, bias, sum}) => {
    const products = Float32Array.from(inputs, (value, i) => value * weights[i]);
    const lines = [`${sumOfProducts(inputs, weights, bias)} = ${number(sum)}`];
    const picture = products.length < 2 ? null : strip({
      name: say("steps.sum.terms", {count: grouped(products.length)}), values: products, scale: largest(products), low: true,
      at: (i) => say("steps.sum.term", {index: i, product: `${number(inputs[i])} × ${bracketed(weights[i])} = ${number(products[i])}`}),
    });
    return {lines, picture};
  };

  /* Where a step writes its arithmetic. ask(cell, then) gets a cell from the server. A cell is {title, context, stage, index, key, after};
   * context: what `here` reads; its title is read anew when tokens are named otherwise, of which watch(then) tells. start(cell): the example
   * that stands there at first; show(cell): what a click asked for; glance(cell or null): what is pointed at, as long as it is. */
  const area = (ask, watch) => {
    const node = make("div", "sum");
    const name = make("p", "sum-name");
    const lines = make("div", "sum-lines");
    node.append(name, lines);
    node.hidden = true;
    let standing = () => {};
    let turn = 0;
    /* What it has needed once is kept as its room, so that nothing below moves while the pointer goes from number to number. */
    const room = () => (node.style.minHeight = `${Math.max(parseFloat(node.style.minHeight) || 0, node.offsetHeight)}px`);
    const write = (title, found, picture) => {
      name.textContent = title;
      atlas.steps.forgetStrips(lines);
      lines.replaceChildren(...found.map((line) => make("p", "sum-line", line)), ...(picture ? [picture] : []));
      if (node.offsetParent) room();
    };
    const isHere = ({stage, context}) => Boolean(context.tell) || !SERVER.includes(stage);
    const local = ({title, context, stage, index, key}) => write(title, context.tell?.() ?? here[stage](context, index, key));
    watch(() => standing());
    const start = (cell) => {
      node.hidden = false;
      standing = () => local(cell);
      standing();
    };
    const glance = (cell) => {
      if (node.hidden || (cell && !isHere(cell))) return;
      node.setAttribute("aria-live", "off"); // the strip or the cell speaks for itself
      if (cell) local(cell);
      else standing();
    };
    const show = (cell) => {
      const mine = ++turn;
      const {context} = cell;
      node.hidden = false;
      node.classList.add("picked");
      node.setAttribute("aria-live", "polite");
      standing = () => local(cell);
      if (isHere(cell)) return standing();
      standing = () => {};
      const {stage, index, key = null, after = false} = cell;
      write(cell.title, [say("steps.sum.waiting")]);
      ask({stage, index, key, after}, (answer) => {
        if (mine !== turn) return;
        standing = () => {
          if (!answer) return write(cell.title, [say("steps.sum.missing")]);
          const {lines: found, picture} = ofServer(answer);
          write(cell.title, [...(context.lead?.() ?? []), ...found], picture);
        };
        standing();
      });
    };
    return {node, start, show, glance};
  };

  Object.assign(atlas.steps, {sumOfProducts, sumArea: area});
})();
