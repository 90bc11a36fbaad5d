/* Links: what the visitor chose stands in the page's address, and opening that address restores it.
 *
 * Reading is done at once, before the other parts set their defaults: what the address asks for becomes `atlas.kept`, which they take over
 * (like what is kept over a reload). Every value is checked by itself; one that cannot be used is left out, the rest stays, and the
 * visitor is told. A link never does more than a visitor could: text goes into the text boxes, a model is asked for like any other.
 * Writing names only what differs from what the page would show by itself.
 */
(() => {
  const {state, onChange} = atlas;
  const MAX_TEXT = 5000; // characters; more than any model reads
  const MAX_STRANGE = 10; // names that are not ours and are told
  const MAX_QUERY = 6000; // bytes of address that servers and proxies take without complaint
  const NAMES = ["tab", "text", "model", "target", "beam", "given", "kind", "layer", "head", "rows", "units", "specials", "colour", "row", "column",
    ...["order", "rising", "kinds", "roles", "basis"], // of the Heads tab (heads.js, which knows the measures and roles there are)
    ...["step", "depth", "without", "guess"], // of Step by step (steps.js)
    ...["length", "pairs", "named", "axis", "distance", "p", "k"], // of Positions (position_table.js)
    ...["side", "places", "seed", "wordorder", "inorder"], // of Positions in the sentence (position_sentence.js, word_order.js)
    ...["config", "own", "block", "fold", "zoom"], // of Machine (machine.js)
    ...["second", "norm_layers"]]; // of the experiments there (machine_lab.js)

  /* ---- reading ---- */
  const one = (...allowed) => (value) => (allowed.includes(value) ? value : undefined);
  const number = (value) => (/^\d{1,4}$/.test(value) ? Number(value) : undefined);
  const text = (value) => (value.length <= MAX_TEXT ? value : undefined);
  const checks = {
    tab: (value) => (/^[a-z]{1,20}$/.test(value) ? value : undefined),
    text,
    model: (value) => (/^[^\s\p{C}]{1,300}$/u.test(value) ? value : undefined),
    target: (value) => (/^[\w@.+-]{1,40}$/.test(value) ? value : undefined),
    beam: (value) => one("1", "2", "4", "8")(value) && Number(value), // BEAM_SIZES of viz/runs.py
    given: text,
    kind: one("encoder_self", "decoder_self", "cross"),
    layer: number,
    head: (value) => number(value) ?? one("mean", "max", "rollout", "norm")(value),
    rows: one("predicted", "read"),
    units: one("pieces", "words"),
    specials: one("shown", "hidden"),
    colour: one("linear", "max", "log"),
    row: number,
    column: number,
    order: (value) => (/^[a-z_]{1,40}$/.test(value) ? value : undefined),
    rising: one("1"),
    kinds: (value) => (/^[a-z_,]{1,60}$/.test(value) ? value.split(",") : undefined),
    roles: (value) => (/^[a-z_,]{1,200}$/.test(value) ? value.split(",") : undefined),
    basis: one("profile"),
    length: number,
    pairs: (value) => (/^\d{1,4}(,\d{1,4}){0,5}$/.test(value) ? value.split(",").map(Number) : undefined),
    named: one("1"),
    axis: one("log"),
    distance: number,
    p: number,
    k: number,
    side: one("read"),
    places: (value) => (/^\d{1,3},\d{1,3}$/.test(value) ? value.split(",").map(Number) : undefined),
    seed: number,
    inorder: one("1"),
    wordorder: (value) => (/^\d{1,2}(,\d{1,2}){1,63}$/.test(value) ? value.split(",").map(Number) : undefined),
    step: number,
    depth: one("numbers", "formula"),
    without: one("score_scale", "embedding_scale", "causal_mask", "positions"),
    guess: one("1"),
    config: one("base", "big", "own"),
    own: (value) => (/^(\d{1,7}\.){6}(post|pre)\.(all|none)$/.test(value) ? atlas.ownSizes(value) : undefined),
    block: (value) => (/^[a-z_]{1,20}(\.\d{1,3})?(\.[a-z_]{1,20})?$/.test(value) ? value : undefined),
    fold: one("one"),
    zoom: (value) => (number(value) >= 50 && number(value) <= 300 ? number(value) : undefined), // ZOOMS of machine.js
    second: (value) => (value.length <= 400 ? value : undefined), // MAX_SECOND of viz/panels/lab_values.py
    norm_layers: (value) => (number(value) >= 1 && number(value) <= 18 ? number(value) : undefined), // MAX_DEPTH of the gradients by norm
  };

  /* "512.8.6.6.2048.37000.post.all" as sizes of the Machine tab's form. */
  atlas.OWN = ["d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "d_ff", "vocab_size", "norm", "tied"];
  atlas.ownSizes = (value) => Object.fromEntries(value.split(".").map((part, at) => [atlas.OWN[at], at < 6 ? Number(part) : part]));

  /* What could not be used: [name, value, why()]; the share block says so (share.js). */
  const leftOut = [];
  const leftOutListeners = new Set();
  const refuse = (name, value, why = () => "") => {
    leftOut.push([name, value, why]);
    leftOutListeners.forEach((listener) => listener());
  };
  const all = () => leftOut.map(([name, value]) => [name, value]);
  const reasons = () => leftOut.map(([, , why]) => why());
  atlas.leftOut = {all, reasons, onChange: (listener) => leftOutListeners.add(listener), clear: () => leftOut.splice(0), add: refuse};

  /* URLSearchParams would turn damaged escapes into other characters without a word; null stands for such a value. */
  const decode = (raw) => {
    try {
      return decodeURIComponent(raw.replace(/\+/g, " "));
    } catch {
      return null;
    }
  };
  const read = (search) => {
    const found = {};
    for (const pair of search.replace(/^\?/, "").split("&")) {
      const [, name, raw] = pair.match(/^([^=]*)=?(.*)$/s);
      if (!NAMES.includes(name) || Object.hasOwn(found, name) || (raw === "" && name !== "second")) continue;
      const value = decode(raw);
      const checked = value === null ? undefined : checks[name](value);
      if (checked === undefined) refuse(name, value ?? raw);
      else found[name] = checked;
    }
    return found;
  };
  const linked = read(location.search);
  const lang = new URLSearchParams(location.search).get("lang"); // taken over by page.js
  /* What is nothing of ours, and does not look as if a host or the place that the link was posted at had added it either. */
  const ADDED = /^(ref|referrer|source|via|from|embed|logs|view|theme|token|code|state|[a-z]*clid)$/;
  const isStrange = (name) => /^[a-z]{1,20}$/.test(name) && name !== "lang" && !NAMES.includes(name) && !ADDED.test(name);
  const strange = [...new Map(new URLSearchParams(location.search))].filter(([name, value]) => value && isStrange(name));
  if (lang && lang.toLowerCase().split("-")[0] !== state.lang) strange.push(["lang", lang]);
  strange.slice(-MAX_STRANGE).forEach(([name, value]) => refuse(name, value));

  const asKept = () => {
    const {text: sentence, beam: beam_size, tab, row, column, order, rising, kinds, roles, basis, step, depth, without, guess, ...rest} = linked;
    const forced = linked.given !== undefined;
    const other = linked.model !== undefined && linked.model !== "embedded";
    const runs = forced || other || [sentence, linked.target, beam_size].some((value) => value !== undefined);
    return {
      ...rest, forced, runs, waits: other, // another model's first run comes when it is there (models.js)
      ...(sentence === undefined ? {} : {sentence}),
      ...(beam_size === undefined ? {} : {beam_size}),
    };
  };
  /* What a reload kept is newer than the address. */
  atlas.linkedModel = atlas.kept ? undefined : linked.model;
  if (Object.keys(linked).length) atlas.kept = {...asKept(), ...atlas.kept};
  atlas.linked = linked;

  /* ---- what can be checked only when model and maps are there ---- */
  const box = (id) => document.querySelector(`#${id} textarea`);
  const isOurs = (result) => result && (linked.text === undefined || result.request.text === linked.text)
    && (linked.model === undefined || result.request.model === linked.model);
  let pin = linked.row === undefined && linked.column === undefined ? null : {row: linked.row ?? null, column: linked.column ?? null};
  let unchecked = true;
  const hasMaps = (result) => result && JSON.stringify(atlas.maps.current()?.request) === JSON.stringify(result.request);
  const checkRun = (result) => {
    if (!unchecked || !hasMaps(result) || (atlas.kept?.runs && result.badge === "recorded")) return;
    unchecked = false;
    if (!isOurs(result)) return (pin = null); // the visitor went on to something else
    if (linked.target !== undefined && result.request.target !== linked.target) refuse("target", linked.target);
    const {layers, heads} = atlas.maps.size(state.kind);
    const noLayer = linked.layer >= layers;
    const noHead = linked.head >= heads || (linked.head === "norm" && !atlas.maps.hasNorm(state.kind));
    if (noLayer) refuse("layer", linked.layer);
    if (noHead) refuse("head", linked.head);
    /* Until now the choice was kept inside another model's sizes, or opened on a head of the page's own (choice.js), which also stands in
     * for a layer that there is not. */
    const {layer, head, rows} = linked;
    const hasLayer = layer !== undefined && !noLayer;
    if (!hasLayer && (noLayer || noHead)) atlas.chooseOwn();
    const wanted = Object.entries({layer: hasLayer ? layer : undefined, head: noHead ? (hasLayer ? "mean" : undefined) : head, rows});
    atlas.set(Object.fromEntries(wanted.filter(([, value]) => value !== undefined)));
  };

  /* The pinned place, once the picture it belongs to is there. */
  const checkPin = () => {
    const view = pin && !unchecked && hasMaps(atlas.result()) ? atlas.maps.view() : null;
    if (!view) return;
    const {row, column} = pin;
    pin = null;
    const inside = (place, labels) => place === null || place < labels.length;
    if (!inside(row, view.rows)) refuse("row", row);
    if (!inside(column, view.columns)) refuse("column", column);
    if (inside(row, view.rows) && inside(column, view.columns)) atlas.focus.pin(row, column);
  };

  /* ---- tabs: Gradio's buttons are called tab-NAME-button ---- */
  const tabName = (button) => button.id.replace(/^tab-|-button$/g, "");
  const watchTabs = () => {
    const chosen = () => {
      const button = document.querySelector("#tabs [role=tab][aria-selected=true]");
      if (!button) return;
      const bar = button.parentElement; // scrolls where the tabs are wider than the window
      const {left, right} = button.getBoundingClientRect();
      const edge = bar.getBoundingClientRect();
      bar.scrollLeft += Math.max(0, right - edge.right + 16) - Math.max(0, edge.left - left + 16);
      atlas.set({tab: tabName(button)});
    };
    new MutationObserver(chosen).observe(document.querySelector("#tabs"), {subtree: true, attributeFilter: ["aria-selected"], childList: true});
    if (linked.tab === undefined) return chosen();
    const button = document.getElementById(`tab-${linked.tab}-button`);
    if (button?.getAttribute("role") === "tab") button.click();
    else refuse("tab", linked.tab);
    chosen();
  };

  /* ---- writing ---- */
  let usual = null; // the request that the page opens with
  let ready = false; // the boxes hold what the address asked for
  const pinned = () => pin ?? atlas.focus.pinned();
  const ofHeads = () => {
    const {order, down, kinds, roles, basis} = state.heads;
    return {
      order: order === "place" ? undefined : order,
      rising: down ? undefined : "1",
      kinds: kinds.join(",") || undefined,
      roles: roles.join(",") || undefined,
      basis: basis === "profile" ? basis : undefined,
    };
  };
  const ofSteps = () => {
    const {wish, depth, without, guess} = state.steps;
    return {step: wish ?? undefined, depth: depth === "story" ? undefined : depth, without: without || undefined, guess: guess ? "1" : undefined};
  };
  const ofMachine = () => {
    const {config, own, block, fold} = state.machine;
    const sizes = own && atlas.OWN.map((name) => own[name]);
    return {
      config: config === "loaded" ? undefined : config,
      own: config === "own" && sizes?.every((size) => size !== null) ? sizes.join(".") : undefined,
      block: block ?? undefined,
      fold: fold === "each" ? undefined : fold,
      zoom: state.machine_zoom === 1 ? undefined : 100 * state.machine_zoom,
    };
  };
  const ofLab = () => ({second: state.lab.own ?? undefined, norm_layers: state.lab.depth ?? undefined});
  const ofPositions = () => {
    const {position_sentence: {side, places}, word_order: {seed, order}} = state;
    return {
      ...atlas.positions.address(),
      side: side === "source" ? undefined : side,
      places: places?.join(",") ?? undefined,
      seed: seed === 1 ? undefined : seed,
      wordorder: order?.join(",") ?? undefined,
      inorder: state.words_in_order ? "1" : undefined,
    };
  };
  const values = () => {
    const sentence = atlas.sentence?.() ?? "";
    const given = state.forced ? atlas.given?.() ?? "" : "";
    const found = {
      tab: state.tab === "translate" ? undefined : state.tab,
      text: sentence.trim() && sentence !== usual?.text ? sentence : undefined,
      model: state.model === "embedded" ? undefined : state.model,
      target: state.target === atlas.model()?.target ? undefined : state.target,
      beam: state.beam_size === 4 ? undefined : state.beam_size,
      given: given.trim() ? given : undefined,
      kind: state.kind === "cross" ? undefined : state.kind,
      units: state.units === "pieces" ? undefined : state.units,
      specials: state.specials === "shown" ? undefined : state.specials,
      colour: state.colour === "linear" ? undefined : state.colour,
      ...pinned(),
      ...ofHeads(),
      ...ofPositions(),
      ...ofSteps(),
      ...ofMachine(),
      ...ofLab(),
    };
    /* Layer, head and names of rows go together: as the page chooses them by itself, or all told. */
    const {layer, head, rows} = atlas.opened();
    const own = state.layer === null || (state.kind === "cross" && state.layer === layer && state.head === head && state.rows === rows);
    const [usualRows = "predicted"] = own ? Object.keys(atlas.result()?.best_heads ?? {}) : [];
    if (!own) Object.assign(found, {layer: state.layer, head: state.head});
    if (state.rows !== usualRows) found.rows = state.rows;
    return found;
  };
  /* `others`: names in the address that are not ours and stay (such as what a host adds for itself). */
  const build = (others) => {
    const fill = (params, names, found) => {
      strange.forEach(([name, value]) => params.get(name) === value && params.delete(name));
      names.forEach((name) => params.delete(name));
      for (const name of names) if (found[name] !== undefined && found[name] !== null) params.set(name, found[name]);
      return params;
    };
    const found = values();
    const whole = fill(new URLSearchParams(others), NAMES, found);
    if (whole.toString().length <= MAX_QUERY) return {query: whole.toString(), complete: true};
    const short = {...found, text: undefined, given: undefined, second: undefined, row: undefined, column: undefined};
    return {query: fill(new URLSearchParams(others), NAMES, short).toString(), complete: false};
  };
  let writtenTab; // a tab is a place to come back to; every other choice changes the place where one is
  const write = () => {
    soon.cancel();
    if (!ready) return;
    const turned = writtenTab !== undefined && writtenTab !== state.tab;
    writtenTab = state.tab;
    const {query} = build(location.search);
    const next = `${location.pathname}${query ? `?${query}` : ""}${location.hash}`;
    if (next === `${location.pathname}${location.search}${location.hash}`) return;
    try {
      if (turned) history.pushState(null, "", next);
      else history.replaceState(history.state, "", next);
    } catch {} // a browser that takes no more of these for a while, or a file without an address
  };
  const soon = atlas.debounce(250, write);
  window.addEventListener("pagehide", write);
  /* Back and forward turn to the tab of then; what is shown there is what is chosen now. */
  window.addEventListener("popstate", () => {
    writtenTab = new URLSearchParams(location.search).get("tab") ?? "translate";
    document.getElementById(`tab-${writtenTab}-button`)?.click();
    soon();
  });

  /* The address to hand on: ours, with nothing that a host has added. complete: false if the text was too long for it. */
  atlas.link = () => {
    write();
    const here = new URLSearchParams(location.search);
    const own = ["lang", "__theme"].filter((name) => here.has(name)).map((name) => [name, here.get(name)]);
    const {query, complete} = build(own);
    return {url: `${location.origin}${location.pathname}${query ? `?${query}` : ""}`, complete};
  };

  /* ---- after all parts are there ---- */
  atlas.followLinks = () => {
    onChange(["tab"], write); // at once: two tabs in quick succession are two places to come back to
    onChange(["model", "target", "beam_size", "kind", "layer", "head", "rows", "units", "specials", "colour", "heads", "steps", "machine",
      "lab", "positions", "position_sentence", "word_order", "words_in_order", "machine_zoom"], soon);
    const check = () => {
      checkRun(atlas.result());
      checkPin();
    };
    let waits = Boolean(atlas.kept?.waits);
    atlas.onModel((again) => {
      if (waits && again !== null) {
        waits = false;
        atlas.complain?.(null);
      }
      soon();
    });
    atlas.onResult(() => {
      const result = atlas.result();
      if (result?.badge === "recorded") usual = result.request;
      check();
      soon();
    });
    atlas.maps.onMaps(check);
    atlas.focus.onFocus(soon);
    atlas.onSettled(soon);
    atlas.whenPresent("#tabs [role=tab]", () => setTimeout(watchTabs));
    atlas.whenPresent("#given textarea", () => {
      box("sentence")?.addEventListener("input", soon);
      box("given")?.addEventListener("input", soon);
      setTimeout(() => setTimeout(() => { // after translate.js has filled the boxes
        ready = true;
        writtenTab = state.tab;
        if (leftOut.length && !waits) soon(); // the address no longer asks for what there is not
        if (waits) atlas.complain?.({code: "link_model", params: {model: linked.model ?? state.model}});
      }));
    });
  };
})();
