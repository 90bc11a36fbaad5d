/* The Step by step tab: one row of one head, computed before the visitor's eyes.
 *
 * Flow: the tab is open and the sentence, model, kind, layer, head, row or what is taken away has changed -> begin("steps") -> Python
 * answers with all numbers of that row (value of #steps-value, form: viz/panels/steps_value.py), from which steps_walk.js makes the steps.
 * The old walk stays until the new one is there. Kind, layer and head are the same choice as in Translate.
 */
(() => {
  const {state, set, onChange, say, make} = atlas;
  const {decode, number, softmax, difference, row} = atlas.steps;
  const DEPTHS = ["story", "numbers", "formula"];
  const PARTS = ["score_scale", "embedding_scale", "causal_mask", "positions"]; // of model/variants.py
  const AGREES = 1e-4; // of a recomputation in single precision

  /* wish: the row that the visitor picked, or null; row: the one that is asked for. */
  const {step = null, depth = "story", without = "", guess = ""} = atlas.linked ?? {};
  state.steps = {wish: step, row: 0, depth, without, guess: Boolean(guess)};
  const change = (patch) => set({steps: {...state.steps, ...patch}});

  /* ---- which row: the visitor's, else the one that is pinned in the linked views, else one from the middle ---- */
  const pinnedRow = () => {
    const {row: at} = atlas.focus.pinned();
    return at === null ? null : atlas.maps.axes()?.rows[at]?.start ?? null;
  };
  const rowNow = () => {
    const {queries} = atlas.maps.size(state.kind);
    return Math.max(0, Math.min(state.steps.wish ?? pinnedRow() ?? Math.floor(queries / 2), queries - 1));
  };

  /* ---- asking ---- */
  let payload = null;
  let troubled = false;
  let asked = "";
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const ready = () => {
    const maps = atlas.maps.current();
    return Boolean(maps && state.layer !== null && same(maps.request, atlas.result()?.request));
  };
  const question = () => [
    atlas.maps.current()?.request, state.kind, state.layer, state.head, state.steps.row, state.steps.without, state.lang,
  ];
  /* An aggregate of all heads is shown by one of them, which the server names. */
  const answers = (found) => {
    const {request, kind, layer, head, row: at, without: part, language} = found;
    return same([request, kind, layer, typeof state.head === "number" ? head : state.head, at, part, language], question());
  };
  const showState = () => {
    const root = document.querySelector("#steps-view .walk-root");
    if (!root) return;
    const other = payload && !same(payload.request, atlas.maps.current()?.request);
    const first = troubled ? "none" : "first"; // the message above says why there is none
    root.dataset.state = !atlas.maps.current() ? "nothing" : !payload ? first : other ? "old" : answers(payload) ? "here" : "waits";
  };
  /* A row that a link names is held against the sentence once, when that is there. */
  let unchecked = step;
  const checkLink = () => {
    if (unchecked === null || !ready() || (atlas.kept?.runs && atlas.result().badge === "recorded")) return;
    const [row, {text, model}, {request}] = [unchecked, atlas.linked, atlas.result()];
    unchecked = null;
    const ours = (text === undefined || request.text === text) && (model === undefined || request.model === model);
    if (!ours || row < atlas.maps.size(state.kind).queries) return;
    atlas.leftOut.add("step", String(row));
    if (state.steps.wish === row) change({wish: null});
  };
  const ask = () => {
    checkLink();
    if (ready()) state.steps.row = rowNow();
    showState();
    if (state.tab !== "steps" || !ready()) return;
    const wanted = JSON.stringify(question());
    if (wanted === asked) return;
    asked = wanted;
    atlas.begin("steps");
  };
  atlas.onSettled(() => { // an answer that did not come may be asked for again when the visitor comes back
    if (payload && answers(payload)) return;
    asked = "";
  });

  /* Without a model there are no numbers; the pictures that the common message speaks of are in other tabs. */
  atlas.stepsNotice = (element, props, watch) => {
    const own = {get value() {
      return props.value?.code === "no_model" ? {...props.value, code: "no_model_steps"} : props.value;
    }};
    return atlas.notice(element, own, watch, (problem) => {
      troubled = Boolean(problem);
      showState();
    });
  };

  /* ---- cells whose weights only the server has: one at a time, each asked for once ---- */
  const cells = new Map();
  let wanted = null; // {key, then}
  const cellKey = (cell) => JSON.stringify([cell.stage, cell.index, cell.key ?? null, cell.after ?? false]);
  const askCell = (cell, then) => {
    const key = cellKey(cell);
    if (cells.has(key)) return then(cells.get(key));
    wanted = {key, then};
    state.cell = cell;
    atlas.begin("cell");
  };
  const takeCell = (value) => {
    const answer = value ? decode(JSON.parse(value)) : null;
    const place = ({request, kind, layer, head, row: at, without: part}) => [request, kind, layer, head, at, part];
    if (!answer || !payload || !same(place(answer), place(payload))) return;
    const key = cellKey(answer);
    cells.set(key, answer);
    if (wanted?.key !== key) return;
    wanted.then(answer);
    wanted = null;
  };
  atlas.onSettled(() => {
    wanted?.then(null);
    wanted = null;
  });
  atlas.stepsCell = (props, watch) => watch("value", () => takeCell(props.value));

  /* ---- questions: how they stand, as long as the row is the same; what would give an open one's answer away is covered ---- */
  const cover = () => {
    document.querySelectorAll("#steps-view [data-gives]")
      .forEach((node) => node.classList.toggle("covered", node.dataset.gives.split(" ").some(questions.isOpen)));
    questions.renamed();
    questionListeners.forEach((listener) => listener());
  };
  const questionListeners = new Set();
  const questions = atlas.steps.asked(cover);
  const placeOf = ({request, kind, layer, head, row: at}) => [request, kind, layer, head, at];
  /* Whether the word that comes next is to be guessed; of a row that is not here yet it may be. */
  const hidesNext = () => state.kind !== "encoder_self" && (payload && answers(payload) ? questions.isOpen("logits") : state.steps.guess);

  /* ---- what is on the page ---- */
  const listeners = new Set();
  const take = (value) => {
    const answer = value ? JSON.parse(value) : null;
    if (!answer || !same(answer.request, atlas.maps.current()?.request)) return;
    if (!payload || !same(placeOf(payload), placeOf(answer))) questions.clear();
    payload = decode(answer);
    cells.clear();
    listeners.forEach((listener) => listener());
    showState();
  };
  atlas.stepsValue = (props, watch) => {
    watch("value", () => take(props.value));
    take(props.value);
  };

  /* Softmax, dot products and all, once more in the page: from q and k to the weights that came. */
  const again = ({attention: a, scale_scores: scaled}, facts) => {
    const scale = scaled ? Math.sqrt(facts.head_dim) : 1;
    const scores = a.weights.map((_, j) => row(a.k, j).reduce((sum, value, i) => sum + value * a.q[i], 0) / scale);
    return difference(softmax(scores, a.masked).weights, a.weights);
  };
  const checkLine = () => {
    const {check, facts, before} = payload;
    const parts = ["weights", "shown", "layer", "final", "logits"].filter((name) => typeof check[name] === "number");
    const own = again(before, facts);
    const fine = Math.max(own, ...parts.map((name) => check[name])) < AGREES;
    const box = make("section", `step-check ${fine ? "fine" : "off"}`);
    box.append(make("h3", "", say(fine ? "steps.check.fine" : "steps.check.off")), make("p", "step-story", say("steps.check.story")));
    const list = make("dl", "check-list");
    const line = (name, value) => list.append(make("dt", "", name), make("dd", "", number(value)));
    parts.forEach((name) => line(say(`steps.check.${name}`), check[name]));
    line(say("steps.check.page"), own);
    box.append(list);
    return box;
  };

  const groupNode = ({title, branch, kind, steps}, count) => {
    const group = make("section", `walk-group${branch ? " branch" : ""}`);
    group.append(make("h2", `walk-title${kind ? " of-kind" : ""}`, title));
    if (branch) group.append(make("p", "branch-note", say("steps.branch")));
    steps.forEach((node, at) => {
      node.id = `step-${count + at}`;
      node.querySelector("h3").prepend(make("span", "step-number", String(count + at)));
      group.append(node);
    });
    return group;
  };

  atlas.stepsView = (element) => {
    const root = element.querySelector(".walk-root");
    const walk = element.querySelector(".walk");
    const side = element.querySelector(".walk-nav");
    atlas.applyText(element);

    const contents = (groups) => {
      const here = make("p", "walk-here", say("steps.here", {layer: payload.layer, head: payload.head, position: payload.position}));
      let count = 1;
      side.replaceChildren(here, ...groups.map(({title, branch, steps}) => {
        const list = make("ol", branch ? "branch" : "");
        list.append(...steps.map((node) => {
          const item = make("li");
          const link = make("button", "plain", node.querySelector("h3").textContent.replace(/^\d+/, ""));
          link.type = "button";
          link.dataset.to = `step-${count}`;
          link.prepend(make("span", "step-number", String(count++)));
          link.addEventListener("click", () => {
            const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
            node.scrollIntoView({block: "start", behavior: calm ? "auto" : "smooth"});
            const head = node.querySelector("h3");
            head.tabIndex = -1;
            head.focus({preventScroll: true});
          });
          item.append(link);
          return item;
        }));
        const part = make("div");
        part.append(make("p", "walk-part", title), list);
        return part;
      }));
    };
    /* The step that is being read is the one marked in the contents. */
    const seen = new IntersectionObserver((entries) => entries.forEach(({target, isIntersecting}) => {
      if (!isIntersecting) return;
      side.querySelectorAll("[aria-current]").forEach((link) => link.removeAttribute("aria-current"));
      side.querySelector(`[data-to="${target.id}"]`)?.setAttribute("aria-current", "step");
    }), {rootMargin: "-20% 0px -70% 0px"});

    const show = () => {
      atlas.steps.forgetStrips(walk);
      seen.disconnect();
      if (!payload) return walk.replaceChildren();
      root.dataset.kind = payload.kind;
      const {context, groups} = atlas.steps.walk(payload, askCell, questions);
      let count = 1;
      const nodes = groups.map((group) => {
        const node = groupNode(group, count);
        count += group.steps.length;
        return node;
      });
      contents(groups);
      const hint = make("p", "walk-hint", say("steps.hint"));
      hint.append(" ", make("span", "shallow", say("steps.hint.story")), make("span", "deep", say("steps.hint.rounded")));
      walk.replaceChildren(...(payload.after ? [atlas.steps.comparison(context)] : []), hint, ...nodes, checkLine());
      walk.querySelectorAll(".step").forEach((node) => seen.observe(node));
      cover();
      walk.dataset.shown = String(Number(walk.dataset.shown ?? 0) + 1);
    };
    const depthNow = () => (root.dataset.depth = state.steps.depth);
    listeners.add(show);
    onChange(["lang"], show);
    let guessing = state.steps.guess;
    onChange(["steps"], () => {
      depthNow();
      if (guessing === state.steps.guess) return;
      guessing = state.steps.guess;
      questions.clear();
      show();
    });
    depthNow();
    show();
    showState();
  };

  onChange(["lang", "tab", "kind", "layer", "head", "steps"], ask);
  atlas.maps.onMaps(ask);
  atlas.onResult(ask);
  atlas.focus.onFocus(() => state.steps.wish === null && ready() && rowNow() !== state.steps.row && ask());

  Object.assign(atlas.steps, {
    DEPTHS, PARTS, change, rowNow, current: () => payload, hidesNext, onPayload: (listener) => listeners.add(listener),
    onQuestion: (listener) => questionListeners.add(listener),
  });
})();
