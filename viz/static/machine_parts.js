/* The Machine tab, part 1: what the picture is made of. Nodes of SVG, wires with round corners, numbers and shapes in words, small maps.
 *
 * A picture is built from numbers alone and thrown away for the next one; text goes in as textContent only.
 */
atlas.machine = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const ROUND = 9; // radius of a wire's corner

  const svg = (tag, attributes = {}, ...children) => {
    const node = document.createElementNS(NS, tag);
    Object.entries(attributes).forEach(([name, value]) => value !== undefined && node.setAttribute(name, value));
    node.append(...children);
    return node;
  };
  const text = (x, y, content, name, anchor = "start") => {
    const node = svg("text", {x, y, class: name, "text-anchor": anchor});
    node.textContent = content;
    return node;
  };

  /* ---- numbers ---- */
  const number = (value) => value.toLocaleString("en-US");
  /* In the picture, where room is short: thousands of millions in three digits. */
  const compact = (value) => value.toLocaleString(atlas.state.lang === "zh" ? "zh-CN" : "en", {notation: "compact", maximumSignificantDigits: 3});
  const shortly = (value) => (value >= 1e9 ? compact(value) : number(value));
  const shape = (sizes) => `[${sizes.map((size) => (typeof size === "number" ? number(size) : size)).join(", ")}]`;
  const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const operations = (count) => {
    const [size, unit] = UNITS.find(([least]) => count >= least) || [1, ""];
    const value = count / size;
    return `${value >= 100 || size === 1 ? Math.round(value) : value.toPrecision(3)} ${unit}FLOP`;
  };

  /* ---- wires ---- */
  const toward = ([x, y], [tx, ty], length) => {
    const whole = Math.hypot(tx - x, ty - y) || 1;
    return [x + ((tx - x) * length) / whole, y + ((ty - y) * length) / whole];
  };
  const pathOf = (points) => points.map((point, at) => {
    if (at === 0) return `M${point}`;
    const next = points[at + 1];
    if (!next) return `L${point}`;
    const reach = (other) => Math.min(ROUND, Math.hypot(other[0] - point[0], other[1] - point[1]) / 2);
    return `L${toward(point, points[at - 1], reach(points[at - 1]))}Q${point} ${toward(point, next, reach(next))}`;
  }).join("");
  const arrowAt = ([x, y], [fromX, fromY], name) => {
    const turn = (Math.atan2(y - fromY, x - fromX) * 180) / Math.PI;
    return svg("path", {d: "M-5.5 -3.5L0 0L-5.5 3.5", class: `m-arrow ${name}`, transform: `translate(${x} ${y}) rotate(${turn})`});
  };
  /* A line through these points; `arrow`: with a head at its end. */
  const wire = (points, {name = "", arrow = false} = {}) => {
    const group = svg("g", {class: "m-wire"}, svg("path", {d: pathOf(points), class: `m-line ${name}`}));
    if (arrow) group.append(arrowAt(points.at(-1), points.at(-2), name));
    return group;
  };
  const plus = (x, y, radius = 9) => svg("g", {class: "m-plus", transform: `translate(${x} ${y})`},
    svg("circle", {r: radius}), svg("path", {d: `M${-radius / 2} 0H${radius / 2}M0 ${-radius / 2}V${radius / 2}`}));

  /* ---- how wide a text is, in the interface font ---- */
  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = (content, size) => {
    pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
    return pen.measureText(content).width;
  };
  /* The tokens that fit on a line of this width, and how many do not. */
  const fitting = (labels, width, {size, padding, gap, rest}) => {
    const widths = labels.map((label) => widthOf(label, size) + padding);
    const all = widths.reduce((sum, each) => sum + each + gap, -gap);
    if (all <= width) return {shown: labels.map((label, i) => [label, widths[i]]), left: 0};
    const shown = [];
    let used = rest;
    for (const [i, label] of labels.entries()) {
      if (used + widths[i] + gap > width) break;
      used += widths[i] + gap;
      shown.push([label, widths[i]]);
    }
    return {shown, left: labels.length - shown.length};
  };

  /* ---- real maps, small: see-through images in the colour of their kind, so that they need no change between light and dark ---- */
  const images = new Map();
  const colourOf = (kind) => getComputedStyle(document.documentElement).getPropertyValue(`--${kind}`).trim();
  const imageOf = (kind, layer, head) => {
    const found = atlas.maps.thumb(kind, layer, head);
    if (!found) return null;
    const key = `${kind} ${layer} ${head}`;
    const known = images.get(key);
    if (known?.data === found.data) return known.url;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [found.columns, found.rows];
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(found.columns, found.rows);
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colourOf(kind).slice(at, at + 2), 16));
    found.data.forEach((weight, i) => pixels.data.set([red, green, blue, weight], 4 * i));
    context.putImageData(pixels, 0, 0);
    const url = canvas.toDataURL();
    images.set(key, {data: found.data, url});
    return url;
  };
  /* One head as a square: its map, or an empty frame where there is none (another configuration, a layer that has not come). */
  const headSquare = (x, y, side, {kind, layer, head, real, chosen}) => {
    const group = svg("g", {class: `m-head${chosen ? " chosen" : ""}`, "data-kind": kind, transform: `translate(${x} ${y})`});
    const url = real ? imageOf(kind, layer, head) : null;
    if (real) Object.assign(group.dataset, {headKind: kind, layer, head});
    if (url) group.append(svg("image", {href: url, width: side, height: side, preserveAspectRatio: "none"}));
    group.append(svg("rect", {width: side, height: side}), svg("title"));
    group.lastChild.textContent = `L${layer} H${head}`;
    return group;
  };

  return {svg, text, number, compact, shortly, shape, operations, wire, arrowAt, plus, widthOf, fitting, headSquare, imageOf};
})();
