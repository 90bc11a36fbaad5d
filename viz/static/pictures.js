/* Pictures to keep: the heatmap and the words with their ribbons, as SVG or PNG, with a caption, on the page's own background.
 *
 * Both are made here and not on the server: the browser has the fonts for every script, and what is saved is what is seen.
 */
(() => {
  const {make} = atlas;
  const SCALE = 2; // pixels of a PNG per CSS pixel
  const MAX_SIDE = 8000; // pixels; browsers refuse larger canvases
  const NOTE = 12;
  const LINE = 17;
  const EDGE = 12;
  const SVG = "http://www.w3.org/2000/svg";
  const fonts = () => getComputedStyle(document.body).fontFamily;
  const color = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

  /* ---- the caption: sentence and translation, then which map of which model ---- */
  const pen = make("canvas").getContext("2d");
  const [ISOLATE, END] = ["\u2068", "\u2069"]; // between them a text runs its own way: from right to left, if its letters do
  const isolated = (text) => `${ISOLATE}${text.replace(/[\u2066-\u2069]/gu, "")}${END}`;
  const wrap = (text, width) => {
    pen.font = `${NOTE}px ${fonts()}`;
    const lines = [];
    let line = "";
    for (const part of text.match(/\s*\S{1,12}/gu) || []) { // long words and text without spaces are cut as well
      if (line && pen.measureText(line + part).width > width) {
        const open = line.lastIndexOf(ISOLATE) > line.lastIndexOf(END); // what is cut runs its own way on both lines
        lines.push(open ? line + END : line);
        line = (open ? ISOLATE : "") + part.trimStart();
      } else line += part;
    }
    return line ? [...lines, line] : lines;
  };
  const caption = (width) => {
    const result = atlas.result();
    const heading = document.querySelector("#map-head [data-part=heading]")?.textContent ?? "";
    const model = [atlas.modelName(result.request.model), result.revision?.slice(0, 7)].filter(Boolean).join(" @ ");
    return [`${isolated(result.request.text)} → ${isolated(result.text)}`, `${heading} · ${model} · ${atlas.say("page.title")}`]
      .flatMap((text) => wrap(text, width));
  };

  /* ---- SVG text to files ---- */
  const svgBlob = (text) => new Blob([text], {type: "image/svg+xml"});
  const pngBlob = (text, width, height) => new Promise((resolve, reject) => {
    const scale = Math.min(SCALE, MAX_SIDE / Math.max(width, height));
    const image = new Image();
    image.onload = () => {
      const canvas = make("canvas");
      [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png");
    };
    image.onerror = () => reject(new Error("the picture cannot be read"));
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  });
  const inForm = (form, text, width, height) => (form === "png" ? pngBlob(text, width, height) : svgBlob(text));

  /* ---- the heatmap: Plotly draws it once more, with room for the caption ---- */
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
  const map = async (form) => {
    const plot = document.querySelector("#map .plot");
    const {width, height, _size: margins} = plot._fullLayout;
    const lines = caption(width - 2 * EDGE);
    const room = lines.length * LINE + 14;
    const note = {
      text: lines.map(plain).join("<br>"), showarrow: false, align: "left", font: {size: NOTE, color: color("--muted")},
      xref: "paper", x: 0, xanchor: "left", xshift: EDGE - margins.l, yref: "paper", y: 0, yanchor: "top", yshift: -margins.b - 2,
    };
    const layout = {
      ...structuredClone(plot.layout), paper_bgcolor: color("--page"), autosize: false, width, height: height + room,
      annotations: [...(plot.layout.annotations || []), note],
    };
    layout.margin = {...layout.margin, b: (layout.margin?.b ?? margins.b) + room};
    layout.meta = {};
    const address = await window.Plotly.toImage({data: plot.data, layout}, {format: "svg", width, height: height + room});
    return inForm(form, decodeURIComponent(address.slice(address.indexOf(",") + 1)), width, height + room);
  };

  /* ---- the words: what is drawn is copied shape by shape, every text as text ---- */
  const element = (name, attributes, content) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (content !== undefined) node.textContent = content;
    return node;
  };
  /* Mixed colours are computed as "color(srgb 0.1 0.2 0.3 / 0.4)", which few programs for SVG know. */
  const plainColor = (value) => {
    const parts = value.match(/^color\(srgb ([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+)(?: \/ ([\d.e+-]+))?\)$/);
    if (!parts) return value;
    const [red, green, blue] = parts.slice(1, 4).map((part) => Math.round(255 * Number(part)));
    return `rgba(${red},${green},${blue},${Number(parts[4] ?? 1).toFixed(3)})`;
  };
  const words = async (form) => {
    const view = document.querySelector(".words-view");
    const stage = view.querySelector(".words-stage");
    const origin = stage.getBoundingClientRect();
    const width = Math.max(320, Math.ceil(origin.width)) + 2 * EDGE;
    const TOP = 30;
    const bottom = TOP + origin.height;
    const lines = caption(width - 2 * EDGE);
    const height = Math.ceil(bottom + 30 + lines.length * LINE + 8);
    const svg = element("svg", {xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": fonts()});
    const place = (node) => {
      const box = node.getBoundingClientRect();
      return {x: box.left - origin.left + EDGE, y: box.top - origin.top + TOP, width: box.width, height: box.height};
    };
    const note = (text, y) => svg.append(element("text", {x: EDGE, y, "font-size": NOTE, fill: color("--muted")}, text));

    svg.append(element("rect", {width, height, fill: color("--page")}));
    const [upper, lower] = view.querySelectorAll(".words-name");
    note(upper.textContent, 20);
    const ribbons = place(view.querySelector(".words-ribbons"));
    view.querySelectorAll(".words-ribbons > g").forEach((group) => {
      const copy = element("g", {transform: `translate(${ribbons.x} ${ribbons.y})`, opacity: getComputedStyle(group).opacity, fill: "none"});
      group.querySelectorAll("path").forEach((path) => {
        const style = getComputedStyle(path);
        const given = {d: path.getAttribute("d"), "stroke-width": path.getAttribute("stroke-width")};
        copy.append(element("path", {...given, stroke: plainColor(style.stroke), "stroke-opacity": style.strokeOpacity}));
      });
      svg.append(copy);
    });
    view.querySelectorAll(".token-word, .token-number").forEach((node) => {
      const box = place(node);
      const style = getComputedStyle(node);
      const size = parseFloat(style.fontSize);
      if (node.matches(".token-word")) {
        const framed = node.parentNode.matches(".chosen, .pinned");
        svg.append(element("rect", {
          ...box, rx: 7, fill: node.parentNode.matches(".masked") ? "rgba(128,132,140,0.16)" : plainColor(style.backgroundColor),
          stroke: framed ? color(`--${view.dataset.kind}`) : "none", "stroke-width": 1.5,
        }));
      }
      if (!node.textContent) return;
      const middle = {x: box.x + box.width / 2, y: box.y + box.height / 2 + size * 0.35, "text-anchor": "middle"};
      const run = style.direction === "rtl" ? {direction: "rtl"} : {};
      svg.append(element("text", {...middle, ...run, "font-size": size, fill: plainColor(style.color)}, node.textContent));
    });
    note(lower.textContent, bottom + 16);
    lines.forEach((line, index) => note(line, bottom + 30 + (index + 1) * LINE));
    return inForm(form, new XMLSerializer().serializeToString(svg), width, height);
  };

  atlas.pictures = {map, words};
})();
