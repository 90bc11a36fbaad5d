/* The Heads tab: all heads of the three kinds on one sheet, laid out by layer and head or sorted by what they do, and the chosen one large.
 *
 * The order and the filters are kept in the store as `heads`; which head is chosen is the same choice as in Translate.
 */
(() => {
  const {state, set, onChange, say, make} = atlas;
  const {KINDS, nameOf, measured, number, roleOf, definitionOf, spokenOf, chosen} = atlas.headWords;
  const {order = "place", rising, kinds = [], roles = [], basis = "sentence"} = atlas.linked ?? {};
  state.heads = {order, down: !rising, kinds, roles, basis};
  /* What the page's address asks for and is not there is left out, and the visitor is told (link.js). */
  const check = (ROLES, MEASURES) => {
    const known = (name, all) => (value) => all.includes(value) || atlas.leftOut.add(name, value);
    const {order, kinds, roles} = state.heads;
    state.heads = {...state.heads, kinds: kinds.filter(known("kinds", KINDS)), roles: roles.filter(known("roles", ROLES))};
    if (!known("order", ["place", "role", ...MEASURES])(order)) state.heads.order = "place";
  };
  const change = (patch) => set({heads: {...state.heads, ...patch}});

  /* ---- where the groups of the three kinds stand: of some arrangements the one with the largest pictures that fit ---- */
  const GUTTER = 26; // px left of a group: names of layers
  const TOP = 46; // px above a group: its kind, names of heads
  const BETWEEN = 34;
  const LEAST = 14; // px of a head with its gap that a low window cannot go below: then the page scrolls
  const MOST = 60;
  const ARRANGEMENTS = [[[0], [1], [2]], [[0], [1, 2]], [[0, 1], [2]], [[0, 1, 2]]]; // columns of groups
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const arrange = (sizes, width, height, narrow) => {
    const options = (narrow ? ARRANGEMENTS.slice(3) : ARRANGEMENTS).map((columns) => {
      const heads = columns.map((column) => Math.max(...column.map((kind) => sizes[kind].heads)));
      const byWidth = (width - GUTTER * columns.length - BETWEEN * (columns.length - 1)) / sum(heads);
      const byHeight = columns.map((column) => (height - TOP * column.length) / sum(column.map((kind) => sizes[kind].layers)));
      return {columns, pitch: Math.floor(Math.min(byWidth, MOST, narrow ? MOST : Math.max(LEAST, Math.min(...byHeight))))};
    });
    return options.reduce((best, option) => (option.pitch > best.pitch ? option : best));
  };

  /* ---- sorted: as many captioned pictures to a line as fit ---- */
  const SIDES = [56, 48, 44, 40, 36, 32, 28];
  const LINE = 16; // px of a line of the caption
  const EDGE = 4; // px left of the first picture
  const flow = (count, width, height, nameWidth, lines) => {
    const options = SIDES.map((side) => {
      const pitch = [Math.max(side + 12, nameWidth), side + LINE * lines + (lines > 2 ? 14 : 18)];
      const columns = 1 + Math.max(0, Math.floor((width - EDGE - (side + pitch[0]) / 2) / pitch[0])); // the last caption leans out by half
      return {side, pitch, columns, fits: Math.ceil(count / columns) * pitch[1] <= height};
    });
    return options.find((option) => option.fits) || options.at(-1);
  };

  atlas.headsSheet = (element, props) => {
    const {roles: ROLES, measures: MEASURES} = props.value;
    check(ROLES, MEASURES);
    const find = (name) => element.querySelector(`[data-sheet="${name}"]`);
    const groups = find("groups");
    const order = find("order");
    atlas.applyText(element);

    /* ---- what there is, what passes the filters, in which order ---- */
    const profile = () => atlas.maps.current()?.profile ?? null;
    const basis = () => (state.heads.basis === "profile" && profile() ? "profile" : "sentence");
    const of = (cell) => measured(cell, basis());
    const all = () => KINDS.flatMap((kind) => atlas.laidOut(kind, atlas.maps.size(kind)));
    const inKinds = ({kind}) => !state.heads.kinds.length || state.heads.kinds.includes(kind);
    const inRoles = (cell) => !state.heads.roles.length || state.heads.roles.includes(of(cell).role);
    const passes = (cell) => inKinds(cell) && inRoles(cell);
    const valueOf = (cell) => (state.heads.order === "role" ? of(cell).score : of(cell).measures[state.heads.order] ?? null);
    /* Heads without a value come last in either direction; equal ones keep the order of kind, layer and head. */
    const sorted = (cells) => {
      const sign = state.heads.down ? -1 : 1;
      const rank = (cell) => (state.heads.order === "role" ? ROLES.indexOf(of(cell).role) : 0);
      return cells.map((cell) => ({cell, rank: rank(cell), value: valueOf(cell)}))
        .sort((a, b) => a.rank - b.rank || (a.value === null) - (b.value === null) || sign * (a.value - b.value))
        .map(({cell}) => cell);
    };

    /* ---- controls ---- */
    const showBasis = () => {
      const host = find("basis");
      const {sentences} = profile() || {};
      const why = sentences === undefined ? say("heads.basis.why") : undefined;
      atlas.choices(host, [
        {value: "sentence", label: say("heads.basis.sentence")},
        {value: "profile", label: why ? say("heads.basis.none") : say("heads.basis.profile", {count: sentences}), title: why},
      ], basis(), (value) => change({basis: value}));
      const input = host.querySelectorAll("input")[1];
      input.disabled = Boolean(why);
      host.children[1].toggleAttribute("data-off", Boolean(why));
      atlas.fill(find("why"), why ?? "");
    };
    const measureName = (name) => (name === "place" || name === "role" ? say(`heads.order.${name}`) : say("heads.order.measure", {measure: say(`measure.${name}`)}));
    const showOrder = () => {
      const names = ["place", "role", ...MEASURES];
      const shape = names.map(measureName).join("|");
      if (order.dataset.shape !== shape) order.replaceChildren(...names.map((name) => new Option(measureName(name), name)));
      order.dataset.shape = shape;
      order.value = state.heads.order;
      const direction = find("direction");
      direction.hidden = state.heads.order === "place";
      atlas.fill(direction, `${state.heads.down ? "↓" : "↑"} ${say(state.heads.down ? "heads.down" : "heads.up")}`);
    };
    /* Several of a facet can be on; none on is all. One that would leave nothing cannot be switched on. */
    const showFacet = (host, name, values, label, count) => {
      if (host.children.length !== values.length) {
        host.replaceChildren(...values.map((value) => {
          const button = make("button", `toggle-chip ${value}`);
          button.type = "button";
          button.value = value;
          button.append(make("span"), make("b"));
          button.addEventListener("click", () => {
            const on = state.heads[name];
            change({[name]: on.includes(value) ? on.filter((each) => each !== value) : [...on, value]});
          });
          return button;
        }));
      }
      [...host.children].forEach((button) => {
        const on = state.heads[name].includes(button.value);
        const number = count(button.value);
        atlas.fill(button.firstChild, label(button.value));
        atlas.fill(button.lastChild, String(number));
        button.setAttribute("aria-pressed", String(on));
        button.disabled = !number && !on;
      });
    };
    const showFacets = (cells) => {
      const [ofRoles, ofKinds] = [cells.filter(inRoles), cells.filter(inKinds)];
      showFacet(find("facet-kinds"), "kinds", KINDS, (kind) => say(`kind.${kind}.short`), (kind) => ofRoles.filter((cell) => cell.kind === kind).length);
      showFacet(find("facet-roles"), "roles", ROLES, (role) => say(`role.${role}`), (role) => ofKinds.filter((cell) => of(cell).role === role).length);
    };
    order.addEventListener("change", () => change({order: order.value, down: true}));
    find("direction").addEventListener("click", () => change({down: !state.heads.down}));
    find("clear").addEventListener("click", () => change({kinds: [], roles: []}));

    /* ---- words about the sheet ---- */
    const showStatus = (cells, shown) => {
      const {order: by, down} = state.heads;
      const count = say(shown.length === cells.length ? "heads.all" : "heads.some", {shown: shown.length, all: cells.length});
      const params = {count, order: measureName(by), direction: say(down ? "heads.down" : "heads.up")};
      atlas.fill(find("status"), say(by === "place" ? "heads.placed" : "heads.sorted", params));
      const missing = by === "place" ? 0 : shown.filter((cell) => valueOf(cell) === null).length;
      const parts = [
        shown.length ? "" : say("heads.none"),
        MEASURES.includes(by) ? say(`measure.${by}.help`) : "",
        missing ? say("heads.missing", {count: missing}) : "",
        basis() === "profile" ? say("heads.basis.note", {count: profile().sentences}) : "",
      ].filter(Boolean);
      about = cells.length ? parts.join(" ") || say("heads.hint") : say("heads.empty");
      find("clear").hidden = shown.length === cells.length;
    };
    /* In the same place: the head that is pointed at, or else what the order is. */
    let about = "";
    const tell = (cell) => {
      atlas.fill(find("name"), cell ? nameOf(cell) : "");
      atlas.fill(find("role"), cell ? `${say(`kind.${cell.kind}`)} · ${roleOf(cell, basis())}` : "");
      atlas.fill(find("help"), cell ? definitionOf(cell, basis()) : about);
    };

    /* ---- the pictures ---- */
    const makeGroup = () => {
      const box = make("div", "sheet-group");
      const title = make("h3");
      const room = make("div", "mosaic-room");
      const [names, grid] = [make("div"), make("div")];
      room.append(names, grid);
      box.append(title, room);
      return {box, title, names, grid, mosaic: atlas.mosaic(grid, {spoken: (cell) => spokenOf(cell, basis()), onPoint: tell})};
    };
    const parts = [...KINDS, "sorted"].map(makeGroup);
    const columns = [0, 1, 2].map(() => make("div", "sheet-column"));
    groups.append(...columns);
    const put = (host, children) => children.some((child, at) => host.children[at] !== child) || host.children.length !== children.length
      ? host.replaceChildren(...children) : undefined;

    const room = () => {
      const top = groups.getBoundingClientRect().top + window.scrollY;
      return [groups.clientWidth, Math.max(320, window.innerHeight - top - 20)];
    };
    const showPlaces = (width, height) => {
      const sizes = KINDS.map((kind) => atlas.maps.size(kind));
      const {columns: arranged, pitch} = arrange(sizes, width, height, width < 560);
      columns.forEach((column, at) => put(column, (arranged[at] || []).map((kind) => parts[kind].box)));
      KINDS.forEach((kind, at) => {
        const {title, names, grid, mosaic} = parts[at];
        const {layers, heads} = sizes[at];
        title.className = kind;
        title.textContent = say(`kind.${kind}`);
        grid.setAttribute("aria-label", say(`kind.${kind}`));
        names.replaceChildren(atlas.mosaicNames({layers, heads, pitch}));
        const cells = atlas.laidOut(kind, sizes[at]).map((cell) => ({...cell, faint: !passes(cell)}));
        mosaic.show({cells, side: pitch - (pitch >= 24 ? 4 : 2), pitch: [pitch, pitch]});
      });
    };
    const showSorted = (shown, width, height) => {
      const {title, grid, mosaic} = parts[3];
      put(columns[0], [parts[3].box]);
      columns.slice(1).forEach((column) => put(column, []));
      title.hidden = true;
      grid.setAttribute("aria-label", say("heads.label"));
      const byRole = state.heads.order === "role";
      const longest = Math.max(0, ...shown.map((cell) => nameOf(cell).length));
      const {side, pitch, columns: across} = flow(shown.length, width, height, Math.max(byRole ? 54 : 0, longest * 6.6 + 8), byRole ? 3 : 2);
      const cells = sorted(shown).map((cell, at) => ({
        ...cell, x: at % across, y: Math.floor(at / across),
        caption: [nameOf(cell), number(valueOf(cell)), ...(byRole ? [say(`role.${of(cell).role}.short`)] : [])],
      }));
      mosaic.show({cells, side, pitch, flow: true});
    };

    let drawn = "";
    const where = () => `${groups.clientWidth} ${window.innerHeight}`;
    const show = () => {
      const cells = all();
      const shown = cells.filter(passes);
      element.classList.toggle("empty", !cells.length);
      showBasis();
      showOrder();
      showFacets(cells);
      showStatus(cells, shown);
      tell(null);
      drawn = groups.clientWidth ? where() : "";
      if (!cells.length || !drawn) return;
      if (state.heads.order === "place") showPlaces(...room());
      else showSorted(shown, ...room());
    };

    /* ---- the chosen head ---- */
    const side = find("side");
    const said = side.appendChild(make("div", "head-said"));
    const [kind, name, role, help] = ["kind", "name", "role", "help"].map((part) => said.appendChild(make("p", `head-said-${part}`)));
    const open = side.appendChild(make("button", "plain"));
    const list = side.appendChild(make("dl", "head-measures"));
    atlas.headMap(side.appendChild(make("div", "head-map-room")));
    open.type = "button";
    open.dataset.t = "heads.show";
    open.addEventListener("click", () => document.querySelector("#tab-translate-button")?.click());
    atlas.applyText(side);
    const showChosen = () => {
      const empty = !atlas.maps.current() || state.layer === null;
      const words = chosen(basis());
      atlas.fill(kind, say(`kind.${state.kind}`));
      kind.className = `head-said-kind ${state.kind}`;
      [[name, words.name], [role, words.role], [help, words.help]].forEach(([node, text]) => atlas.fill(node, empty ? "" : text));
      const measures = (typeof state.head === "number" && measured(state, basis())?.measures) || {};
      list.style.visibility = typeof state.head === "number" ? "" : "hidden";
      list.replaceChildren(...MEASURES.flatMap((measure) => [make("dt", "", say(`measure.${measure}`)), make("dd", "", number(measures[measure]))]));
      [...list.querySelectorAll("dt")].forEach((node, at) => (node.title = say(`measure.${MEASURES[at]}.help`)));
    };

    const refresh = () => {
      show();
      showChosen();
    };
    onChange(["lang", "heads"], refresh);
    onChange(["kind", "layer", "head"], showChosen);
    atlas.maps.onMaps(refresh);
    const again = () => groups.clientWidth && drawn !== where() && show();
    new ResizeObserver(again).observe(groups);
    window.addEventListener("resize", atlas.debounce(60, again));
    refresh();
  };
})();
