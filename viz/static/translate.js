/* Part 5: the Translate tab. The sentence box, its options and the translation.
 *
 * Flow: the visitor stops typing -> begin("translate") -> Python answers with a result (value of #result) and all its maps (#maps), which
 * the page draws and switches by itself (maps.js, choice.js). An error fills #notice and leaves everything else as it was.
 */
(() => {
  const {state, set, onChange, say, has, make} = atlas;
  const TYPING_PAUSE = 400; // ms

  Object.assign(state, {target: null, beam_size: 4, forced: false});
  const CHOICES = ["model", "target", "beam_size", "forced"];
  const {kept} = atlas;
  if (kept) CHOICES.forEach((name) => name in kept && (state[name] = kept[name]));
  const area = (id) => document.querySelector(`#${id} textarea`);
  const written = (id) => area(id)?.value ?? "";
  atlas.keep(() => ({
    ...Object.fromEntries(CHOICES.map((name) => [name, state[name]])), sentence: written("sentence"), given: written("given"),
  }));

  /* ---- what is on the screen now ---- */
  let result = null;
  const resultListeners = new Set();
  atlas.onResult = (listener) => resultListeners.add(listener);
  atlas.result = () => result;

  /* While a message stands or an answer lets wait, what is shown may belong to an earlier text: then it is dimmed on every tab and says
   * whose it is. A quick answer dims nothing. */
  const PATIENCE = 500; // ms
  let problem = null;
  let late = false;
  let [asked, answered] = [false, false]; // this page asked for a translation; there was an answer to the last time it did
  let patience = 0;
  const differs = () => Boolean(result && box)
    && (box.value !== result.request.text || state.target !== result.request.target || state.model !== result.request.model);
  const isOld = () => (problem ? problem.about !== "maps" : late && atlas.isOwed("translate")) && differs();
  const dim = () => {
    [late, patience] = [true, 0];
    mark();
  };
  const waitFor = () => {
    patience ||= setTimeout(dim, PATIENCE);
  };
  const waitNoMore = () => {
    clearTimeout(patience);
    [late, patience] = [false, 0];
  };
  const shortened = () => {
    const letters = [...result.request.text];
    return letters.length > 60 ? `${letters.slice(0, 60).join("").trimEnd()}…` : result.request.text;
  };
  const owner = () => say("status.belongs", {text: shortened()});
  /* Whose maps those on the page are, if they belong to an earlier text. */
  atlas.belongs = () => (isOld() ? owner() : "");
  const markListeners = new Set();
  atlas.onMark = (listener) => markListeners.add(listener);
  const mark = () => {
    document.body.classList.toggle("atlas-old", isOld());
    const line = document.querySelector("[data-belongs]"); // Translate says it beside the words themselves
    if (line) {
      line.hidden = !isOld() || (state.tab ?? "translate") === "translate";
      const why = atlas.isOwed("translate") ? say("page.belongs.until") : problem ? atlas.problemText(problem) : "";
      atlas.fill(line, line.hidden ? "" : [say("page.belongs", {text: shortened()}), why].join(" "));
    }
    document.body.classList.toggle("atlas-no-run", !result);
    markListeners.forEach((listener) => listener());
  };
  atlas.onProblem = (next) => {
    problem = next;
    mark();
  };
  onChange(["target", "model", "tab", "lang"], mark);
  atlas.onSettled(() => {
    if (atlas.isOwed("translate")) return;
    answered = asked;
    const dimmed = late;
    waitNoMore();
    if (dimmed) mark(); // else nothing has changed, and what is drawn stays
  });

  /* A translation of the model's and one of the visitor's are one kind of request, told apart by `forced`: so the last one asked for
   * replaces whichever was waiting, and its answer comes last. */
  const run = (forced) => {
    translateSoon.cancel();
    [asked, answered] = [true, false];
    state.forced = forced;
    waitFor();
    atlas.begin("translate");
  };
  /* The sentence and the visitor's own translation that are on the screen or being asked for: where the answer was a message, those of
   * what is still shown. */
  atlas.sentence = () => (answered && result ? result.request.text : written("sentence"));
  atlas.given = () => (answered && result ? result.request.given ?? "" : written("given"));
  const runAgain = () => run(result?.badge === "given");

  /* ---- the sentence ---- */
  let box = null;
  const translateNow = () => run(false);
  const translateSoon = atlas.debounce(TYPING_PAUSE, translateNow);
  /* Writes into Gradio's text box the way a keyboard would, so that Gradio knows it too. */
  const write = (area, value) => {
    Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(area, value);
    area.dispatchEvent(new Event("input", {bubbles: true}));
  };
  /* Gradio's own label of a box, which only screen readers meet. */
  const label = (area) => area?.closest("label")?.querySelector(".sr-only");
  const adoptBox = (area, labelKey, placeholderKey) => {
    area.dir = "auto";
    area.spellcheck = false;
    area.dataset.tLabel = labelKey;
    area.dataset.tPlaceholder = placeholderKey;
    area.setAttribute("aria-label", say(labelKey));
    area.setAttribute("placeholder", say(placeholderKey));
    if (label(area)) label(area).dataset.t = labelKey;
    atlas.fill(label(area), say(labelKey));
  };
  /* What the box is called: by the language that the model reads. */
  const sourceWords = (key) => {
    const {source} = atlas.model() || {source: "en"};
    if (["en", "eng"].includes(source)) return say(key);
    return say(`${key}.other`, {language: source ? atlas.languageName(source) : say("sentence.unknown")});
  };
  const nameBox = () => {
    box?.setAttribute("aria-label", sourceWords("sentence.label"));
    box?.setAttribute("placeholder", sourceWords("sentence.placeholder"));
    atlas.fill(label(box), sourceWords("sentence.label"));
  };
  onChange(["lang"], nameBox);
  atlas.onModel(nameBox);
  atlas.sentenceHint = (element) => {
    const show = () => atlas.fill(element.querySelector("p"), sourceWords("sentence.hint"));
    onChange(["lang"], show);
    atlas.onModel(show);
    show();
  };
  atlas.whenPresent("#sentence textarea", (area) => {
    box = area;
    area.dir = "auto";
    area.spellcheck = false;
    nameBox();
    let composing = false;
    area.addEventListener("compositionstart", () => (composing = true));
    area.addEventListener("compositionend", () => {
      composing = false;
      translateSoon();
    });
    area.addEventListener("input", () => {
      if (problem || late) mark();
      if (!composing) translateSoon();
    });
    area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      translateNow();
    });
  });

  /* ---- model, examples, target language, beam ---- */
  const MANY = 6; // more targets than that are a list to open
  const {languageName} = atlas;
  atlas.options = (element, props) => {
    const find = (name) => element.querySelector(`[data-${name}]`);
    const list = find("examples");
    const many = find("many-targets");
    const showExamples = () => {
      const {examples = [], source} = atlas.model() || {};
      find("examples").parentNode.hidden = !examples.length;
      if (list.dataset.shape === JSON.stringify(examples)) return;
      list.dataset.shape = JSON.stringify(examples);
      list.replaceChildren(...examples.map((example) => {
        const button = make("button", "example", example);
        button.type = "button";
        button.lang = atlas.languageTag(source || "en");
        button.dir = "auto";
        button.addEventListener("click", () => {
          write(box, example);
          translateNow();
          box.focus({preventScroll: true});
        });
        return button;
      }));
    };
    /* Two codes of one language ("fr" and "fra") are told apart by the code. */
    const labels = (targets) => {
      const names = targets.map(languageName);
      return names.map((name, i) => (names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} (${targets[i]})`));
    };
    const showTargets = () => {
      const {targets = [], name} = atlas.model() || {};
      if (state.model === name && !targets.includes(state.target)) state.target = atlas.model().target;
      const named = labels(targets);
      const open = targets.length > MANY;
      find("targets").hidden = open;
      many.hidden = !open;
      if (!open) {
        return atlas.choices(find("targets"), targets.map((value, i) => ({value, label: named[i]})), state.target, (target) => set({target}));
      }
      many.replaceChildren(...targets.map((value, i) => new Option(named[i], value)));
      many.value = state.target;
    };
    many.addEventListener("change", () => set({target: many.value}));
    const showBeams = () => atlas.choices(find("beams"), props.value.beams.map((value) => ({value, label: String(value)})), state.beam_size,
      (beam_size) => set({beam_size}));
    onChange(["lang", "target"], showTargets);
    onChange(["beam_size"], showBeams);
    /* A translation of one's own is in the language it was written in. */
    onChange(["target"], () => atlas.adopting || run(false));
    onChange(["beam_size"], () => atlas.adopting || runAgain());
    atlas.onModel((again) => {
      showExamples();
      showTargets();
      /* The visitor's sentence stays. One's own translation was for the former model. */
      if (again !== null && box?.value.trim()) run(again && state.forced);
    });
    atlas.applyText(element);
    atlas.modelButton(find("model"));
    showExamples();
    showTargets();
    showBeams();
  };

  /* ---- the translation ---- */
  const showResult = (element) => atlas.showResult(element, {result, problem, owner: isOld() ? owner() : ""});
  atlas.resultView = (element, props, watch) => {
    const take = () => {
      if (props.value?.stale) return runAgain(); // the server has let it go
      result = props.value || null;
      atlas.forgetReloads();
      if (!differs()) waitNoMore();
      mark();
      resultListeners.forEach((listener) => listener());
    };
    onChange(["lang"], () => showResult(element));
    markListeners.add(() => showResult(element));
    watch("value", take);
    atlas.applyText(element);
    take();
  };

  /* ---- a translation of the visitor's own ---- */
  atlas.whenPresent("#given textarea", (area) => {
    const showExample = () => {
      const key = `given.placeholder.${state.target}`;
      adoptBox(area, "given.label", has(key) ? key : "given.label");
    };
    onChange(["target"], showExample);
    showExample();
    area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      run(true);
    });
    if (kept) setTimeout(() => { // when Gradio listens to its boxes
      if (kept.sentence !== undefined) write(box, kept.sentence);
      if (kept.given !== undefined) write(area, kept.given);
      if (kept.given) document.querySelector("#given-toggle button[aria-expanded=false]")?.click();
      translateSoon.cancel();
      if (kept.runs === false || kept.waits) return; // a link that names neither text nor model; one whose model comes later
      run(Boolean(kept.forced));
      clearTimeout(patience);
      dim(); // at once: what the page opened with was never this visitor's
    });
  });
  atlas.givenToggle = (element) => {
    const button = element.querySelector("button");
    button.addEventListener("click", () => {
      const open = document.body.classList.toggle("atlas-giving");
      button.setAttribute("aria-expanded", String(open));
      if (open) document.querySelector("#given textarea")?.focus();
    });
    atlas.applyText(element);
  };
  atlas.givenView = (element) => {
    element.querySelector("[data-show]").addEventListener("click", () => run(true));
    element.querySelector("[data-back]").addEventListener("click", translateNow);
    const show = () => {
      element.querySelector("[data-back]").hidden = result?.badge !== "given";
    };
    resultListeners.add(show);
    atlas.applyText(element);
    show();
  };
})();
