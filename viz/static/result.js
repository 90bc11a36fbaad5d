/* The translation: its words with their probabilities, and the line of facts under them. */
(() => {
  const {state, say, make} = atlas;

  /* Never rounded to a certainty: 100% is said only of what is 1 within half a tenth of a percent. */
  const percent = (p) => {
    if (p < 0.01) return "<1%";
    if (p >= 0.9995) return "100%";
    return p < 0.995 ? `${Math.round(p * 100)}%` : `${(Math.floor(p * 1000) / 10).toFixed(1)}%`;
  };

  /* ---- words ---- */
  const wordNode = (word, index, all) => {
    const next = all[index + 1]; // the gap belongs to the word before it, so that no line begins with one
    const node = make("span", `word${word.special ? " special" : ""}${next?.spaced || next?.special ? " gap" : ""}`);
    node.append(make("span", "word-text", word.special ? say("result.end") : word.text));
    const probability = make("span", "word-probability");
    const bar = make("i");
    bar.style.setProperty("--p", word.probability.toFixed(3));
    probability.append(bar);
    if (!word.mark || word.special) probability.append(make("span", "", percent(word.probability))); // a comma has no room for a number
    node.append(probability);
    node.title = word.pieces.map((piece) => say("result.probability", {token: piece.token, value: piece.probability.toFixed(4)})).join("\n");
    return node;
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
    return found;
  };

  /* `problem`: a message stands above, in the place of the language's name (atlas.css), so the name moves down to the facts; `owner` says
   * whose translation this is, if it belongs to an earlier text. */
  let drawnFor = null;
  let drawnIn = null;
  atlas.showResult = (element, {result, problem, owner}) => {
    const line = element.querySelector("[data-words]");
    const status = element.querySelector("[data-status]");
    if (!result) {
      element.querySelector("[data-language]").textContent = "";
      line.replaceChildren(...(problem ? [] : [make("span", "faint", say("result.empty"))]));
      drawnFor = null;
      status.replaceChildren();
      return;
    }
    const language = atlas.languageName(result.request.target);
    atlas.fill(element.querySelector("[data-language]"), language);
    line.lang = atlas.languageTag(result.request.target);
    if (drawnFor !== result || drawnIn !== state.lang) line.replaceChildren(...result.words.map(wordNode));
    [drawnFor, drawnIn] = [result, state.lang];
    const place = problem ? [make("span", "place", owner ? `${language} · ${owner}` : language)] : [];
    status.replaceChildren(...place, ...facts(result));
  };
})();
