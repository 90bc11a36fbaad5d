/* The words of the sentence in another order, with positions and without: moved by a seed, by keys, by clicks or by dragging.
 *
 * The order is kept in the store as `word_order`: {seed, order}; order null is what the seed gives. Python reads and translates both orders
 * with both models; here the four are laid out, and their words put back in order if that is wanted.
 */
(() => {
  const {state, set, onChange, say, make} = atlas;
  const {same, follow, caption, settled} = atlas.positionParts;
  const [MAX_SEED, FAR] = [9999, 6]; // FAR: px that a finger or mouse moves before it drags
  const ORDERS = ["original", "shuffled"];
  const SWITCHES = ["on", "off"];
  state.word_order = {seed: atlas.linked?.seed ?? 1, order: atlas.linked?.wordorder ?? null};
  state.words_in_order = atlas.linked?.inorder === "1"; // those of the maps, put back
  const change = (patch) => set({word_order: {...state.word_order, ...patch}});
  const words = () => atlas.maps.axes({kind: "encoder_self", units: "words", specials: "shown"})?.rows ?? [];
  const pieces = () => atlas.maps.axes({kind: "encoder_self", units: "pieces", specials: "shown"})?.rows ?? [];
  /* 0.0000001 as 1.2·10⁻⁷; what can be read is left as it is. */
  const small = (value) => (value >= 0.001 ? value.toFixed(3) : atlas.positions.tiny(value));

  /* ---- the row of words that can be moved ---- */
  const wordRow = (row, onOrder) => {
    const said = row.parentNode.insertBefore(make("p", "only-spoken"), row.nextSibling);
    said.setAttribute("aria-live", "polite");
    let order = [];
    let held = null; // the word that is being moved
    let drag = null; // {word, x, y, moved}
    let dragged = false; // the click that ends a drag is none
    const enter = atlas.roving(row);
    const button = (word) => row.querySelector(`[data-word="${word}"]`);
    const special = (word) => words()[word]?.special;
    const show = () => {
      order.forEach((word, at) => row.children[at] === button(word) || row.insertBefore(button(word), row.children[at] ?? null));
      row.querySelectorAll("button").forEach((each) => {
        each.setAttribute("aria-pressed", String(Number(each.dataset.word) === held));
        each.querySelector("b").textContent = String(order.indexOf(Number(each.dataset.word)));
      });
      enter();
    };
    let ahead = false; // words were moved that nobody has been told of yet
    const soon = atlas.debounce(350, () => {
      ahead = false;
      onOrder(order);
    });
    const move = (word, to) => {
      if (word === null || special(word) || special(order[to]) || !(to in order) || order[to] === word) return;
      const focused = document.activeElement;
      order = order.filter((each) => each !== word);
      order.splice(to, 0, word);
      show();
      focused?.focus({preventScroll: true}); // moving a node takes the focus from it
      ahead = true;
      said.textContent = say("positions.order.moved", {word: words()[word].text, place: to, last: order.length - 1});
      soon();
    };
    const hold = (word) => {
      held = word;
      show();
    };
    const make_ = ({text, special: fixed}, word) => {
      const node = make(fixed ? "span" : "button", `word-chip${fixed ? " special" : ""}`, text);
      if (!fixed) node.type = "button";
      node.dir = "auto";
      node.dataset.word = word;
      node.append(make("b"));
      return node;
    };
    const wordOf = (node) => (node ? Number(node.dataset.word) : null);
    row.addEventListener("click", (event) => {
      const word = wordOf(event.target.closest("button"));
      if (dragged || word === null) return (dragged = false);
      if (held === null || held === word) return hold(held === null ? word : null);
      move(held, order.indexOf(word));
      hold(null);
    });
    row.addEventListener("keydown", (event) => {
      const word = wordOf(event.target.closest("button"));
      const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (event.key === "Escape" && held !== null) hold(null);
      else if (held !== null && held === word && step) move(word, order.indexOf(word) + step);
      else return;
      event.preventDefault();
    }, true);
    row.addEventListener("pointerdown", (event) => {
      dragged = false;
      const word = wordOf(event.target.closest("button"));
      if (word !== null && event.button === 0) drag = {word, x: event.clientX, y: event.clientY, moved: false};
    });
    addEventListener("pointermove", (event) => {
      if (!drag) return;
      drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > FAR;
      if (!drag.moved) return;
      button(drag.word).classList.add("dragged");
      const over = document.elementFromPoint(event.clientX, event.clientY)?.closest(".word-chip");
      if (over?.parentNode === row) move(drag.word, order.indexOf(wordOf(over)));
    });
    const drop = () => {
      if (!drag) return;
      button(drag.word)?.classList.remove("dragged");
      dragged = drag.moved;
      drag = null;
    };
    addEventListener("pointerup", drop);
    addEventListener("pointercancel", drop);
    return {
      release() {
        soon.cancel();
        ahead = false;
        hold(null);
      },
      /* The words of a sentence, in an order that came from Python. */
      put(next) {
        const labels = words();
        const shape = labels.map(({text}) => text).join(" ");
        if (row.dataset.shape !== shape) {
          row.dataset.shape = shape;
          soon.cancel();
          ahead = false;
          held = null;
          order = labels.map((_, i) => i);
          row.replaceChildren(...labels.map(make_));
          row.querySelectorAll("span b").forEach((number, i) => (number.textContent = i ? String(labels.length - 1) : "0"));
        }
        if (next?.length === labels.length && !drag && held === null && !ahead) order = [...next];
        show();
      },
    };
  };

  /* ---- the four: as written and moved, with positions and without ---- */
  const grid = (host) => {
    const cells = {};
    for (const order of ORDERS) {
      for (const positions of SWITCHES) {
        const figure = host.appendChild(make("figure", `order-cell ${order} ${positions}`));
        const head = figure.appendChild(make("figcaption"));
        const title = head.appendChild(make("p", "order-name"));
        const text = head.appendChild(make("p", "order-text"));
        const note = head.appendChild(make("p", "order-note"));
        const name = () => `${say(`positions.order.${order}`)} · ${say(`positions.order.${positions}`)}`;
        text.dir = "auto";
        cells[`${order} ${positions}`] = {title, text, note, name, map: atlas.smallMap(figure, {name, group: "order"})};
      }
    }
    return cells;
  };

  let shown = null; // the answer that stands on the page, of its own sentence
  atlas.wordOrderShown = () => shown;
  atlas.wordOrder = (element, props, watch) => {
    const find = (name) => element.querySelector(`[data-${name}]`);
    const row = wordRow(find("words"), (order) => change({order: [...order]}));
    const cells = grid(find("grid"));
    const [seed, back] = [find("seed"), find("back")];
    back.checked = state.words_in_order;
    let origin = null;

    const fill = (facts) => {
      const labels = pieces();
      if (labels.length !== facts.tokens.length) return; // the maps of another sentence are there
      const orders = {original: labels.map((_, place) => place), shuffled: facts.tokens};
      for (const order of ORDERS) {
        for (const positions of SWITCHES) {
          const {title, text, note, name, map} = cells[`${order} ${positions}`];
          const side = orders[order].map((id) => ({text: labels[id].text, id}));
          const weights = atlas.unpackWeights(facts[positions].maps[order]);
          const put = order === "shuffled" && back.checked;
          const cell = (i, j) => weights[side.findIndex(({id}) => id === i) * side.length + side.findIndex(({id}) => id === j)];
          const z = put ? Float32Array.from(weights, (_, at) => cell(Math.floor(at / side.length), at % side.length)) : weights;
          const axis = put ? [...side].sort((a, b) => a.id - b.id) : side;
          atlas.fill(title, name());
          text.lang = atlas.languageTag(facts.request.target);
          atlas.fill(text, facts[positions].texts[order]);
          const equal = facts[positions].texts[order] === facts.on.texts.original;
          const twin = order === "shuffled" && facts[positions].texts.shuffled === facts[positions].texts.original;
          atlas.fill(note, order === "original" && positions === "on" ? "" : say(
            equal ? "positions.order.equal" : twin ? "positions.order.twin" : "positions.order.changed"));
          map.show({rows: axis, columns: axis, z, kind: "encoder_self", causal: false});
        }
      }
      const numbers = {
        name: `L${facts.layer} H${facts.head}`, on: small(facts.on.difference), off: small(facts.off.difference),
        most_on: small(facts.on.largest), most_off: small(facts.off.largest),
        at_on: `L${facts.on.where[0]} H${facts.on.where[1]}`, at_off: `L${facts.off.where[0]} H${facts.off.where[1]}`,
      };
      atlas.fill(find("verdict"), say("positions.order.verdict", numbers));
      const moved = facts.tokens.some((from, to) => from !== to);
      caption(element, say(moved ? `positions.order.said${back.checked ? ".back" : ""}` : "positions.order.said.written", numbers));
    };
    /* One word alone, or too many tokens: Python says so, and there is nothing here to move or to look at. */
    const limit = Number(find("limit").dataset.limit);
    const canMove = () => !words().length || (pieces().length <= limit && words().filter(({special}) => !special).length > 1);
    /* An answer about an order that has been left since is shown, but steps back; the words stay where they were moved. */
    const wanted = ({seed: of, order}) => (state.word_order.order ? same(state.word_order.order, order) : of === state.word_order.seed);
    const mark = () => find("grid").classList.toggle("behind", Boolean(shown) && !wanted(shown));
    const show = (facts, current) => {
      const request = settled();
      if (origin !== null && request && !same(origin, request)) state.word_order = {...state.word_order, order: null};
      if (request) origin = request;
      shown = current ? facts : null;
      if (document.activeElement !== seed) seed.value = state.word_order.seed;
      row.put(current && wanted(facts) ? facts.order : null);
      mark();
      element.classList.toggle("no-order", !canMove());
      Object.values(cells).forEach(({title, name}) => atlas.fill(title, name()));
      if (shown) fill(shown);
    };
    /* An order from the page's address that is none of this sentence's words is left out, and the visitor is told. */
    const fit = () => {
      const {order} = state.word_order;
      if (!order || !same(atlas.maps.current()?.request, settled()) || isOrder(order)) return;
      atlas.leftOut.add("wordorder", order.join(","));
      state.word_order = {...state.word_order, order: null};
    };
    const isOrder = (order) => order.length === words().length && new Set(order).size === order.length
      && order.every((word, place) => words()[word] && (word === place || !(words()[place].special || words()[word].special)));
    const look = follow(element, props, watch, "order", () => settled() && (fit(), true) && [
      state.word_order, state.kind === "encoder_self" ? [state.layer, state.head] : null,
    ], show);

    const reseed = (value) => {
      row.release();
      seed.value = value;
      change({seed: value, order: null});
    };
    find("shuffle").addEventListener("click", () => reseed((state.word_order.seed + 1) % (MAX_SEED + 1)));
    find("restore").addEventListener("click", () => {
      row.release();
      change({order: words().map((_, i) => i)});
    });
    seed.addEventListener("change", () => {
      const value = Math.round(Number(seed.value));
      reseed(Number.isFinite(value) ? Math.max(0, Math.min(MAX_SEED, value)) : state.word_order.seed);
    });
    back.addEventListener("change", () => {
      set({words_in_order: back.checked});
      if (shown) fill(shown);
    });
    onChange(["word_order"], mark);
    onChange(["word_order", "kind", "layer", "head"], look);
  };
})();
