/* Part 3: plots. `atlas.plot` draws any figure into a frame and keeps it drawn: theme, size, reveal, removal, double click.
 * PlotlyView (viz/components.py) shows figures that come from Python through it, map.js the map that the page builds itself.
 */
(() => {
  /* Resolves when the script of window.Plotly has run; there is one script tag for the whole page. */
  let ready = null;
  const whenPlotly = () => ready || (ready = new Promise((resolve, reject) => {
    if (window.Plotly) return resolve(window.Plotly);
    const script = document.querySelector("script[data-plotly]");
    if (!script) return reject(new Error("no plotly script"));
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error("plotly did not load")));
    const poll = setInterval(() => window.Plotly && (clearInterval(poll), resolve(window.Plotly)), 100);
  }));

  /* Applies one theme's colours, which travel as flat attribute paths ("xaxis.tickfont.color", "shapes[0].line.color"). */
  const setPath = (target, path, value) => {
    const keys = path.match(/[^.[\]]+/g);
    const last = keys.pop();
    let node = target;
    keys.forEach((key) => (node = node[key] ??= {}));
    node[last] = value;
  };
  const getPath = (target, path) => path.split(".").reduce((node, key) => node?.[key], target);
  const patched = (layout, paths) => {
    for (const [path, value] of Object.entries(paths)) setPath(layout, path, value);
    return layout;
  };
  const themed = (layout, dark) => patched(layout, layout.meta?.theme?.[dark ? "dark" : "light"] || {});

  const config = {displaylogo: false, responsive: false, showTips: false, doubleClick: false, displayModeBar: false};
  /* On a touch screen a finger on the map has to scroll the page, not draw a zoom box. */
  const coarse = matchMedia("(pointer: coarse)");

  /* element: holds .plot-frame > .plot and a figcaption.
   * figure(): a new {data, layout} for every drawing (Plotly keeps and changes what it is given), or null to leave what there is.
   * words(): the picture in words. name(): what it is called. cell(event name, {row, column, trace}): click, hover; unhover with nothing.
   * drawn(): after every drawing and zoom.
   * fit(layout, range of its x axis that will be seen): margins and angles of a layout whose width and height are set, as a patch with
   * Plotly's paths, so that Plotly need not measure names and then draw everything a second time. */
  atlas.plot = (element, {figure, words, name, cell = () => {}, drawn = () => {}, fit = () => ({})}) => {
    const frame = element.querySelector(".plot-frame");
    const plot = element.querySelector(".plot");
    const caption = element.querySelector("figcaption");
    let dirty = false; // wanted while its tab was not open: drawn when it is revealed
    let waiting = false;
    let drawing = Promise.resolve();
    let home = {};

    /* Width: the frame's, but no narrower than the figure can be read (then the frame scrolls) and no wider than it looks right.
     * Height: the figure's own, but at least what CSS reserves, so that short sentences fill the place kept for long ones. */
    const reserved = parseFloat(getComputedStyle(frame).minHeight) || 0;
    const size = (layout) => {
      const {min_width = 0, min_height = 0, max_width = Infinity} = layout.meta || {};
      const height = Math.max(reserved, min_height);
      const stretch = min_height ? height / min_height : 1;
      return {width: Math.max(min_width, Math.min(width(), 1.5 * max_width * stretch)), height};
    };
    /* Asked of the browser once, then told by it: asking costs a layout of the whole page, in the midst of its changes. */
    let known = null;
    const width = () => (known ??= frame.clientWidth);

    /* Events carry integers only; Python checks them again. */
    const place = (event) => {
      const point = event.points[0];
      const [row, column] = Array.isArray(point.pointNumber) ? point.pointNumber : [point.curveNumber, point.pointNumber];
      return {row, column, trace: point.curveNumber};
    };
    const listen = () => {
      if (plot.dataset.listening) return;
      plot.dataset.listening = "1";
      /* Plotly would go back to the ranges of the first figure this plot ever had, and takes a tap for a double click. */
      if (!coarse.matches) plot.on("plotly_doubleclick", () => window.Plotly.relayout(plot, structuredClone(home)));
      plot.on("plotly_click", (event) => cell("click", place(event)));
      plot.on("plotly_hover", (event) => cell("hover", place(event)));
      plot.on("plotly_unhover", () => cell("unhover"));
      plot.on("plotly_beforehover", writeMinus);
      plot.on("plotly_relayout", () => {
        const patch = refit();
        if (Object.keys(patch).length) window.Plotly.relayout(plot, patch); // and is back here
        else drawn();
      });
    };
    /* What has to change of margins and angles when this has: zoomed in there is more room for a name. */
    const refit = (changed = {}) => {
      const layout = {...plot.layout, ...changed};
      const wanted = Object.entries(fit(layout, plot._fullLayout.xaxis?.range));
      return Object.fromEntries(wanted.filter(([path, value]) => getPath(layout, path) !== value));
    };

    /* Plotly names its own gradients and clip paths by the page's whole address, as the page has a <base>; but that address changes with
     * what is chosen, and such names would lead nowhere. A name that is only "#..." is looked for in the page itself. */
    const pointWithin = () => {
      const address = plot._context._baseUrl;
      if (!address) return;
      plot._context._baseUrl = "";
      plot.querySelectorAll("[clip-path],[style*='url(']").forEach((node) => ["clip-path", "style"].forEach((name) => {
        const value = node.getAttribute(name);
        if (value?.includes(address)) node.setAttribute(name, value.replaceAll(address, ""));
      }));
    };

    /* Plotly's axes write a true minus sign, but its hovers a hyphen, and no setting of it says otherwise. What formats their numbers is made
     * anew with every drawing. */
    let minus = null;
    const writeMinus = () => {
      const locale = plot._fullLayout._d3locale;
      if (!locale || locale.numberFormat === minus) return;
      const plain = locale.numberFormat;
      minus = locale.numberFormat = (format) => {
        const write = plain(format);
        return (value) => write(value).replaceAll("-", "−");
      };
    };

    const put = async (Plotly) => {
      waiting = false;
      const next = figure();
      if (!next) return;
      const {data, layout} = next;
      const axes = Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key) && layout[key].range);
      home = Object.fromEntries(axes.map((key) => [`${key}.range`, [...layout[key].range]]));
      Object.assign(themed(layout, atlas.isDark()), size(layout), {autosize: false}, coarse.matches ? {dragmode: false} : {});
      const zoomed = plot.layout?.uirevision === layout.uirevision ? plot._fullLayout?.xaxis?.range : null; // Plotly keeps the zoom then
      patched(layout, fit(layout, zoomed || layout.xaxis?.range));
      await Plotly.react(plot, data, layout, config);
      pointWithin();
      plot.dataset.drawn = String(Number(plot.dataset.drawn || 0) + 1);
      frame.setAttribute("aria-label", name());
      caption.textContent = words();
      listen();
      drawn();
      if (!window.atlasFirstPicture) window.atlasFirstPicture = performance.now();
    };
    /* Any number of wishes while one drawing is under way are one more drawing. */
    const draw = () => {
      dirty = !width();
      if (dirty || waiting) return;
      waiting = true;
      drawing = drawing.then(whenPlotly).then(put).catch((error) => {
        waiting = false;
        if (!window.Plotly) caption.parentNode.dataset.problem = atlas.say("error.plotly");
        else console.error(error);
      });
    };

    const resize = atlas.debounce(60, () => {
      if (!width()) return;
      const layout = plot._fullLayout;
      if (!layout || dirty) return draw();
      const wanted = size(plot.layout || {});
      const other = Math.abs(layout.width - wanted.width) > 1 || Math.abs(layout.height - wanted.height) > 1;
      if (other) window.Plotly.relayout(plot, {...wanted, ...refit(wanted)});
    });
    let outer = 0;
    const observer = new ResizeObserver(([{contentRect}]) => { // tells of another height, too
      if (contentRect.width !== outer) known = frame.clientWidth;
      outer = contentRect.width;
      resize();
    });
    observer.observe(frame);

    const stop = [atlas.onChange(["lang"], draw), atlas.onTheme(draw), () => observer.disconnect()];
    /* Removed from the page: give back Plotly's listeners and memory. */
    const gone = new MutationObserver(() => setTimeout(() => {
      if (element.isConnected) return;
      gone.disconnect();
      stop.forEach((end) => end());
      if (window.Plotly && plot._fullLayout) window.Plotly.purge(plot);
    }));
    gone.observe(document.body, {childList: true, subtree: true});
    return {draw, frame, plot, onEnd: (end) => stop.push(end)};
  };

  /* props.value is JSON text: {about, views: {language: {alt, figure}}}. The figure carries layout.meta with the colours of both themes. */
  atlas.plotView = ({element, props, trigger, watch, events}) => {
    let hovered = "";
    /* Parsed anew for every drawing: Plotly keeps and changes what it is given. */
    const current = () => {
      const {views = {}} = props.value ? JSON.parse(props.value) : {};
      return views[atlas.state.lang] || Object.values(views)[0];
    };
    const cell = (name, where) => {
      if (name === "click") trigger(events[0], where);
      const key = name === "hover" ? `${where.trace},${where.row},${where.column}` : hovered;
      if (key !== hovered) trigger(events[1], where);
      hovered = key;
    };
    const {draw} = atlas.plot(element, {
      figure: () => current()?.figure ?? null, words: () => current().alt, name: () => atlas.say(props.label_key), cell,
    });
    watch("value", draw);
    draw();
  };
})();
