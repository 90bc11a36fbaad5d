/* The translation: its words with their probabilities, a card for each with what else the model might have written (card.js), and the line
 * of facts under them. Pointing at a word points at its row in the views of the map.
 */
(() => {
  const {state, say, make} = atlas;

  /* Never rounded to a certainty: 100% is said only of what is 1 within half a tenth of a percent. */
  const percent = (p) => {
    if (p >= 0.9995) return atlas.percent(1);
    return p < 0.995 ? atlas.percent(p) : atlas.percent(Math.floor(p * 1000) / 1000, 1);
  };

  /* ---- words ---- */
  const NAMES = {"</s>": "result.end", "<s>": "token.start", "<unk>": "token.unknown", "<pad>": "token.padding"};
  const textOf = (word) => (word.special ? say(NAMES[word.pieces[0].token] ?? "result.end") : word.text);
  const wordNode = (word, index, all) => {
    const next = all[index + 1]; // the gap belongs to the word before it, so that no line begins with one
    const node = make("span", `word${word.special ? " special" : ""}${next?.spaced || next?.special ? " gap" : ""}`);
    const text = textOf(word);
    node.append(make("span", "word-text", text));
    const probability = make("span", "word-probability");
    const bar = make("i");
    bar.style.setProperty("--p", word.probability.toFixed(3));
    probability.append(bar);
    if (!word.mark || word.special) probability.append(make("span", "", percent(word.probability))); // a comma has no room for a number
    node.append(probability);
    /* A button that is no <button>: the translation can still be selected and copied. One of the line is reached with the tab key. */
    node.setAttribute("role", "button");
    node.setAttribute("aria-label", say("card.label", {word: text, value: word.probability.toFixed(4)}));
    node.setAttribute("aria-expanded", "false");
    node.tabIndex = index ? -1 : 0;
    node.dataset.index = String(index);
    return node;
  };

  /* ---- words and the rows of the map ---- */
  let words = []; // of the translation on the page, each with the position of its first piece
  const placed = (all) => {
    let position = 0;
    return all.map((word) => {
      const shown = word.pieces.findIndex((piece) => piece.token.replace(/▁/gu, "") !== "");
      const start = position;
      position += word.pieces.length;
      return {...word, start, stop: position, first: start + Math.max(0, shown)};
    });
  };
  /* What a decoder state reads is what the one before it has written. */
  const shift = (side) => (side === "read" ? 1 : 0);
  const rowOf = (word) => {
    const rows = state.kind === "encoder_self" ? [] : atlas.maps?.axes?.()?.rows ?? [];
    const position = word.first + shift(state.rows);
    const row = rows.findIndex(({start, stop}) => start <= position && position < stop);
    return row < 0 ? null : row;
  };
  const point = (index) => {
    const row = index === null ? null : rowOf(words[index]);
    if (row === null) atlas.focus?.leave();
    else atlas.focus?.hover(row, null);
  };
  const showLit = (line) => {
    const {row, column} = atlas.focus.get();
    const axes = atlas.maps.axes();
    const lit = [];
    if (axes && row !== null && state.kind !== "encoder_self") lit.push([axes.rows[row], shift(state.rows)]);
    if (axes && column !== null && state.kind === "decoder_self") lit.push([axes.columns[column], shift("read")]);
    for (const node of line.querySelectorAll(".word")) {
      const {start, stop} = words[node.dataset.index];
      node.classList.toggle("lit", lit.some(([label, by]) => label && label.start - by < stop && start < label.stop - by));
    }
  };

  /* ---- pointer and keys ---- */
  const listen = (element, line) => {
    const card = atlas.wordCard(element.querySelector(".result"));
    const find = (event) => event.target.closest?.(".word");
    const show = (node) => {
      card.show(node, words[node.dataset.index]);
      point(Number(node.dataset.index));
    };
    const move = (node) => {
      line.querySelectorAll(".word").forEach((each) => (each.tabIndex = each === node ? 0 : -1));
      node.focus();
    };
    line.addEventListener("pointerover", (event) => {
      const node = find(event);
      if (event.pointerType !== "touch" && node && !event.buttons) show(node); // not while text is being selected
    });
    line.addEventListener("pointerout", (event) => {
      if (event.pointerType === "touch" || event.relatedTarget?.closest?.(".word")) return;
      card.hideSoon();
      point(null);
    });
    line.addEventListener("focusin", (event) => find(event)?.matches(":focus-visible") && show(find(event)));
    line.addEventListener("focusout", () => {
      card.hideSoon();
      point(null);
    });
    line.addEventListener("click", (event) => {
      const node = find(event);
      if (!node || !getSelection().isCollapsed) return;
      if (card.owner() === node && event.pointerType === "touch") card.hide();
      else show(node);
    });
    line.addEventListener("keydown", (event) => {
      const node = find(event);
      if (!node) return;
      const backwards = getComputedStyle(line).direction === "rtl";
      const all = [...line.querySelectorAll(".word")];
      const index = all.indexOf(node);
      const ahead = {ArrowRight: backwards ? -1 : 1, ArrowLeft: backwards ? 1 : -1}[event.key];
      const to = {Home: 0, End: all.length - 1}[event.key] ?? (ahead === undefined ? undefined : Math.min(all.length - 1, Math.max(0, index + ahead)));
      if (to !== undefined) move(all[to]);
      else if (event.key === "Enter" || event.key === " ") card.owner() === node ? card.hide() : show(node);
      else return;
      event.preventDefault();
    });
    atlas.focus?.onFocus(() => showLit(line));
    return card;
  };

  /* ---- facts ---- */
  const facts = (result) => {
    const badge = make("span", `badge ${result.badge}`, say(`status.${result.badge}`));
    badge.title = say(`status.${result.badge}.help`);
    const found = [badge, make("span", "", say("status.log_prob", {value: result.log_prob.toFixed(2).replace("-", "−")}))];
    if (result.badge !== "recorded") found.push(make("span", "", say("status.seconds", {value: result.seconds.toFixed(2)})));
    if (result.request.model !== "embedded") {
      const name = make("span", "", [atlas.modelName(result.request.model), result.revision?.slice(0, 7)].filter(Boolean).join(" · "));
      name.title = [result.request.model, result.revision].filter(Boolean).join(" · ");
      found.push(name);
    }
    if (!result.finished) found.push(make("span", "", say("result.unfinished")));
    if (result.case_changed) {
      const note = make("span", "", say("result.case_changed"));
      note.title = say("result.case_changed.help");
      found.push(note);
    }
    return found;
  };

  /* `problem`: a message stands above, in the place of the language's name (atlas.css), so the name moves down to the facts; `owner` says
   * whose translation this is, if it belongs to an earlier text. */
  let drawnFor = null;
  let drawnIn = null;
  let card = null;
  atlas.showResult = (element, {result, problem, owner}) => {
    const line = element.querySelector("[data-words]");
    const status = element.querySelector("[data-status]");
    card ||= listen(element, line);
    if (!result) {
      card.hide();
      words = [];
      element.querySelector("[data-language]").textContent = "";
      line.replaceChildren(...(problem ? [] : [make("span", "faint", say("result.empty"))]));
      drawnFor = null;
      status.replaceChildren();
      return;
    }
    const language = atlas.languageName(result.request.target);
    atlas.fill(element.querySelector("[data-language]"), language);
    line.lang = atlas.languageTag(result.request.target);
    if (drawnFor !== result || drawnIn !== state.lang) {
      card.hide();
      words = placed(result.words);
      line.replaceChildren(...words.map(wordNode));
    }
    [drawnFor, drawnIn] = [result, state.lang];
    const place = [problem && language, owner].filter(Boolean).join(" · ");
    status.replaceChildren(...(place ? [make("span", "place", place)] : []), ...facts(result));
  };
})();
