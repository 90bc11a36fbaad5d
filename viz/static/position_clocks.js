/* Positions: every pair of dimensions as the hand of a clock, and M_k as one turn of all of them. Drawn here from rows of the model's own
 * table; between two positions, while it plays, hands go where the formula has them. */
(() => {
  const {state, onChange, say, make} = atlas;
  const {change, whenSeen} = atlas.positions;
  const STEP = 800; // ms from one position to the next while it plays
  const TURNED = 4; // pairs of the matrix that is written out
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  const svg = (tag, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    parent?.append(node);
    return node;
  };
  const floats = ({data}) => {
    const view = new DataView(Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)).buffer);
    return Float32Array.from({length: view.byteLength / 4}, (_, i) => view.getFloat32(4 * i, true));
  };
  const signed = (value, digits) => value.toFixed(digits).replace("-", "−").replace(/^−(0\.?0*)$/, "$1");
  const {tiny} = atlas.positions;

  /* One clock: noon is angle 0, hands turn clockwise, so the tip is as far right as the sine and as far up as the cosine. */
  const CENTRE = 50;
  const REACH = 40;
  const makeClock = (pair) => {
    const figure = make("figure", "clock");
    const picture = svg("svg", {viewBox: "0 0 100 100", role: "img"}, figure);
    svg("circle", {cx: CENTRE, cy: CENTRE, r: REACH, class: "rim"}, picture);
    svg("path", {d: `M${CENTRE} 10V90M10 ${CENTRE}H90`, class: "cross-hair"}, picture);
    const part = (tag, name) => svg(tag, {class: name}, picture);
    const parts = {
      arc: part("path", "arc"), sine: part("line", "sine"), cosine: part("line", "cosine"),
      then: part("line", "hand then"), now: part("line", "hand now"),
    };
    const caption = make("figcaption");
    const [dims, wave, ...values] = ["b", "span", "span", "span"].map((tag) => make(tag));
    caption.append(dims, wave, ...values);
    figure.append(caption);
    return {pair, figure, picture, parts, dims, wave, values};
  };
  const line = (node, x1, y1, x2, y2) => {
    for (const [name, value] of Object.entries({x1, y1, x2, y2})) node.setAttribute(name, value.toFixed(2));
  };
  const tip = (sine, cosine, reach = REACH) => [CENTRE + reach * sine, CENTRE - reach * cosine];
  /* The way from one hand to the other, clockwise, without whole turns. */
  const arcPath = (from, turn) => {
    const rest = turn % (2 * Math.PI);
    const [x1, y1] = tip(Math.sin(from), Math.cos(from), 20);
    const [x2, y2] = tip(Math.sin(from + rest), Math.cos(from + rest), 20);
    return `M${x1.toFixed(2)} ${y1.toFixed(2)}A20 20 0 ${rest > Math.PI ? 1 : 0} 1 ${x2.toFixed(2)} ${y2.toFixed(2)}`;
  };

  const clocks = (element, props, watch) => {
    const find = (name) => element.querySelector(`[data-${name}]`);
    const sliders = {p: element.querySelector("#clock-p"), k: element.querySelector("#clock-k")};
    const play = find("play");
    let value = null;
    let rows = null;
    let faces = [];
    let at = {p: 0, k: 0}; // what is drawn: p between two positions while it plays
    let frame = 0;

    /* [sine, cosine] of the n-th offered pair at position p, off the table. */
    const read = (p, n) => [rows[p * 2 * value.pairs.length + 2 * n], rows[p * 2 * value.pairs.length + 2 * n + 1]];
    const hand = (p, n) => {
      const whole = Math.floor(p);
      const [sine, cosine] = read(whole, n);
      const rest = (p - whole) * value.pairs[n].angle;
      return [sine * Math.cos(rest) + cosine * Math.sin(rest), cosine * Math.cos(rest) - sine * Math.sin(rest)];
    };
    const drawClock = ({parts, picture, values, pair}, n) => {
      const [sine, cosine] = hand(at.p, n);
      const [thenSine, thenCosine] = hand(at.p + at.k, n);
      line(parts.now, CENTRE, CENTRE, ...tip(sine, cosine));
      line(parts.then, CENTRE, CENTRE, ...tip(thenSine, thenCosine));
      const [x, y] = tip(sine, cosine);
      line(parts.sine, CENTRE, CENTRE, x, CENTRE);
      line(parts.cosine, CENTRE, CENTRE, CENTRE, y);
      parts.arc.setAttribute("d", at.k ? arcPath(Math.atan2(sine, cosine), at.k * pair.angle) : "");
      parts.then.style.display = at.k ? "" : "none";
      if (!Number.isInteger(at.p)) return;
      values[0].textContent = `${say("positions.clocks.sine")} ${signed(sine, 3)}`;
      values[1].textContent = `${say("positions.clocks.cosine")} ${signed(cosine, 3)}`;
      picture.setAttribute("aria-label", say("positions.clocks.label", {
        first: pair.dims[0], second: pair.dims[1], p: at.p, sine: signed(sine, 4), cosine: signed(cosine, 4),
      }));
    };
    const draw = () => faces.forEach(drawClock);

    /* M_k, restricted to the first of the pairs, times PE(p): entries by the formula, vectors off the table. */
    const turned = () => value.pairs.slice(0, TURNED).flatMap((pair, n) => pair.dims.map((dim, isCosine) => ({dim, n, isCosine, pair})))
      .sort((a, b) => a.dim - b.dim);
    const drawTurn = () => {
      const {p, k} = state.positions;
      const order = turned();
      const entry = (row, column) => {
        if (row.n !== column.n) return null;
        const angle = k * row.pair.angle;
        if (row.isCosine === column.isCosine) return Math.cos(angle);
        return row.isCosine ? -Math.sin(angle) : Math.sin(angle);
      };
      const vector = (place) => order.map(({n, isCosine}) => read(place, n)[isCosine]);
      const [start, end] = [vector(p), vector(p + k)];
      const head = make("tr");
      const name = (text, className = "") => {
        const cell = make("th", className, text);
        cell.scope = "col";
        return cell;
      };
      const corner = make("td", "", say("positions.turn.dimension"));
      head.append(corner, ...order.map(({dim}) => name(String(dim), "entry")), name("PE(p)", "vector first"), name("Mₖ PE(p)", "vector"),
        name("PE(p+k)", "vector"), name(say("positions.turn.difference"), "vector"));
      const body = order.map((row, i) => {
        const line = make("tr");
        const dim = make("th", "", String(row.dim));
        dim.scope = "row";
        const entries = order.map((column) => entry(row, column));
        const product = entries.reduce((sum, each, j) => sum + (each ?? 0) * start[j], 0);
        const cells = entries.map((each) => (each === null ? make("td", "entry nought", "0") : make("td", "entry", signed(each, 2))));
        const vectors = [start[i], product, end[i]].map((each, at) => make("td", at ? "vector" : "vector first", signed(each, 4)));
        line.append(dim, ...cells, ...vectors, make("td", "vector faint", tiny(Math.abs(product - end[i]))));
        return line;
      });
      const caption = make("caption", "", say("positions.turn.caption", {k, p, q: p + k, d_model: value.d_model, dims: order.length}));
      find("turn").replaceChildren(caption, head, ...body);
      atlas.positions.write(find("said"), [
        {key: "positions.turn.said", params: {k, residual: tiny(value.residuals[k]), last: value.limit - 1 - k, d_model: value.d_model}},
      ]);
    };

    /* ---- what is chosen ---- */
    const show = () => {
      if (!value || !state.positions) return;
      Object.values(sliders).forEach((slider) => (slider.max = value.steps - 1));
      if (Math.max(state.positions.p, state.positions.k) >= value.steps) return; // numbers of a model that has left
      ["p", "k"].forEach((name) => {
        sliders[name].value = state.positions[name];
        find(name).textContent = state.positions[name];
      });
      if (!frame) at = {p: state.positions.p, k: state.positions.k};
      at.k = state.positions.k;
      faces.forEach(({pair, dims, wave}) => {
        dims.textContent = pair.dims.join(" · ");
        const long = pair.wavelength < 1000 ? pair.wavelength.toFixed(1) : Math.round(pair.wavelength).toLocaleString("en-US");
        wave.textContent = say("positions.clocks.wave", {long});
      });
      draw();
      drawTurn();
      play.textContent = say(frame ? "positions.clocks.pause" : "positions.clocks.play");
      play.setAttribute("aria-pressed", String(Boolean(frame)));
    };
    const stop = () => {
      cancelAnimationFrame(frame);
      frame = 0;
    };
    /* One position after the other, to the last; who wants less motion sees hands jump, not glide. */
    const start = () => {
      const from = state.positions.p >= value.steps - 1 ? 0 : state.positions.p;
      const begun = performance.now();
      const tick = (now) => {
        const p = Math.min(from + (now - begun) / STEP, value.steps - 1);
        at.p = calm.matches || p >= value.steps - 1 ? Math.floor(p) : p;
        if (Math.floor(p) !== state.positions.p) {
          const drawn = at.p;
          at.p = Math.floor(p); // numbers are those of whole positions
          change({p: at.p});
          at.p = drawn;
        }
        if (p >= value.steps - 1 || !element.offsetParent) stop();
        else frame = requestAnimationFrame(tick);
        if (frame) draw();
        else show();
      };
      frame = requestAnimationFrame(tick);
      change({p: from});
      show();
    };
    play.addEventListener("click", () => {
      if (!value) return;
      if (frame) {
        stop();
        show();
      } else start();
    });
    Object.entries(sliders).forEach(([name, slider]) => slider.addEventListener("input", () => {
      if (name === "p") stop();
      change({[name]: Number(slider.value)});
    }));

    const take = () => {
      value = props.value || null;
      if (!value) return;
      stop();
      rows = floats(value.rows);
      faces = value.pairs.map(makeClock);
      find("clocks").replaceChildren(...faces.map(({figure}) => figure));
      show();
    };
    watch("value", take);
    onChange(["lang", "positions"], show);
    whenSeen(element.closest(".position-section"), "position_clocks", () => state.model);
    atlas.applyText(element);
    take();
    show();
  };

  Object.assign(atlas.positions, {clocks});
})();
