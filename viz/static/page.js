/* Attention Atlas, the page's own script, part 1: language, theme, and the one store of what the visitor chose.
 *
 * Everything visible is text from viz/text (handed over as window.atlasText), set with textContent, never as markup.
 * Python sees the store as the value of one hidden component (the bridge) and checks every field of it again.
 */
window.atlas = (() => {
  const text = window.atlasText;
  const query = new URLSearchParams(location.search);

  /* ---- language: ?lang=, else the browser's, else English ---- */
  const firstLanguage = () => {
    const wanted = [query.get("lang"), ...(navigator.languages || [navigator.language])];
    for (const code of wanted) {
      const short = (code || "").toLowerCase().split("-")[0];
      if (short in text) return short;
    }
    return "en";
  };

  /* ---- the store: a plain object, a setter, and who wants to know ---- */
  const state = {lang: firstLanguage()};
  const listeners = new Set();
  const set = (patch) => {
    const changed = Object.keys(patch).filter((key) => state[key] !== patch[key]);
    if (!changed.length) return;
    Object.assign(state, patch);
    listeners.forEach((listener) => listener(changed));
  };
  const onChange = (keys, listener) => {
    const wrapped = (changed) => changed.some((key) => keys.includes(key)) && listener();
    listeners.add(wrapped);
    return () => listeners.delete(wrapped);
  };

  /* ---- text: the same templates and the same rule as viz/text/__init__.py ---- */
  const say = (key, params = {}) => {
    const template = text[state.lang][key] ?? key;
    return template.replace(/\{(\w+)\}/g, (hole, name) => (name in params ? String(params[name]) : hole));
  };
  const has = (key) => key in text[state.lang];

  /* data-t: the element's text; data-t-label, -title, -placeholder: the attribute of that name. */
  const attributes = {tLabel: "aria-label", tTitle: "title", tPlaceholder: "placeholder"};
  const selector = "[data-t],[data-t-label],[data-t-title],[data-t-placeholder]";
  const translateNode = (node) => {
    if (node.dataset.t) node.textContent = say(node.dataset.t);
    for (const [name, attribute] of Object.entries(attributes)) {
      if (node.dataset[name]) node.setAttribute(attribute, say(node.dataset[name]));
    }
  };
  const applyText = (root = document) => root.querySelectorAll(selector).forEach(translateNode);

  /* Gradio draws the tab buttons and text boxes; their words are replaced in place, where they stand. */
  const foreign = [];
  const adopt = (find, apply) => {
    foreign.push([find, apply]);
    document.querySelectorAll(find).forEach(apply);
  };
  const applyForeign = () => foreign.forEach(([find, apply]) => document.querySelectorAll(find).forEach(apply));

  const showLanguage = () => {
    document.documentElement.lang = state.lang === "zh" ? "zh-CN" : state.lang;
    document.title = say("page.title");
    applyText();
    applyForeign();
  };
  const chooseLanguage = (lang) => {
    if (!(lang in text)) return;
    set({lang});
    rememberInUrl("lang", lang);
  };
  onChange(["lang"], showLanguage);
  /* Gradio writes its own title and language when it starts; ours stand. */
  new MutationObserver(() => document.title === say("page.title") || (document.title = say("page.title")))
    .observe(document.head, {subtree: true, childList: true, characterData: true});
  new MutationObserver(() => document.documentElement.lang.startsWith(state.lang) || showLanguage())
    .observe(document.documentElement, {attributeFilter: ["lang"]});

  /* ---- theme: Gradio's own body.dark class; ?__theme= keeps it over a reload ---- */
  const isDark = () => document.body.classList.contains("dark");
  const chooseTheme = (dark) => {
    document.body.classList.toggle("dark", dark);
    rememberInUrl("__theme", dark ? "dark" : "light");
  };
  const themeListeners = new Set();
  let lastDark = null;
  const watchTheme = () => {
    new MutationObserver(() => {
      if (isDark() === lastDark) return;
      lastDark = isDark();
      document.documentElement.style.colorScheme = lastDark ? "dark" : "light";
      themeListeners.forEach((listener) => listener());
    }).observe(document.body, {attributes: true, attributeFilter: ["class"]});
    lastDark = isDark();
    document.documentElement.style.colorScheme = lastDark ? "dark" : "light";
  };
  if (document.body) watchTheme();
  else document.addEventListener("DOMContentLoaded", watchTheme);

  function rememberInUrl(name, value) {
    const url = new URL(location.href);
    url.searchParams.set(name, value);
    history.replaceState(history.state, "", url);
  }

  /* ---- the bridge to Python: send("draw") hands the store over and fires the event of that name ---- */
  let bridge = null;
  const waiting = [];
  const connect = (props, trigger) => {
    bridge = {props, trigger};
    waiting.splice(0).forEach(send);
  };
  const send = (name) => {
    if (!bridge) {
      waiting.push(name);
      return;
    }
    bridge.props.value = {...state};
    bridge.trigger(name);
  };

  /* ---- small helpers for the parts that draw themselves ---- */
  const make = (tag, className = "", content = "") => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (content !== "") node.textContent = content;
    return node;
  };
  /* Runs fn on the element once it is there: Gradio mounts its parts one by one. */
  const whenPresent = (find, fn) => {
    const there = document.querySelector(find);
    if (there) return fn(there);
    const observer = new MutationObserver(() => {
      const node = document.querySelector(find);
      if (!node) return;
      observer.disconnect();
      fn(node);
    });
    observer.observe(document.documentElement, {childList: true, subtree: true});
  };
  /* A share of 1 as the page writes it in every language: "53%". Nothing that is there is rounded to none, nor what is not all to all. */
  const percent = (share, digits = 0) => {
    if (share === 0 || share === 1) return `${100 * share}%`;
    const text = (100 * share).toFixed(digits);
    const least = 10 ** -digits;
    if (Number(text) === 0) return `<${least}%`;
    return Number(text) === 100 && share < 1 ? `>${100 - least}%` : `${text}%`;
  };
  const debounce = (wait, fn) => {
    let timer = 0;
    const later = (...args) => {
      clearTimeout(timer);
      timer = setTimeout(() => fn(...args), wait);
    };
    later.cancel = () => clearTimeout(timer);
    return later;
  };

  adopt("#tabs [role=tab]", (button) => {
    const name = button.id.replace(/^tab-|-button$/g, "");
    const word = [...button.childNodes].find((node) => node.nodeType === Node.TEXT_NODE && node.nodeValue.trim());
    if (word && has(`tab.${name}`)) word.nodeValue = say(`tab.${name}`);
  });

  showLanguage();
  return {
    state, set, onChange, say, has, applyText, applyForeign, chooseLanguage, chooseTheme, isDark, connect, send, make, percent, debounce, whenPresent,
    onTheme: (listener) => (themeListeners.add(listener), () => themeListeners.delete(listener)),
  };
})();

/* The header: language and theme switches. */
atlas.header = (element) => {
  element.querySelectorAll("[data-lang]").forEach((button) => {
    button.addEventListener("click", () => atlas.chooseLanguage(button.dataset.lang));
  });
  const show = () => element.querySelectorAll("[data-lang]").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.lang === atlas.state.lang));
  });
  element.querySelector("[data-theme]").addEventListener("click", () => atlas.chooseTheme(!atlas.isDark()));
  element.querySelector("[data-tour]")?.addEventListener("click", () => atlas.startTour()); // a page that was saved has no tour
  element.querySelector("[data-skip]").addEventListener("click", () => document.querySelector("#sentence textarea")?.focus());
  atlas.onChange(["lang"], show);
  atlas.applyText(element);
  show();
  atlas.whenPresent("#tabs [role=tab]", atlas.applyForeign);
};
