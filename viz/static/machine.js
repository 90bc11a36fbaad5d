/* The Machine tab, part 5: what is chosen, when the server is asked, and how one moves about the picture.
 *
 * Asked only while the tab is open, and again when model, sentence or configuration change. Until the answer is there the old picture
 * stays, greyed if it belongs to another sentence or model. Which block is open, the configuration and the form stand in the address.
 */
(() => {
  const {state, set, onChange, say, machine} = atlas;
  const {svg, number, operations, parse} = machine;
  const CONFIGS = ["loaded", "base", "big", "own"];
  const ZOOMS = [0.5, 0.75, 1, 1.25, 1.5, 2, 3];
  const STILL = matchMedia("(prefers-reduced-motion: reduce)");

  /* `typed`: what stands in the form; `own`: the last of it that could be, which is all that the address is told. */
  const near = (wanted) => ZOOMS.reduce((best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best));
  state.machine_zoom = near((atlas.linked?.zoom ?? 100) / 100);
  const CHOICES = ["config", "typed", "block", "fold"];
  state.machine = {config: "loaded", own: null, typed: atlas.kept?.own ?? null, block: null, fold: "each"};
  CHOICES.forEach((name) => name in (atlas.kept || {}) && (state.machine[name] = atlas.kept[name]));
  atlas.keep(() => Object.fromEntries(CHOICES.map((name) => [name, state.machine[name]])));
  const change = (patch) => set({machine: {...state.machine, ...patch}});

  /* ---- asking ---- */
  const lengths = () => {
    const result = atlas.result();
    return result?.request.model === state.model ? [result.num_tokens.source, result.num_tokens.target] : null;
  };
  const sameOwn = (one, other) => (one && other ? atlas.OWN.every((name) => one[name] === other[name]) : !one && !other);
  const same = (one, other) => Boolean(one && other) && one.model === other.model && one.config === other.config
    && sameOwn(one.own, other.own) && String(one.lengths) === String(other.lengths);
  const wanted = () => {
    const {config, own, typed} = state.machine;
    return {model: state.model, config, own: config === "own" ? typed : own, lengths: lengths()};
  };
  let value = null;
  let refused = null; // why the sizes in the form cannot be
  let asked = null;
  const ask = () => {
    if (state.tab !== "machine" || !atlas.model() || same(wanted(), asked)) return;
    asked = wanted();
    atlas.begin("machine");
  };
  let show = () => {};
  machine.value = (props, watch) => {
    const take = () => {
      if (!props.value) return;
      const next = JSON.parse(props.value);
      ({refused} = next);
      if (!refused || !value) value = next; // refused: what is there stays, and is greyed
      const {typed, own, config} = state.machine;
      if (!refused && config === "own" && next.asked.config === "own" && sameOwn(typed, next.asked.own) && !sameOwn(typed, own)) {
        change({own: typed});
      }
      show();
    };
    watch("value", take);
    take();
  };

  machine.view = (element, props) => {
    const find = (name) => element.querySelector(`[data-machine="${name}"]`);
    const whole = element.querySelector(".machine");
    const frame = find("frame");
    const root = svg("svg", {role: "group", class: "m-picture"});
    frame.append(root);
    const form = machine.form(find("own"), props.value.limits, (typed) => change({typed}));
    let open = null; // which layers of a stack are open
    let drawn = {blocks: []};
    let seen = false; // drawn once where it can be seen

    /* ---- which block ---- */
    const isReal = () => {
      const maps = atlas.maps.current();
      if (value?.picture.config !== "loaded" || maps?.request.model !== value.asked.model) return false;
      const {encoder, decoder} = value.picture.sizes;
      return Object.entries({encoder_self: encoder, decoder_self: decoder, cross: decoder})
        .every(([kind, {layers, heads}]) => maps.kinds[kind].layers === layers && maps.kinds[kind].heads === heads);
    };
    const PLACE = {encoder_self: ["encoder", "self_attn"], decoder_self: ["decoder", "self_attn"], cross: ["decoder", "cross_attn"]};
    const chosenBlock = () => {
      const [stack, part] = PLACE[state.kind];
      return `${stack}.${state.layer ?? 0}.${part}`;
    };
    const exists = (id) => {
      const {stack, layer, place, part} = parse(id);
      if (layer !== null) return layer < value.picture.sizes[stack]?.layers && (!part || Object.hasOwn(value.picture.places, place));
      return Object.hasOwn(value.picture.places, id) || ["memory", "softmax", "encoder.positions", "decoder.positions"].includes(id);
    };
    /* A block of an address that this picture has not: said once, and forgotten. Another configuration may have had one that was clicked. */
    let linked = state.machine.block;
    const checkBlock = () => {
      const {block} = state.machine;
      if (!block || exists(block) || refused) return;
      if (block === linked) atlas.leftOut.add("block", block);
      linked = null;
      change({block: null});
    };
    const blockNow = () => [state.machine.block, chosenBlock(), "decoder.0.cross_attn"].find((id) => id && exists(id));
    const reveal = (id) => {
      const {stack, layer, part} = parse(id);
      if (layer === null || !part || open[stack].includes(layer)) return;
      open[stack] = machine.foldedAll(state.machine, value.picture.sizes[stack].layers) ? [layer] : [...open[stack], layer];
    };
    const fitOpen = () => {
      const {stack, layer} = parse(chosenBlock());
      open ??= {encoder: stack === "encoder" ? [layer] : [0], decoder: stack === "decoder" ? [layer] : [0]};
      for (const name of ["encoder", "decoder"]) {
        const {layers} = value.picture.sizes[name];
        open[name] = open[name].filter((each) => each < layers);
        if (!open[name].length && machine.foldedAll(state.machine, layers)) open[name] = [0];
      }
    };

    /* ---- drawing ---- */
    const AXES = {source: ["encoder_self", "rows"], read: ["decoder_self", "columns"], predicted: ["cross", "rows"]};
    const labelsOf = (side) => {
      const [kind, axis] = AXES[side];
      return atlas.maps.axes({kind, rows: "predicted"})[axis].map((label) => label.text);
    };
    const tokens = () => {
      const maps = atlas.maps.current();
      if (!maps || !value.asked.lengths || maps.request.model !== value.asked.model) return null;
      const labels = Object.fromEntries(["source", "read", "predicted"].map((side) => [side, labelsOf(side)]));
      // Shapes of another sentence stay while one's own sizes are refused: then they are nobody's tokens.
      return String([labels.source.length, labels.read.length]) === String(value.asked.lengths) ? labels : null;
    };
    const draw = () => {
      fitOpen();
      const block = blockNow();
      const focused = document.activeElement?.closest?.(".m-block")?.dataset.id;
      const view = {
        fold: state.machine.fold, open, block, tokens: tokens(), real: isReal(),
        chosen: {kind: state.kind, layer: state.layer, head: state.head},
      };
      drawn = machine.draw(value, view);
      root.setAttribute("viewBox", `-2 0 ${drawn.width + 4} ${drawn.height}`);
      root.setAttribute("aria-label", say("machine.label"));
      root.replaceChildren(drawn.node);
      size();
      const stop = drawn.blocks.find(({id}) => id === (focused ?? block)) ?? drawn.blocks.find(({id}) => id === block) ?? drawn.blocks[0];
      stop.node.setAttribute("tabindex", 0);
      if (!seen && state.machine.block) { // the block that the address names, brought into a narrow frame
        const chosen = drawn.blocks.find(({id}) => id === block);
        if (chosen) frame.scrollLeft = state.machine_zoom * (chosen.x + chosen.w / 2) - frame.clientWidth / 2;
      }
      seen = frame.clientWidth > 0;
      if (focused) stop.node.focus({preventScroll: true});
    };
    const size = () => {
      const zoom = state.machine_zoom;
      root.style.width = `${(drawn.width + 4) * zoom}px`;
      find("scale").textContent = atlas.percent(zoom);
      find("in").disabled = zoom === ZOOMS.at(-1);
      find("out").disabled = zoom === ZOOMS[0];
    };
    /* Made anew at every change; who stood on one of its buttons stands there again. */
    const drawInside = () => {
      const host = find("inside");
      const buttons = () => [...host.querySelectorAll("button")];
      const at = buttons().indexOf(document.activeElement);
      const {head, layer: ofLayer} = document.activeElement?.closest?.(".m-head-button")?.dataset ?? {};
      const before = host.dataset.block;
      machine.inside(host, blockNow(), value, {
        real: isReal(),
        chosen: {kind: state.kind, layer: state.layer, head: state.head},
        onHead: (kind, layer, head) => set({kind, layer, head}),
        onJump: jump,
      });
      if (host.dataset.block !== before) host.scrollTop = 0;
      if (head !== undefined) host.querySelector(`.m-head-button[data-layer="${ofLayer}"][data-head="${head}"]`)?.focus({preventScroll: true});
      else if (at >= 0 && host.dataset.block === before) buttons()[at]?.focus({preventScroll: true});
    };
    /* To another screen, with this layer chosen there. The head stays if it is one of this layer's, else it is the first. */
    const jump = (tab, kind, layer) => {
      if (kind) {
        const wanted = layer ?? Math.min(state.layer ?? 0, atlas.maps.size(kind).layers - 1);
        const stays = kind === state.kind && wanted === state.layer;
        set({kind, layer: wanted, head: stays ? state.head : 0});
      }
      document.getElementById(`tab-${tab}-button`)?.click();
    };
    const status = () => {
      const {picture, asked: of} = value;
      atlas.fill(find("total"), say("machine.parameters", {count: number(picture.total)}));
      const [source, target] = of.lengths ?? [];
      const counts = of.lengths
        ? say("machine.status", {source, target, count: operations(picture.operations)}) : say("machine.status.none");
      const instead = picture.config === of.config ? "" : say("machine.instead");
      const own = picture.config === "own";
      const names = own ? value.same.map((name) => say(`machine.config.${name}`)).join(say("words.and")) : "";
      const same = names && say("machine.same", {configs: names});
      const even = own && value.uneven ? say("machine.even") : "";
      atlas.fill(find("status"), [instead, same, even, counts].filter(Boolean).join(" "));
    };
    const controls = () => {
      const none = value && !value.facts;
      const named = (group, names) => names.map((name) => (
        {value: name, label: say(`${group}.${name}`), title: say(`${group}.${name}.help`)}));
      const shown = none && state.machine.config === "loaded" ? "base" : state.machine.config;
      atlas.choices(find("configs"), named("machine.config", CONFIGS), shown, (config) => change({config}));
      const off = find("configs").querySelector("input");
      off.disabled = Boolean(none);
      off.parentNode.toggleAttribute("data-off", Boolean(none));
      atlas.choices(find("fold"), named("machine.fold", ["each", "one"]), state.machine.fold, (fold) => change({fold}));
      find("own").hidden = state.machine.config !== "own";
      if (value) form.show(state.machine.typed ?? value.own);
      const isRefused = Boolean(refused) && state.machine.config === "own";
      atlas.fill(find("refused"), isRefused ? machine.refusal(refused) : "");
      whole.classList.toggle("refused", isRefused);
      whole.classList.toggle("stale", Boolean(value) && !same(wanted(), value.asked));
    };
    show = () => {
      controls();
      whole.classList.toggle("empty", !value);
      if (!value) return;
      if (same(wanted(), value.asked)) checkBlock();
      status();
      draw();
      drawInside();
      machine.facts(find("facts"), value);
      machine.compare(find("compare"), value);
    };
    const redraw = () => {
      if (state.tab !== "machine" || !value) return;
      draw();
      drawInside();
    };

    /* ---- a block is opened, a layer folded or unfolded ---- */
    const openBlock = (id, focusInside) => {
      const {stack, layer, part} = parse(id);
      if (layer !== null && !part && !machine.foldedAll(state.machine, value.picture.sizes[stack].layers)) {
        open[stack] = open[stack].includes(layer) ? open[stack].filter((each) => each !== layer) : [...open[stack], layer];
      }
      reveal(id);
      if (state.machine.block === id) redraw();
      else change({block: id});
      const inside = find("inside");
      if (focusInside && part) inside.querySelector("h3")?.focus({preventScroll: true});
      const below = inside.getBoundingClientRect().top > frame.getBoundingClientRect().bottom - 1;
      if (!part || !(below || focusInside)) return;
      inside.scrollIntoView({behavior: STILL.matches ? "auto" : "smooth", block: below ? "start" : "nearest"});
    };
    const step = (node) => {
      if (node.getAttribute("aria-disabled") === "true") return;
      const stack = node.dataset.id.split(".")[0];
      open[stack] = [Number(node.dataset.to)];
      redraw();
    };
    const press = (target, focusInside) => {
      const head = target.closest("[data-head-kind]");
      const node = target.closest(".m-block");
      if (head) {
        const {headKind: kind, layer, head: index} = head.dataset;
        const [stack, part] = PLACE[kind];
        reveal(`${stack}.${layer}.${part}`);
        change({block: null}); // the block of the chosen head, from now on
        set({kind, layer: Number(layer), head: Number(index)});
        redraw();
      } else if (node?.classList.contains("m-step")) step(node);
      else if (node) openBlock(node.dataset.id, focusInside);
    };
    root.addEventListener("click", (event) => press(event.target, false));

    /* ---- by keyboard: up and down a column, left and right to the other, Enter opens, Escape comes back ---- */
    const distance = (one, other) => Math.abs(one.y + one.h / 2 - other.y - other.h / 2);
    const near = (from, column) => drawn.blocks.filter((each) => each.column === column)
      .reduce((best, each) => (distance(each, from) < distance(best, from) ? each : best));
    const moves = {
      ArrowDown: (from, own, at) => own[at + 1],
      ArrowUp: (from, own, at) => own[at - 1],
      ArrowRight: (from) => (from.column === "encoder" ? near(from, "decoder") : null),
      ArrowLeft: (from) => (from.column === "decoder" ? near(from, "encoder") : null),
      Home: (from, own) => own[0],
      End: (from, own) => own.at(-1),
    };
    const focusOn = ({node}) => {
      root.querySelectorAll("[tabindex='0']").forEach((each) => each.setAttribute("tabindex", -1));
      node.setAttribute("tabindex", 0);
      node.focus({preventScroll: true});
      node.scrollIntoView({block: "nearest", inline: "nearest"});
    };
    root.addEventListener("keydown", (event) => {
      const from = drawn.blocks.find(({node}) => node === event.target);
      if (!from || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        press(event.target, event.key === "Enter");
      } else if (moves[event.key]) {
        event.preventDefault();
        const own = drawn.blocks.filter(({column}) => column === from.column);
        const next = moves[event.key](from, own, own.indexOf(from));
        if (next) focusOn(next);
      } else if (event.key === "+" || event.key === "-") zoomBy(event.key === "+" ? 1 : -1);
    });
    /* From head to head; Enter chooses. */
    const ALONG = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
    find("inside").addEventListener("keydown", (event) => {
      const heads = [...find("inside").querySelectorAll(".m-head-button")];
      const at = heads.indexOf(event.target);
      if (at >= 0 && event.key in ALONG) {
        event.preventDefault();
        heads[(at + ALONG[event.key] + heads.length) % heads.length].focus();
      }
      if (event.key !== "Escape") return;
      const back = drawn.blocks.find(({id}) => id === blockNow());
      if (back) focusOn(back);
    });

    /* ---- zoom: what stood in the middle of the frame stays there ---- */
    const zoomBy = (by) => {
      const zoom = state.machine_zoom;
      const next = ZOOMS[Math.max(0, Math.min(ZOOMS.length - 1, ZOOMS.indexOf(zoom) + by))];
      const middle = frame.scrollLeft + frame.clientWidth / 2;
      const factor = next / zoom;
      set({machine_zoom: next});
      size();
      frame.scrollLeft = middle * factor - frame.clientWidth / 2;
    };
    find("in").addEventListener("click", () => zoomBy(1));
    find("out").addEventListener("click", () => zoomBy(-1));
    frame.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoomBy(event.deltaY < 0 ? 1 : -1);
    }, {passive: false});

    /* ---- who wants to know ---- */
    const follow = () => {
      controls();
      ask();
    };
    onChange(["tab"], () => (state.tab === "machine" ? (value && show(), follow()) : null));
    onChange(["model"], follow);
    onChange(["lang"], show);
    onChange(["machine"], () => {
      follow();
      redraw();
    });
    onChange(["kind", "layer", "head"], redraw);
    atlas.maps.onMaps(redraw);
    atlas.onResult(follow);
    atlas.onModel(() => {
      asked = null; // a model that was fetched back has answered nothing yet
      follow();
    });
    /* No answer came: asked for again when the visitor comes back, or changes something. */
    atlas.onSettled(() => atlas.isUnanswered() && !same(wanted(), value?.asked) && (asked = null));
    atlas.applyText(element);
    show();
    follow();
  };
})();
