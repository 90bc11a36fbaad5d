/* Step by step, part 1: the numbers that came from the server, and how numbers are written here. */
(() => {
  /* {"shape", "data": base64 of little-endian float32} becomes a Float32Array with a `shape`; everything else stays as it is. */
  const vector = ({shape, data}) => {
    const binary = atob(data);
    const view = new DataView(Uint8Array.from(binary, (letter) => letter.charCodeAt(0)).buffer);
    const found = new Float32Array(view.byteLength / 4);
    for (let i = 0; i < found.length; i++) found[i] = view.getFloat32(4 * i, true);
    return Object.assign(found, {shape});
  };
  const isVector = (value) => typeof value.data === "string" && Array.isArray(value.shape);
  const decode = (value) => {
    if (Array.isArray(value)) return value.map(decode);
    if (value === null || typeof value !== "object") return value;
    if (isVector(value)) return vector(value);
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, decode(part)]));
  };
  /* Row i of a matrix. */
  const row = (matrix, i) => matrix.subarray(i * matrix.shape[1], (i + 1) * matrix.shape[1]);

  const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const norm = (values) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  const difference = (a, b) => a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);
  const entropy = (weights) => -weights.reduce((sum, weight) => (weight > 0 ? sum + weight * Math.log(weight) : sum), 0);
  /* In double precision, keys that are masked out left at 0. */
  const softmax = (scores, masked) => {
    const seen = [...scores].filter((_, j) => !masked[j]);
    const top = Math.max(...seen);
    const powers = [...scores].map((score, j) => (masked[j] ? 0 : Math.exp(score - top)));
    const sum = powers.reduce((a, b) => a + b, 0);
    return {top, powers, sum, weights: powers.map((power) => power / sum)};
  };
  /* Number `index` of the paper's position: the function, what the position is divided by as a power of 10000, and what comes out. */
  const sine = ({d_model, layout}, position, index) => {
    const half = d_model / 2;
    const [pair, name] = layout === "halves"
      ? [index % half, index < half ? "sin" : "cos"] : [Math.floor(index / 2), index % 2 === 0 ? "sin" : "cos"];
    const exponent = (2 * pair) / d_model;
    const turned = position / 10000 ** exponent;
    return {name, exponent, turned, value: Math[name](turned)};
  };
  /* Whether a number of the model's table is that; old files hold tables, which may have lost digits (model/marian/weights.py). */
  const isSine = (facts, position, value, index) => Math.abs(value - sine(facts, position, index).value) <= 1e-3;
  const isSines = (facts, position, values) => values.every((value, i) => isSine(facts, position, value, i));
  const indexOfLargest = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

  const RAISED = {"-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹"};
  /* A true minus, and powers of ten for what would round to nothing. */
  const number = (value, digits = 4) => {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value < 0 ? "−∞" : "∞";
    const size = Math.abs(value);
    if (size >= 1e6 || (size !== 0 && size < 0.5 * 10 ** -digits)) {
      const [factor, power] = value.toExponential(1).split("e");
      return `${factor.replace("-", "−")}·10${[...String(Number(power))].map((digit) => RAISED[digit]).join("")}`;
    }
    return value.toFixed(size >= 1000 ? Math.min(digits, 1) : digits).replace("-", "−");
  };
  /* Inside a sum or a product a negative number needs its brackets. */
  const bracketed = (value, digits) => (value < 0 ? `(${number(value, digits)})` : number(value, digits));
  const percent = (share) => atlas.percent(share, share < 0.1 || share > 0.99 ? 1 : 0);
  const shape = (...sizes) => `[${sizes.join(", ")}]`;
  const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

  /* A label as viz/panels/maps_value.py makes it; in Chinese only what has a name of its own there differs. */
  const labels = (side) => {
    const of = atlas.maps.current()?.sides[side]?.pieces;
    return of ? of.en.map((english, i) => of[atlas.state.lang]?.[i] ?? english) : [];
  };
  const quoted = (label) => `“${label.text}”`;
  /* Where a word stands more than once, its position says which is meant; `word` is the word alone. */
  const named = (list) => list.map((label, j) => {
    const again = list.some(({text}, other) => other !== j && text === label.text);
    return {...label, word: label.text, text: again ? `${label.text} (${j})` : label.text};
  });
  /* A label of which nothing is told. */
  const COVERED = "…";
  const disguised = (label) => ({...label, text: COVERED, hover: COVERED});
  /* Tokens that read the same differ in the space before them: there it is shown. */
  const distinct = (list) => list.map((label) => {
    const alike = list.some(({text, raw}) => text === label.text && raw !== label.raw);
    return alike && label.raw.startsWith("▁") ? {...label, text: `␣${label.text}`} : label;
  });
  /* What a label says when it is pointed at, for a title: those of maps_value.py are escaped for Plotly (viz/figures/labels.py). */
  const hover = (label) => label.hover
    .replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&#36;", "$").replaceAll("&amp;", "&");

  atlas.steps = {
    decode, row, largest, norm, difference, entropy, softmax, sine, isSine, isSines, indexOfLargest, number, bracketed, percent, shape,
    grouped, labels, quoted, named, distinct, hover, COVERED, disguised,
  };
})();
