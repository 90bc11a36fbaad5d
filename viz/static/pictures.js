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
  const wrap = (text, width) => {
    pen.font = `${NOTE}px ${fonts()}`;
    const lines = [];
    let line = "";
    for (const part of text.match(/\s*\S{1,12}/gu) || []) { // long words and text without spaces are cut as well
      if (line && pen.measureText(line + part).width > width) {
        lines.push(line);
        line = part.trimStart();
      } else line += part;
    }
    return line ? [...lines, line] : lines;
  };
  const caption = (width) => {
    const result = atlas.result();
    const heading = document.querySelector("#map-head [data-part=heading]")?.textContent ?? "";
    const model = [atlas.modelName(result.request.model), result.revision?.slice(0, 7)].filter(Boolean).join(" @ ");
    return [`${result.request.text} → ${result.text}`, `${heading} · ${model} · ${atlas.say("page.title")}`]
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

  atlas.pictures = {map, element, fonts, color, caption, inForm, EDGE, LINE, NOTE};
})();
