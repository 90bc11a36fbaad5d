/* The words of the chosen map: the words looked at above, the words that look below, and a ribbon for every weight (ribbons.js).
 *
 * Pointing at a word, with mouse or keyboard, is atlas.focus.hover; a click pins it. What is in focus may as well come from another view.
 */
(() => {
  const {state, say, make, fill, onChange} = atlas;
  const WIDEST = 22; // px of a ribbon of weight 1; less where words are many or the page is narrow
  const MANY = 30; // words
  const NARROW = 560; // px
  const NAMED = 4; // partners of a word that are told in words
  const RTL = /\p{Script=Arabic}|\p{Script=Hebrew}|\p{Script=Syriac}|\p{Script=Thaana}|\p{Script=Nko}|\p{Script=Adlam}/gu;
  const RTL_LANGUAGES = /^(ar|arc|ary|arz|ckb|dv|fa|he|ps|sd|ug|ur|yi)\b/;
  const LETTER = /\p{L}/gu;

  /* A line runs the way most of its letters do; without letters, the way its language does. */
  const direction = (labels, language) => {
    const text = labels.filter((label) => !label.special).map((label) => label.text).join(" ");
    const [letters, rightToLeft] = [LETTER, RTL].map((kind) => (text.match(kind) || []).length);
    if (!letters) return RTL_LANGUAGES.test(language) ? "rtl" : "ltr";
    return 2 * rightToLeft > letters ? "rtl" : "ltr";
  };


  /* How strong a weight's tint is, 0 to 1: by the same rule as the heat map's colour. */
  const tint = (weight, max) => {
    if (state.colour === "max") return max > 0 ? weight / max : 0;
    if (state.colour === "log") return weight <= 0.001 ? 0 : 1 + Math.log10(weight) / 3;
    return Math.min(1, weight);
  };

  /* Every row's and every column's strongest partner, and every column's mean weight. */
  const summary = ({rows, columns, z, masked}) => {
    const numKeys = columns.length;
    const ofRow = rows.map(() => -1);
    const ofColumn = columns.map(() => -1);
    const mean = new Float32Array(numKeys);
    for (let row = 0, cell = 0; row < rows.length; row++) {
      for (let column = 0; column < numKeys; column++, cell++) {
        if (masked?.[cell]) continue;
        if (ofRow[row] < 0 || z[cell] > z[row * numKeys + ofRow[row]]) ofRow[row] = column;
        if (ofColumn[column] < 0 || z[cell] > z[ofColumn[column] * numKeys + column]) ofColumn[column] = row;
        mean[column] += z[cell] / rows.length;
      }
    }
    return {ofRow, ofColumn, mean};
  };

  /* One line of words. `axis`: "rows" (queries) or "columns" (keys). One of its words can be reached with the tab key. */
  const makeLine = (axis) => {
    const host = make("div", `words-line ${axis}`);
    host.setAttribute("role", "toolbar");
    const line = {axis, host, nodes: [], labels: [], places: [], painted: [], current: 0, drawn: ""};
    line.fill = (labels, starts, language) => {
      const drawn = JSON.stringify([language, labels.map(({text, special, start}) => [text, special, start])]);
      if (drawn === line.drawn) return false;
      const hadFocus = host.contains(document.activeElement);
      line.drawn = drawn;
      line.labels = labels;
      line.nodes = [];
      line.painted = [];
      const groups = [];
      host.dir = direction(labels, language);
      labels.forEach((label, index) => {
        if (!groups.length || starts.has(label.start)) groups.push(make("span", "words-group"));
        const node = make("button", `token${label.special ? " special" : ""}`);
        node.type = "button";
        node.dataset.index = String(index);
        const number = make("span", "token-number");
        number.setAttribute("aria-hidden", "true");
        const word = make("bdi", "token-word", label.text);
        if (!/[\p{L}\p{N}]/u.test(label.text)) word.dir = host.dir; // a bracket opens the way the line runs
        node.append(...(axis === "columns" ? [number, word] : [word, number]));
        groups.at(-1).append(node);
        line.nodes.push(node);
      });
      host.replaceChildren(...groups);
      host.lang = language;
      line.move(Math.min(line.current, labels.length - 1));
      if (hadFocus) line.nodes[line.current]?.focus({preventScroll: true});
      return true;
    };
    line.move = (index) => {
      line.current = Math.max(0, index);
      line.nodes.forEach((node, i) => (node.tabIndex = i === line.current ? 0 : -1));
    };
    line.backwards = () => host.dir === "rtl";
    line.measure = () => {
      line.places = line.nodes.map((node) => ({middle: node.offsetLeft + node.offsetWidth / 2, width: node.offsetWidth}));
    };
    return line;
  };

  atlas.wordsView = (element) => {
    if (!atlas.maps || !atlas.focus) return;
    const root = element.querySelector(".words-view");
    const [upper, lower] = [make("p", "words-name"), make("p", "words-name")];
    const [frame, stage] = [make("div", "words-frame"), make("div", "words-stage")];
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "words-ribbons");
    svg.setAttribute("aria-hidden", "true");
    const [keys, queries] = [makeLine("columns"), makeLine("rows")];
    const said = make("p", "words-said");
    const decimals = make("button", "words-decimals");
    decimals.type = "button";
    decimals.dataset.t = "words.decimals";
    const foot = make("div", "words-foot");
    foot.append(said, decimals);
    stage.append(keys.host, svg, queries.host);
    frame.append(stage);
    root.replaceChildren(upper, frame, lower, foot);
    const ribbons = atlas.ribbons(svg);

    let view = null;
    let facts = null; // summary of view
    let picked = null; // what is drawn of it
    let digits = 2;
    let pointing = false; // our own pointer is on a word: what is under it must not move

    const at = (row, column) => view.z[row * view.columns.length + column];
    const isMasked = (row, column) => Boolean(view.masked?.[row * view.columns.length + column]);
    const show = (weight, places = digits) => weight.toFixed(places);

    /* ---- words ---- */
    const sides = () => ({
      columns: state.kind === "decoder_self" ? "read" : "source",
      rows: state.kind === "encoder_self" ? "source" : state.rows,
    });
    const languageOf = (side) => {
      const request = atlas.result()?.request ?? {};
      const code = side === "source" ? atlas.model()?.source ?? "" : request.target ?? "";
      return code ? atlas.languageTag(code) : "";
    };
    const fillLines = () => {
      const side = sides();
      return [keys, queries].map((line) => {
        const words = atlas.maps.current().sides[side[line.axis]].words.en;
        return line.fill(view[line.axis], new Set(words.map(({start}) => start)), languageOf(side[line.axis]));
      }).some(Boolean);
    };
    const name = () => {
      const {ofRow, ofColumn} = facts;
      const set = (node, key, params) => node.setAttribute("aria-label", say(key, params));
      keys.nodes.forEach((node, column) => {
        const row = ofColumn[column];
        const params = {word: view.columns[column].text, column, partner: view.rows[row]?.text, value: row < 0 ? "" : show(at(row, column))};
        set(node, row < 0 ? "words.key.alone" : "words.key", params);
      });
      queries.nodes.forEach((node, row) => {
        const column = ofRow[row];
        const params = {word: view.rows[row].text, row, partner: view.columns[column]?.text, value: column < 0 ? "" : show(at(row, column))};
        set(node, column < 0 ? "words.query.alone" : "words.query", params);
      });
      fill(upper, say("words.keys"));
      fill(lower, say(`words.queries.${state.kind === "encoder_self" ? state.kind : state.rows}`));
      keys.host.setAttribute("aria-label", upper.textContent);
      queries.host.setAttribute("aria-label", lower.textContent);
    };

    /* ---- ribbons ---- */
    /* Where everything is. Asked of the browser only when words have moved: an answer costs a layout of the whole page. */
    let room = null; // {width: of the frame, stage, height}
    let measuredAt = "";
    const sizes = () => [frame, stage, keys.host, queries.host, svg].map((node) => `${node.clientWidth} ${node.clientHeight}`).join();
    const measure = () => {
      const {clientWidth: width} = frame;
      room = width ? {width, stage: stage.offsetWidth, height: svg.clientHeight} : null; // none in a tab that is not open
      if (room) [keys, queries].forEach((line) => line.measure());
      measuredAt = sizes();
    };
    const draw = () => {
      if (!view || !room) return;
      const many = Math.max(keys.nodes.length, queries.nodes.length) > MANY || room.width < NARROW;
      picked = ribbons.show(view.z, keys.places, queries.places, {
        height: room.height, full: many ? WIDEST * 0.64 : WIDEST, backwards: {keys: keys.backwards(), queries: queries.backwards()},
      });
    };

    /* ---- what is in focus ---- */
    const paint = (line, chosen, held, weightOf, hiddenFrom, numbers) => {
      line.nodes.forEach((node, i) => {
        const weight = weightOf(i);
        const shade = (weight === null ? 0 : tint(weight, view.max)).toFixed(3);
        const number = numbers && weight !== null && Number(show(weight)) > 0 ? show(weight) : "";
        const marks = [["chosen", i === chosen], ["pinned", i === held], ["masked", hiddenFrom(i)]];
        const now = `${shade} ${number} ${marks}`;
        if (line.painted[i] === now) return;
        line.painted[i] = now;
        node.style.setProperty("--t", shade);
        fill(node.querySelector(".token-number"), number);
        marks.forEach(([mark, is]) => node.classList.toggle(mark, is));
        node.setAttribute("aria-pressed", String(i === held));
      });
      if (chosen !== null && chosen !== line.current && !line.host.contains(document.activeElement)) line.move(chosen);
    };
    const inSight = (place) => {
      if (!place || !room || room.stage <= room.width) return;
      const seen = frame.scrollLeft;
      if (place.middle - place.width / 2 >= seen && place.middle + place.width / 2 <= seen + room.width) return;
      frame.scrollTo({left: place.middle - room.width / 2});
    };
    const partners = (weights, labels) => {
      const order = weights.map((_, i) => i).filter((i) => weights[i] >= 0.00005).sort((a, b) => weights[b] - weights[a]).slice(0, NAMED);
      return order.map((i) => `${labels[i].text} ${show(weights[i], 4)}`).join(say("words.and"));
    };
    const tell = ({row, column, pinned}, own) => {
      const parts = [];
      const [query, key] = [view.rows[row]?.text, view.columns[column]?.text];
      if (query !== undefined && key !== undefined) {
        parts.push(isMasked(row, column) ? say("words.said.masked", {query, key}) : say("words.said.cell", {query, key, value: show(at(row, column), 4)}));
      } else if (query !== undefined) {
        parts.push(say("words.said.query", {word: query, partners: partners(view.columns.map((_, j) => at(row, j)), view.columns)}));
      } else if (key !== undefined) {
        const list = partners(view.rows.map((_, i) => at(i, column)), view.rows);
        parts.push(list ? say("words.said.key", {word: key, partners: list}) : say("words.said.nobody", {word: key}));
      } else parts.push(say("words.said.rest"));
      const left = query === undefined && key === undefined ? picked : own;
      if (left && left.count > left.cells.length) {
        parts.push(say("words.left_out.most", {count: left.cells.length, all: left.count, share: atlas.percent(left.share)}));
      } else if (left && left.share > 0.0005) parts.push(say("words.left_out", {least: left.least, share: atlas.percent(left.share)}));
      if (pinned) parts.push(say("words.pinned"));
      fill(said, parts.join(state.lang === "zh" ? "" : " "));
    };
    /* Of what is in focus, all that stands on the words; what is between them, and where they are, is asked for when this is done. */
    const paintWords = () => {
      const {row, column} = atlas.focus.get();
      const lit = row !== null || column !== null;
      root.classList.toggle("lit", lit);
      const held = atlas.focus.pinned();
      paint(keys, column, held.column, (j) => (row !== null ? at(row, j) : lit ? null : facts.mean[j]), (j) => row !== null && isMasked(row, j), lit);
      paint(queries, row, held.row, (i) => (column === null ? null : at(i, column)), (i) => column !== null && isMasked(i, column), lit);
    };
    const paintRibbons = () => {
      const {row, column, pinned} = atlas.focus.get();
      tell({row, column, pinned}, ribbons.showOwn(row, column));
      if (!pointing && (row !== null || column !== null)) [queries.places[row], keys.places[column]].forEach(inSight);
    };
    const showFocus = () => {
      if (!view) return;
      paintWords();
      paintRibbons();
    };

    /* ---- another map ---- */
    let naming = 0;
    const update = () => {
      const next = atlas.maps.view();
      /* A layer of a long sentence may be on its way: until it is here the old picture stays, a little paler. */
      root.classList.toggle("waits", Boolean(view) && !next);
      if (!next) return;
      view = next;
      facts = summary(view);
      root.dataset.kind = view.kind;
      const fresh = fillLines();
      stage.style.setProperty("--groups", String(Math.max(keys.host.childElementCount, queries.host.childElementCount)));
      clearTimeout(naming);
      const many = keys.nodes.length + queries.nodes.length > 2 * MANY;
      root.classList.toggle("many", many);
      if (many) naming = setTimeout(name, 100); // long lists can wait for the picture
      else name();
      paintWords();
      /* All words are as they will be: measured any earlier, they would be laid out twice. */
      if (fresh) {
        measure();
        frame.scrollLeft = room && keys.backwards() && queries.backwards() ? room.stage : 0;
      }
      draw();
      paintRibbons();
    };

    /* ---- pointer and keys ---- */
    const place = (line, index) => (line === keys ? [null, index] : [index, null]);
    const go = (line, index) => {
      const node = line.nodes[index];
      if (!node) return;
      line.move(index);
      node.focus({preventScroll: true});
      node.scrollIntoView({block: "nearest", inline: "nearest"});
    };
    const press = (line, event) => {
      const index = line.current;
      const last = line.nodes.length - 1;
      const ahead = line.backwards() ? "ArrowLeft" : "ArrowRight";
      const back = line.backwards() ? "ArrowRight" : "ArrowLeft";
      const across = line === keys ? "ArrowDown" : "ArrowUp";
      const moves = {
        [ahead]: () => go(line, Math.min(last, index + 1)),
        [back]: () => go(line, Math.max(0, index - 1)),
        Home: () => go(line, 0),
        End: () => go(line, last),
        [across]: () => {
          const [other, partner] = line === keys ? [queries, facts.ofColumn[index]] : [keys, facts.ofRow[index]];
          if (partner >= 0) go(other, partner);
        },
        Escape: () => atlas.focus.clear(),
      };
      if (!Object.hasOwn(moves, event.key) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      moves[event.key]();
    };
    const indexOf = (event) => {
      const node = event.target.closest(".token");
      return node ? Number(node.dataset.index) : null;
    };
    for (const line of [keys, queries]) {
      const {host} = line;
      host.addEventListener("pointerover", (event) => {
        const index = indexOf(event);
        if (event.pointerType === "touch" || index === null) return;
        pointing = true;
        atlas.focus.hover(...place(line, index));
      });
      host.addEventListener("pointerleave", (event) => {
        pointing = false;
        if (event.pointerType !== "touch") atlas.focus.leave();
      });
      host.addEventListener("focusin", (event) => {
        const index = indexOf(event);
        if (index === null) return;
        line.move(index);
        atlas.focus.hover(...place(line, index));
      });
      host.addEventListener("focusout", () => atlas.focus.leave());
      host.addEventListener("click", (event) => {
        const index = indexOf(event);
        if (index !== null) atlas.focus.pin(...place(line, index));
      });
      host.addEventListener("keydown", (event) => press(line, event));
    }
    decimals.addEventListener("click", () => {
      digits = digits === 2 ? 4 : 2;
      showDecimals();
      if (!view) return;
      name();
      measure(); // longer numbers may need wider words
      draw();
      showFocus();
    });
    const showDecimals = () => {
      decimals.setAttribute("aria-pressed", String(digits === 4));
      root.classList.toggle("exact", digits === 4);
    };

    /* Fonts that arrive, a page that changes its width, a tab that opens: the words have moved. */
    const resized = new ResizeObserver(() => {
      if (sizes() === measuredAt) return;
      measure();
      draw();
      showFocus();
    });
    [frame, stage, svg].forEach((node) => resized.observe(node));

    onChange(["lang", "kind", "layer", "head", "rows", "units", "specials", "colour"], update);
    atlas.maps.onMaps(update);
    atlas.onModel?.(() => view && update());
    atlas.focus.onFocus(showFocus);
    atlas.applyText(element);
    showDecimals();
    update();
  };
})();
