/* The experiments under the machine's picture: who asks the server when, and what all of them share. What each one draws is in
 * machine_lab_batch.js (masks, one pass or many) and machine_lab_costs.js (norms, heads, the division, memory).
 *
 * An experiment asks once its section comes into view, and again when what its answer depends on (its key) has changed. Every answer
 * carries the key of its question: while it differs from the present one, what is shown belongs to something else and steps back.
 */
atlas.lab = (() => {
  const {state, set, onChange, say, make} = atlas;
  const {second = null, norm_layers: depth = null} = atlas.linked ?? {};
  /* own: the visitor's second sentence, null for one of ours; second: the one in use. depth: layers of the fresh stacks, null as loaded. */
  state.lab = {own: second, second: "", depth, again: 0, keys: {}};
  const change = (patch) => set({lab: {...state.lab, ...patch}});

  /* ---- numbers in words ---- */
  const locale = () => (state.lang === "zh" ? "zh-CN" : "en");
  const {compact} = atlas.machine;
  const whole = (value) => new Intl.NumberFormat(locale()).format(value);
  const RAISED = {"-": "⁻", ...Object.fromEntries([..."⁰¹²³⁴⁵⁶⁷⁸⁹"].map((digit, i) => [i, digit]))};
  const tiny = (value) => {
    if (value === 0) return "0";
    const [mantissa, exponent] = value.toExponential(1).split("e");
    return `${mantissa}·10${[...exponent.replace("+", "")].map((char) => RAISED[char]).join("")}`;
  };
  const bytes = (value) => {
    const power = Math.min(3, Math.floor(Math.log10(Math.max(1, value)) / 3));
    return `${Number((value / 1000 ** power).toPrecision(3))} ${["B", "kB", "MB", "GB"][power]}`;
  };
  const milliseconds = (seconds) => `${Number((1000 * seconds).toPrecision(3))} ms`;
  /* Two digits, never as a power of ten: 1.0, 30, 260. */
  const factor = (value) => (value >= 99.5 ? String(Number(value.toPrecision(2))) : value.toPrecision(2));
  const HASH = [0x811c9dc5, 0x01000193]; // FNV-1a: a key may hold a whole sentence, and only whether two are the same matters
  const keyOf = (...parts) => {
    const text = JSON.stringify([state.lang, ...parts]);
    let hash = HASH[0];
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), HASH[1]) >>> 0;
    return `${text.length}.${hash.toString(36)}`;
  };

  /* The run on the page, if it is of the model in use. */
  const request = () => {
    const shown = atlas.result()?.request;
    return shown && shown.model === state.model ? shown : null;
  };

  /* ---- tables: rows of cells, each a text, a node, or {text, title, className, head} ---- */
  const cellOf = (cell, header) => {
    const {text = cell, title = "", className = "", head = false} = cell instanceof Node || typeof cell !== "object" ? {} : cell;
    const node = make(header || head ? "th" : "td", className);
    if (header || head) node.scope = header ? "col" : "row";
    if (title) node.title = title;
    node.append(text);
    return node;
  };
  const fillTable = (table, header, rows) => {
    const line = (cells, isHeader) => {
      const row = make("tr", cells.className ?? "");
      row.append(...cells.map((cell) => cellOf(cell, isHeader)));
      return row;
    };
    const [top, body] = [make("thead"), make("tbody")];
    top.append(line(header, true));
    body.append(...rows.map((cells) => line(cells, false)));
    table.replaceChildren(top, body);
  };

  /* ---- asking ---- */
  const PATIENCE = 400; // ms until a section says that it is computing
  const experiments = {};
  /* name: of the event lab_NAME. key(): of the question, null if there is nothing to ask. prepare(): what else the store needs.
   * ofSentence: whether it is about the sentence that is shown. Sections and what they draw are added as Gradio mounts them. */
  const experiment = (name, key, prepare = () => {}, ofSentence = true) => {
    const near = new Set();
    const sections = new Map(); // section -> where it says what is the matter
    const shows = [];
    let asked = "";
    let answer = null; // the last one
    let value = null; // the last good one
    let timer = 0;
    const said = (now) => {
      if (now === null) return say("lab.waits");
      if (answer?.problem && answer.key === now) return atlas.problemText(answer.problem);
      return "";
    };
    const mark = () => {
      const now = key();
      const text = said(now);
      const settled = now === null || answer?.key === now;
      clearTimeout(timer);
      sections.forEach((line, section) => {
        section.classList.toggle("lab-empty", !value);
        section.classList.toggle("lab-old", Boolean(value && (value.key !== now || (ofSentence && atlas.belongs()))));
        line.hidden = !text;
        line.classList.toggle("wrong", Boolean(answer?.problem) && Boolean(text));
        atlas.fill(line, text);
      });
      if (settled || asked !== now) return;
      timer = setTimeout(() => sections.forEach((line) => {
        line.hidden = false;
        atlas.fill(line, say("lab.working"));
      }), PATIENCE);
    };
    const refresh = () => {
      const now = key();
      if (near.size && state.tab === "machine" && now !== null && now !== asked) {
        asked = now;
        prepare();
        state.lab.keys[name] = now;
        atlas.begin(`lab_${name}`);
      }
      mark();
    };
    const draw = () => value && shows.forEach((show) => show(value));
    const take = (next) => {
      if (!next) return;
      answer = next;
      if (!next.problem) value = next;
      if (!next.problem) draw();
      mark();
    };
    const seen = new IntersectionObserver((entries) => {
      entries.forEach(({target, isIntersecting}) => (isIntersecting ? near.add(target) : near.delete(target)));
      refresh();
    }, {rootMargin: "300px 0px"});
    atlas.onSettled(() => { // no answer came: asked for again at the next look
      if (atlas.isUnanswered() && answer?.key !== asked) asked = "";
    });
    experiments[name] = refresh;
    onChange(["tab", "lang", "lab", "kind", "layer", "head", "model"], refresh);
    atlas.onResult(refresh);
    atlas.onModel(refresh);
    atlas.onMark(mark);
    return {
      take,
      /* element: the block that holds the title, inside the section. */
      section: (element) => {
        const section = element.closest(".lab-section") ?? element;
        sections.set(section, element.querySelector('[data-lab="problem"]'));
        seen.observe(section);
        atlas.applyText(element);
        refresh();
      },
      onShow: (show) => {
        shows.push(show);
        if (value) show(value);
      },
      value: () => value,
    };
  };

  /* ---- the head: what there is, and the way to it ---- */
  const goTo = (name) => {
    const title = document.querySelector(`#lab-${name} h3`);
    if (!title) return;
    title.focus({preventScroll: true});
    title.scrollIntoView({behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start"});
  };
  const head = (element, props) => {
    element.querySelector('[data-lab="contents"]').replaceChildren(...props.value.experiments.map((name) => {
      const button = make("button", "lab-link");
      button.type = "button";
      button.dataset.t = `lab.${name}.short`;
      button.addEventListener("click", () => goTo(name));
      return button;
    }));
    atlas.applyText(element);
  };

  /* How wide what holds an element is; tables and inputs find their parts by these names. */
  const find = (element, name) => element.querySelector(`[data-lab="${name}"]`);
  return {change, compact, whole, tiny, bytes, milliseconds, factor, keyOf, request, fillTable, experiment, head, find};
})();
