/* Step by step, the controls: which word, layer and head, how deep, what is taken away, and whether to guess first. */
(() => {
  const {state, set, onChange, say, make, choices} = atlas;
  const {DEPTHS, PARTS, COVERED, change, rowNow, labels, hover, disguised, current, hidesNext, edges, onPayload, onQuestion} = atlas.steps;

  atlas.stepsControls = (element) => {
    const find = (name) => element.querySelector(`[data-steps="${name}"]`);
    const guess = find("guess");
    atlas.mapControls(element); // kinds and layers

    /* A decoder row has two names: what it reads and what it writes. The word that is to be guessed is written by the chosen row, and read
     * by the next. */
    const words = () => {
      if (state.kind === "encoder_self") {
        return labels("source").map((label, value) => ({value, label: label.text, title: hover(label)}));
      }
      const secret = hidesNext() ? rowNow() : -Infinity;
      const [read, written] = [["read", secret + 1], ["predicted", secret]].map(([side, at]) =>
        labels(side).map((label, value) => (value === at ? disguised(label) : label)));
      const both = (value, name) => `${name(read[value])} → ${name(written[value])}`;
      return read.map((_, value) => ({value, label: both(value, ({text}) => text), title: both(value, hover)}));
    };
    /* Many words have a frame of their own, which stands where the chosen one is. */
    const markEdges = edges(find("words"));
    let seen = "";
    const bringToView = () => {
      const host = find("words");
      const chosen = host.children[rowNow()];
      const now = JSON.stringify([rowNow(), state.kind, host.children.length, host.clientWidth]);
      if (!chosen || !host.clientHeight || now === seen) return;
      seen = now;
      const {offsetTop: top, offsetHeight: height} = chosen;
      if (top < host.scrollTop || top + height > host.scrollTop + host.clientHeight) {
        host.scrollTop = top - (host.clientHeight - height) / 2;
      }
      markEdges();
    };
    new ResizeObserver(bringToView).observe(find("words"));
    /* The sentence itself: what is read and what is written, and the way back to the box. */
    const showSentence = () => {
      const host = find("sentence");
      const result = atlas.result();
      host.hidden = !result;
      if (!result) return host.replaceChildren();
      const [source, arrow, written] = [make("span", "", result.request.text), make("i", "", "→"), make("b", "", result.text)];
      [source, written].forEach((node) => (node.dir = "auto"));
      written.style.fontWeight = "400";
      if (hidesNext()) written.textContent = COVERED;
      const change = make("button", "plain", say("steps.sentence.change"));
      change.type = "button";
      change.addEventListener("click", () => {
        document.getElementById("tab-translate-button")?.click();
        const box = document.querySelector("#sentence textarea");
        const focus = (tries) => { // the tab opens a little later
          box?.focus();
          if (box && document.activeElement !== box && tries) setTimeout(focus, 50, tries - 1);
        };
        focus(20);
      });
      host.replaceChildren(source, arrow, written, change);
    };
    const showWords = () => {
      showSentence();
      if (!atlas.maps.current()) return;
      choices(find("words"), words(), rowNow(), (value) => change({wish: value}));
      find("words").querySelectorAll("span").forEach((span) => (span.dir = "auto"));
      find("space").hidden = !find("words").textContent.includes("␣");
      bringToView();
      atlas.fill(find("words-name"), say(state.kind === "encoder_self" ? "steps.words.source" : "steps.words.target"));
    };
    /* One row is computed in one head: of all heads taken together, the one that the server chose is marked. */
    const headNow = () => (typeof state.head === "number" ? state.head : current()?.kind === state.kind ? current().head : null);
    const showHeads = () => {
      const {heads} = atlas.maps.size(state.kind);
      const options = Array.from({length: heads}, (_, value) => ({value, label: String(value), spoken: `${say("head.label")} ${value}`}));
      choices(find("heads"), options, headNow(), (value) => set({head: value}));
      const aggregate = typeof state.head !== "number" && headNow() !== null;
      atlas.fill(find("heads-note"), aggregate ? say("steps.head.one", {head: headNow()}) : "");
    };
    const showDepth = () => choices(
      find("depth"), DEPTHS.map((value) => ({value, label: say(`steps.depth.${value}`), title: say(`steps.depth.${value}.help`)})),
      state.steps.depth, (value) => change({depth: value}),
    );
    const showWithout = () => {
      const unscaled = current()?.facts.embedding_scale === 1 && current().request.model === atlas.maps.current()?.request.model;
      const help = (value) => say(value === "embedding_scale" && unscaled ? "steps.without.no_factor" : `steps.without.${value}.help`);
      const options = ["", ...PARTS].map((value) => ({
        value, label: say(value ? `steps.without.${value}.chip` : "steps.without.nothing"),
        spoken: value ? say(`steps.without.${value}`) : undefined, title: value ? help(value) : undefined,
      }));
      choices(find("without"), options, state.steps.without, (value) => change({without: value}));
    };
    const show = () => {
      showWords();
      showHeads();
      showDepth();
      showWithout();
      guess.checked = state.steps.guess;
    };
    guess.addEventListener("change", () => change({guess: guess.checked}));
    onChange(["lang", "kind", "layer", "head", "steps"], show);
    atlas.maps.onMaps(show);
    atlas.onResult(showSentence);
    atlas.focus.onFocus(() => state.steps.wish === null && showWords());
    onPayload(show);
    onQuestion(showWords);
    show();
  };
})();
