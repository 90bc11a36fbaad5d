/* The heat map of the choice in the store: drawn here from atlas.maps, lit by atlas.focus, moved through with the arrow keys. */
(() => {
  const {state, say, onChange, make} = atlas;
  atlas.shown = {}; // map: what the drawn map shows
  const CHOICES = ["kind", "layer", "head", "rows", "units", "specials", "colour"];

  /* Two bands over the plot, one along a row and one along a column. They are plain elements, placed by the plot's axes: shapes of Plotly
   * would have to be laid out anew for every word that the pointer crosses. */
  const bands = (frame, plot) => {
    const host = make("div", "map-lights");
    host.setAttribute("aria-hidden", "true");
    const [across, down] = ["row", "column"].map((name) => make("i", name));
    host.append(across, down);
    frame.append(host);
    const put = (node, box) => {
      node.hidden = !box;
      if (box) Object.assign(node.style, {left: `${box[0]}px`, top: `${box[1]}px`, width: `${box[2]}px`, height: `${box[3]}px`});
    };
    /* Start and length, in px of the plot, of one position of an axis; null where zoom has put it out of sight. */
    const span = (axis, index) => {
      const ends = [axis.l2p(index - 0.5), axis.l2p(index + 0.5)].map((end) => Math.min(axis._length, Math.max(0, end)));
      const [start, stop] = [Math.min(...ends), Math.max(...ends)];
      return stop - start > 0.5 ? [axis._offset + start, stop - start] : null;
    };
    /* How far the names of columns reach above the cells; measured once per drawing, when a column is lit. */
    let names = null;
    const forget = () => (names = null);
    const measure = () => {
      const edge = plot.getBoundingClientRect().top + plot._fullLayout.yaxis._offset;
      const tops = Array.from(plot.querySelectorAll(".x2tick text"), (node) => node.getBoundingClientRect().top);
      return tops.length ? Math.max(0, edge - Math.min(...tops) + 2) : 0;
    };
    const light = ({row, column}, pinned) => {
      const {xaxis, yaxis, _size: margins} = plot._fullLayout || {};
      const rowSpan = !xaxis || row === null ? null : span(yaxis, row);
      const columnSpan = !xaxis || column === null ? null : span(xaxis, column);
      put(across, rowSpan && [2, rowSpan[0], margins.l + xaxis._length - 2, rowSpan[1]]);
      const labels = columnSpan ? (names ??= measure()) : 0;
      put(down, columnSpan && [columnSpan[0], yaxis._offset - labels, columnSpan[1], yaxis._length + labels]);
      host.classList.toggle("pinned", pinned);
    };
    return {light, forget};
  };

  /* Arrow keys move a cell; it is said, politely, and brought into sight of a frame that scrolls. */
  const keys = (frame, plot, shown) => {
    const said = make("p", "only-spoken");
    said.setAttribute("aria-live", "polite");
    said.dataset.said = "";
    frame.after(said);
    const tell = ({row, column}) => {
      const {rows, columns, z, masked} = shown();
      const at = row * columns.length + column;
      const cell = {row: rows[row].text, column: columns[column].text, value: z[at]?.toFixed(4)};
      atlas.fill(said, say(masked?.[at] ? "map.cell.masked" : "map.cell", cell));
    };
    const show = ({row, column}) => {
      const {xaxis, yaxis} = plot._fullLayout;
      const x = xaxis._offset + xaxis.l2p(column);
      if (x < frame.scrollLeft + 60) frame.scrollLeft = x - 60;
      if (x > frame.scrollLeft + frame.clientWidth - 60) frame.scrollLeft = x - frame.clientWidth + 60;
      const y = plot.getBoundingClientRect().top + yaxis._offset + yaxis.l2p(row);
      if (y < 60 || y > innerHeight - 60) scrollBy(0, y - innerHeight / 2);
    };
    const STEPS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    const step = (event) => {
      const view = shown();
      const now = atlas.focus.get();
      const inside = (value, length) => Math.min(length - 1, Math.max(0, value));
      const [down, across] = STEPS[event.key] || [0, 0];
      const first = now.row === null && now.column === null;
      let [row, column] = first ? [0, 0] : [(now.row ?? 0) + down, (now.column ?? 0) + across];
      if (event.key === "Home") column = 0;
      if (event.key === "End") column = view.columns.length - 1;
      const cell = {row: inside(row, view.rows.length), column: inside(column, view.columns.length)};
      atlas.focus.hover(cell.row, cell.column);
      show(cell);
      tell(cell);
    };
    frame.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !shown()) return;
      const now = atlas.focus.get();
      if (event.key in STEPS || event.key === "Home" || event.key === "End") step(event);
      else if (event.key === "Enter" || event.key === " ") {
        if (now.row === null && now.column === null) step(event);
        else atlas.focus.pin(now.row, now.column);
      } else if (event.key === "Escape") atlas.focus.clear();
      else return;
      event.preventDefault();
    });
    frame.addEventListener("blur", () => {
      atlas.focus.leave();
      said.textContent = "";
    });
  };

  /* props.value: the template of viz/figures/heatmap_template.py. */
  atlas.mapView = ({element, props}) => {
    let shown = null; // the view that is drawn
    let wanted = null; // what the figure is made of
    const isShown = () => shown && atlas.maps.axes()?.rows === shown.rows && atlas.maps.axes().columns === shown.columns;
    const lights = () => {
      const {row, column} = isShown() ? atlas.focus.get() : {row: null, column: null};
      over.light({row, column}, atlas.focus.get().pinned);
    };
    const {draw, frame, plot, onEnd} = atlas.plot(element, {
      figure: () => {
        wanted = atlas.maps.view();
        return wanted && atlas.heatmap.figure(wanted, props.value);
      },
      fit: atlas.heatmap.fit,
      words: () => atlas.heatmap.inWords(wanted),
      name: () => `${say("map.label")}. ${say("map.keys")}`,
      drawn: () => {
        shown = wanted;
        frame.removeAttribute("aria-busy");
        const chosen = Object.fromEntries(["lang", ...CHOICES].map((name) => [name, state[name]]));
        atlas.shown.map = {request: atlas.maps.current().request, ...chosen};
        over.forget();
        lights();
      },
      cell: (event, where) => {
        if (event === "unhover") return atlas.focus.leave();
        if (!isShown()) return; // another map is on its way
        if (event === "hover") atlas.focus.hover(where.row, where.column);
        else atlas.focus.pin(where.row, where.column);
      },
    });
    const over = bands(frame, plot);
    keys(frame, plot, () => (isShown() ? shown : null));

    /* While a layer is on its way the old picture stays, stepped back, and no word of it can be lit. */
    const update = () => {
      if (!atlas.maps.current() || state.layer === null) return;
      if (atlas.maps.view()) return draw();
      frame.setAttribute("aria-busy", "true");
      atlas.maps.want(state.kind, state.layer);
      lights();
    };
    onEnd(onChange(CHOICES, update));
    onEnd(atlas.maps.onMaps(update));
    onEnd(atlas.focus.onFocus(lights));
    update();
  };
})();
