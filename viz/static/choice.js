/* Which map: kind, layer, head, names of rows, units, special tokens and colour; the controls for them, and the words around the map. */
(() => {
  const {state, set, onChange, say} = atlas;
  const KINDS = ["encoder_self", "decoder_self", "cross"];
  const CHOICES = ["kind", "layer", "head", "rows", "units", "specials", "colour"];
  const TOGETHER = ["mean", "max", "rollout", "norm"]; // of all heads of a layer

  Object.assign(state, {kind: "cross", layer: null, head: "mean", rows: "predicted", units: "pieces", specials: "shown", colour: "linear"});
  CHOICES.forEach((name) => name in (atlas.kept || {}) && (state[name] = atlas.kept[name]));
  atlas.keep(() => Object.fromEntries(CHOICES.map((name) => [name, state[name]])));

  /* Where the maps on the page come from, once both they and the result of the same run are here. */
  const origin = () => {
    const maps = atlas.maps.current();
    const result = atlas.result();
    return maps && result && JSON.stringify(maps.request) === JSON.stringify(result.request) ? result : null;
  };
  /* [layer, head] of the cross-attention head that aligns best with rows named as they are now, or undefined. */
  const bestHead = () => (state.kind === "cross" ? atlas.result()?.best_heads?.[state.rows] : undefined);
  const isBest = (layer, head) => String(bestHead()) === `${layer},${head}`;
  let opened = atlas.kept?.opened ?? {}; // what the page chose by itself, and for which model
  atlas.opened = () => opened;
  atlas.keep(() => ({opened}));

  /* Encoder and decoder may have different numbers of layers and heads: keep the choice inside what this kind has
   * (MapChoice.fitted does the same in Python). */
  const fit = () => {
    const result = origin();
    if (!result) return;
    const {layers, heads} = atlas.maps.size(state.kind);
    const patch = {};
    /* Until somebody chooses, the page shows the head that aligns best, if that was measured, with the rows named as it does so
     * (MapChoice.first does the same), of another model its own. */
    const {layer, head, rows} = state;
    const untouched = layer === opened.layer && head === opened.head && rows === opened.rows;
    if (layer === null || (untouched && result.request.model !== opened.model)) {
      const [best = "predicted"] = Object.keys(result.best_heads || {});
      if (state.kind === "cross") patch.rows = layer === null && rows !== "predicted" ? rows : best;
      [patch.layer, patch.head] = (patch.rows && result.best_heads?.[patch.rows]) || [layers - 1, "mean"];
      opened = {rows, ...patch, model: result.request.model};
    } else {
      if (layer >= layers) patch.layer = layers - 1;
      if (typeof head === "number" && head >= heads) patch.head = heads - 1;
      if (head === "norm" && !atlas.maps.hasNorm(state.kind)) patch.head = "mean"; // not measured in this run
    }
    set(patch);
  };
  /* As if nobody had chosen a layer and a head. */
  atlas.chooseOwn = () => {
    state.layer = null;
    fit();
  };
  onChange(["kind", "head"], fit);
  atlas.maps.onMaps(fit);
  atlas.onResult(fit);

  /* ---- the controls ---- */
  const range = (count) => Array.from({length: count}, (_, i) => i);
  const simple = (group, values) => values.map((value) => ({
    value, label: say(`${group}.${value}`), title: atlas.has(`${group}.${value}.help`) ? say(`${group}.${value}.help`) : undefined,
  }));
  const HOSTS = {kinds: "kind", layers: "layer", heads: "head", rows: "rows", units: "units", specials: "specials", colours: "colour"};
  const offers = {
    kind: () => KINDS.map((value) => ({
      value, label: say(`kind.${value}.short`), spoken: say(`kind.${value}`), title: say(`kind.${value}.help`), className: value,
    })),
    layer: () => range(atlas.maps.size(state.kind).layers)
      .map((value) => ({value, label: String(value), spoken: `${say("layer.label")} ${value}`})),
    head: () => [
      ...TOGETHER.filter((value) => value !== "norm" || atlas.maps.hasNorm(state.kind))
        .map((value) => ({value, label: say(`head.${value}`), title: say(`head.${value}.help`)})),
      ...range(atlas.maps.size(state.kind).heads).map((value) => ({
        value,
        label: String(value),
        spoken: `${say("head.label")} ${value}${isBest(state.layer, value) ? `, ${say("head.best")}` : ""}`,
        title: isBest(state.layer, value) ? say("head.best.help") : undefined,
      })),
    ],
    rows: () => simple("rows", ["predicted", "read"]),
    units: () => simple("units", ["pieces", "words"]),
    specials: () => simple("specials", ["shown", "hidden"]),
    colour: () => simple("colour", ["linear", "max", "log"]),
  };
  atlas.mapControls = (element) => {
    const show = () => {
      element.dataset.kind = state.kind;
      Object.entries(HOSTS).forEach(([attribute, name]) => {
        const host = element.querySelector(`[data-${attribute}]`);
        if (!host) return;
        atlas.choices(host, offers[name](), state[name], (value) => set({[name]: value}));
        /* Encoder rows read and predict nothing: the choice is greyed out, not hidden, so that nothing moves. */
        if (name !== "rows") return;
        const off = state.kind === "encoder_self";
        host.parentNode.toggleAttribute("data-off", off);
        host.querySelectorAll("input").forEach((input) => (input.disabled = off));
      });
      const share = element.querySelector("[data-hidden-share]");
      const view = share && state.specials === "hidden" && atlas.maps.view();
      if (share) atlas.fill(share, view ? say("specials.share", {share: atlas.percent(view.hidden, view.hidden < 0.1 ? 1 : 0)}) : "");
    };
    onChange(["lang", ...CHOICES], show);
    atlas.maps.onMaps(show);
    atlas.onResult(show);
    atlas.applyText(element);
    show();
  };

  /* ---- the words around the map ---- */
  const words = {
    heading: () => {
      const form = typeof state.head === "number" ? "head" : state.head;
      const {heads: count} = atlas.maps.size(state.kind);
      const owner = atlas.belongs();
      return say(`map.heading.${form}`, {kind: say(`kind.${state.kind}`), layer: state.layer, head: state.head, count})
        + (isBest(state.layer, state.head) ? ` · ${say(`head.best.${state.rows}`)}` : "") + (owner ? ` · ${owner}` : "");
    },
    caption: () => {
      const key = state.kind === "cross" ? `caption.cross.${state.rows}` : `caption.${state.kind}`;
      return say(key) + (atlas.has(`caption.${state.head}`) ? ` ${say(`caption.${state.head}`)}` : "");
    },
    paragraph: () => say(`more.${["rollout", "norm"].includes(state.head) ? state.head : state.kind}`),
  };
  atlas.mapWords = (element) => {
    const show = () => {
      element.dataset.kind = state.kind;
      const there = atlas.maps.current() && atlas.result();
      element.querySelectorAll("[data-part]").forEach((node) => atlas.fill(node, there ? words[node.dataset.part]() : ""));
      element.querySelectorAll("[data-mask]").forEach((node) => (node.hidden = state.kind !== "decoder_self"));
      element.querySelectorAll("[data-plain]").forEach((node) => (node.hidden = ["rollout", "norm"].includes(state.head)));
      element.querySelectorAll("[data-for]").forEach((node) => (node.hidden = node.dataset.for !== state.head));
    };
    onChange(["lang", ...CHOICES], show);
    atlas.maps.onMaps(show);
    atlas.onResult(show);
    atlas.onMark(show);
    atlas.applyText(element);
    show();
  };
})();
