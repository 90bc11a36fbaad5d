/* Part 4: the model box, and what the page knows of the visitor's model.
 *
 * The visitor picks a model -> begin("load_model") -> Python says how far it is (value of #models) -> we ask again until it is there.
 * Only then it becomes the model of this page (state.model); until then, and if it fails, the former one stays. If that one has left the
 * server too, the page goes back to the embedded one. The loading itself goes on in the server, so picking another one or leaving
 * interrupts nothing.
 */
(() => {
  const {state, set, onChange, say, has, make} = atlas;
  const POLL = 500; // ms between two questions how far it is
  const PATIENCE = 8000; // ms without an answer after which we ask again anyway
  const MB = 1e6;

  Object.assign(state, {model: "embedded", wanted: null});

  /* ---- names of languages: our own words where we have some, else the browser's ---- */
  const names = {};
  const tagOf = (code) => {
    try {
      return Intl.getCanonicalLocales(code.replace(/_/g, "-"))[0];
    } catch {
      return "";
    }
  };
  atlas.languageTag = (code) => ({cmn: "zh-CN"}[code] ?? tagOf(code === "jap" ? "ja" : code));
  atlas.languageName = (code) => {
    if (has(`target.${code}`)) return say(`target.${code}`);
    const tag = atlas.languageTag(code);
    try {
      names[state.lang] ||= new Intl.DisplayNames([state.lang === "zh" ? "zh-CN" : state.lang], {type: "language", fallback: "none"});
      return names[state.lang].of(tag) || code;
    } catch {
      return code;
    }
  };

  /* ---- the model in use ---- */
  let info = null;
  let home = null; // the embedded one's
  const listeners = new Set();
  atlas.model = () => info;
  /* listener(again): `again` if it's the model that was in use already, only loaded anew. */
  atlas.onModel = (listener) => listeners.add(listener);
  const adopt = (next) => {
    const again = Boolean(info) && next.name === state.model;
    info = next;
    const target = next.targets.includes(state.target) ? state.target : next.target;
    atlas.adopting = true; // those who translate anew at another target wait for the listeners' call
    set({model: next.name, target});
    atlas.adopting = false;
    listeners.forEach((listener) => listener(again));
  };

  /* ---- loading ---- */
  let wish = null; // {name, stage, done, total}
  let problem = null;
  let wentHome = false; // with that problem
  let timer = 0;
  const shows = new Set();
  const show = () => shows.forEach((each) => each());
  const ask = (again) => {
    state.wanted = {name: wish.name, again};
    clearTimeout(timer);
    timer = setTimeout(() => wish && ask(false), PATIENCE);
    atlas.begin("load_model");
  };
  const want = (name) => {
    problem = null;
    wentHome = false;
    wish = {name, stage: "waiting", done: 0, total: 0};
    ask(true);
    show();
  };
  const take = (value) => {
    if (!wish || value?.asked !== wish.name) return; // an answer to an earlier wish
    clearTimeout(timer);
    if (value.stage === "ready") {
      wish = null;
      adopt(value.info);
    } else if (value.stage === "failed") {
      wish = null;
      problem = value.problem;
      if (value.asked === atlas.linkedModel) {
        const why = value.problem;
        atlas.leftOut.add("model", value.asked, () => atlas.problemText(why, ".other"));
        atlas.linkedModel = undefined; // said once
      }
      open(true); // it may have been closed meanwhile, and says what went wrong
      /* The page's model has left the server: what failed was to fetch it back, or it never came back after a reload of the page. */
      wentHome = value.name === state.model || info.name !== state.model;
      if (wentHome) adopt(home);
    } else {
      wish = {...wish, stage: value.stage, done: value.done, total: value.total};
      timer = setTimeout(() => wish && ask(false), POLL);
    }
    show();
  };
  /* The server put this page's model away for others: fetched back by itself, but not for ever. */
  let reloads = 0;
  atlas.reloadModel = (name) => {
    if (wish || name !== state.model || reloads++ > 1) return;
    want(name);
  };
  atlas.forgetReloads = () => (reloads = 0);

  /* ---- words ---- */
  const short = (name) => name.replace(/^Helsinki-NLP\//, "").replace(/@([0-9a-f]{7})[0-9a-f]+$/, "@$1");
  const shown = (name) => (name === "embedded" ? say("model.embedded") : short(name));
  atlas.modelName = shown;
  const share = () => (wish.total ? atlas.percent(Math.floor((100 * wish.done) / wish.total) / 100) : "…");
  const progressWords = () => {
    const name = short(wish.name);
    if (wish.stage !== "downloading") return say(`model.${wish.stage}`, {name});
    return say("model.downloading", {name, done: Math.round(wish.done / MB), total: Math.max(1, Math.round(wish.total / MB))});
  };
  const facts = () => {
    if (!info?.sizes) return "";
    const {layers, heads, d_model} = info.sizes;
    const both = ([encoder, decoder]) => (encoder === decoder ? String(encoder) : `${encoder} / ${decoder}`);
    const parts = [shown(info.name), ...(info.revision ? [say("model.revision", {revision: info.revision.slice(0, 7)})] : [])];
    const warnings = info.warnings.map(({code, detail}) => say(`model.warning.${code}`, {detail}));
    return [...parts, say("model.sizes", {layers: layers.join(" + "), heads: both(heads), d_model}), ...warnings].join(" · ");
  };

  /* ---- the button among the options: which model, or how far the next one is ---- */
  const open = (wanted) => {
    document.body.classList.toggle("atlas-choosing", wanted);
    document.querySelector("[data-model]")?.setAttribute("aria-expanded", String(wanted));
  };
  atlas.modelButton = (button) => {
    const draw = () => {
      button.textContent = wish ? `${shown(wish.name)} ${share()}` : shown(state.model);
      button.title = info?.revision && !wish ? `${info.name} · ${info.revision}` : "";
    };
    button.addEventListener("click", () => open(!document.body.classList.contains("atlas-choosing")));
    onChange(["lang", "model"], draw);
    shows.add(draw);
    draw();
  };

  /* ---- the panel ---- */
  const entry = (name, label, spoken) => {
    const button = make("button", "entry", label);
    button.type = "button";
    button.value = name;
    if (spoken && spoken !== label) button.setAttribute("aria-label", spoken);
    button.addEventListener("click", () => want(name));
    return button;
  };
  const lists = ({embedded, folders, pairs}) => {
    const {languageName} = atlas;
    const english = (code) => code === "en";
    const arrow = ({source, target}) => say("model.pair", {source: languageName(source), target: languageName(target)});
    const group = (key, entries) => {
      if (!entries.length) return [];
      const row = make("div", "model-group");
      const list = make("div", "entries");
      row.append(make("span", "option-name", say(key)), list);
      list.append(...entries);
      list.setAttribute("role", "group");
      list.setAttribute("aria-label", say(key));
      return [row];
    };
    const by = (label, some) => some.map((pair) => entry(pair.name, label(pair), arrow(pair)));
    return [
      ...group("model.here", [entry(embedded, say("model.embedded")), ...folders.map((name) => entry(name, name))]),
      ...group("model.from_english", by(({target}) => languageName(target), pairs.filter((pair) => english(pair.source)))),
      ...group("model.into_english", by(({source}) => languageName(source), pairs.filter((pair) => english(pair.target)))),
      ...group("model.others", by(arrow, pairs.filter((pair) => !english(pair.source) && !english(pair.target)))),
    ];
  };
  atlas.modelBox = (element, props, watch) => {
    const find = (name) => element.querySelector(`[data-${name}]`);
    const id = find("id");
    find("form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (id.value.trim()) want(id.value.trim());
      else id.focus();
    });
    const mark = () => {
      element.querySelectorAll(".entry").forEach((button) => {
        button.setAttribute("aria-pressed", String(button.value === state.model));
        button.classList.toggle("wanted", button.value === wish?.name);
      });
      const complaint = find("problem");
      complaint.hidden = !problem;
      atlas.fill(complaint, problem ? atlas.problemText(problem, ".other") + (wentHome ? say("model.back") : "") : "");
      atlas.fill(find("status"), wish ? progressWords() : facts());
      find("bar").hidden = !wish;
      find("bar").firstChild.style.setProperty("--p", wish?.total ? (wish.done / wish.total).toFixed(3) : "0");
      find("bar").classList.toggle("unsure", wish?.stage !== "downloading");
    };
    const draw = () => {
      const focused = find("lists").contains(document.activeElement) ? document.activeElement.value : null;
      find("lists").replaceChildren(...lists(props.offered));
      if (focused !== null) find("lists").querySelector(`[value="${CSS.escape(focused)}"]`)?.focus();
      mark();
    };
    info = home = props.value.info;
    shows.add(mark);
    onChange(["lang"], draw);
    onChange(["model"], mark);
    watch("value", () => take(props.value));
    atlas.applyText(element);
    draw();
    listeners.forEach((listener) => listener(null)); // those that were mounted before us
    if (atlas.kept?.model && atlas.kept.model !== "embedded") want(atlas.kept.model);
  };
})();
