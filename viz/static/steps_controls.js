/* Step by step, the controls: which word, layer and head, how deep, what is taken away, and whether to guess first. */
(() => {
  const {state, set, onChange, say, choices} = atlas;
  const {DEPTHS, PARTS, change, rowNow, labels, hover, current, hidesNext, onPayload, onQuestion} = atlas.steps;

  const COVERED = "…";

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
      const [read, written] = [labels("read"), labels("predicted")];
      const secret = hidesNext() ? rowNow() : null;
      const both = (value, name) => {
        const from = secret !== null && value === secret + 1 ? COVERED : name(read[value]);
        return `${from} → ${value === secret ? COVERED : name(written[value])}`;
      };
      return read.map((_, value) => ({value, label: both(value, ({text}) => text), title: both(value, hover)}));
    };
    const showWords = () => {
      if (!atlas.maps.current()) return;
      choices(find("words"), words(), rowNow(), (value) => change({wish: value}));
      find("words").querySelectorAll("span").forEach((span) => (span.dir = "auto"));
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
      const options = ["", ...PARTS].map((value) => ({
        value, label: say(value ? `steps.without.${value}.chip` : "steps.without.nothing"),
        spoken: value ? say(`steps.without.${value}`) : undefined, title: value ? say(`steps.without.${value}.help`) : undefined,
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
    atlas.focus.onFocus(() => state.steps.wish === null && showWords());
    onPayload(show);
    onQuestion(showWords);
    show();
  };
})();
