/* Step by step, part 3: what happens to each key, as a table. Keys run across, as in every map; what is done to them runs down. */
(() => {
  const {make} = atlas;

  /* All tables of a walk show the same keys, so they are moved sideways together; at the end of one, which may be wider, all are. */
  const together = (frame) => frame.addEventListener("scroll", () => {
    for (const other of frame.closest(".walk")?.querySelectorAll(".key-frame") ?? []) {
      if (other !== frame && Math.abs(other.scrollLeft - asFar(frame, other)) > 1) other.scrollLeft = asFar(frame, other);
    }
  }, {passive: true});
  const end = (frame) => frame.scrollWidth - frame.clientWidth;
  const asFar = (frame, other) => (frame.scrollLeft > end(frame) - 2 ? end(other) : Math.min(frame.scrollLeft, end(other)));

  /* A frame that is moved sideways (or down) says by its class where there is more: a fade at that edge (steps.css). */
  const edges = (frame) => {
    const mark = () => {
      const {scrollLeft, scrollTop, scrollWidth, scrollHeight, clientWidth, clientHeight} = frame;
      const more = {
        "more-left": scrollLeft > 1, "more-right": scrollWidth - clientWidth - scrollLeft > 1,
        "more-up": scrollTop > 1, "more-down": scrollHeight - clientHeight - scrollTop > 1,
      };
      Object.entries(more).forEach(([name, is]) => frame.classList.toggle(name, is));
    };
    frame.addEventListener("scroll", mark, {passive: true});
    new ResizeObserver(mark).observe(frame);
    return mark;
  };

  /* When it is first seen, a table stands where its largest weight is in view, or where the others have been moved to. */
  const settle = (frame, column) => {
    const seen = new ResizeObserver(() => {
      if (!frame.clientWidth) return;
      seen.disconnect();
      const other = [...frame.closest(".walk")?.querySelectorAll(".key-frame[data-settled]") ?? []].find((node) => node.clientWidth);
      frame.dataset.settled = "1";
      const [name, head] = [frame.querySelector("thead td"), frame.querySelectorAll("thead th")[column]];
      const room = frame.clientWidth - name.offsetWidth;
      const best = head ? head.offsetLeft - name.offsetWidth - (room - head.offsetWidth) / 2 : 0;
      frame.scrollLeft = other ? asFar(other, frame) : best;
    });
    seen.observe(frame);
  };

  /* One stop for the tab key; arrow keys go from cell to cell, Enter and a click ask how it was made. */
  const walkable = (table) => {
    const cells = () => [...table.querySelectorAll("button")].filter((button) => button.offsetParent);
    table.addEventListener("focusin", ({target}) => {
      if (target.tagName !== "BUTTON") return;
      table.querySelectorAll("button[tabindex='0']").forEach((button) => (button.tabIndex = -1));
      target.tabIndex = 0;
    });
    table.addEventListener("keydown", (event) => {
      const here = event.target.closest("button");
      if (!here || event.altKey || event.ctrlKey || event.metaKey) return;
      const {column} = here.dataset;
      const row = cells().filter((button) => button.closest("tr") === here.closest("tr"));
      const file = cells().filter((button) => button.dataset.column === column);
      const at = (list, by) => list[list.indexOf(here) + by];
      const next = {
        ArrowRight: () => at(row, 1), ArrowLeft: () => at(row, -1), ArrowDown: () => at(file, 1), ArrowUp: () => at(file, -1),
        Home: () => row[0], End: () => row.at(-1),
      }[event.key];
      if (!next) return;
      event.preventDefault();
      next()?.focus();
    });
  };

  /* labels: those of steps_step.js; rows: [{id, name, cells: [text], exact: [text], deep, tints: [0 to 1], off: [bool]}]; label(row, j) names a cell for screen readers.
   * pick(id, j) is asked for on a click; glance(id, j), or glance(), is told what is pointed at; best: the column to show first. */
  const keyTable = ({labels, rows, pick, glance = () => {}, spoken, best = 0}) => {
    const frame = make("div", "key-frame");
    const table = make("table", "key-table");
    if (spoken) table.setAttribute("aria-label", spoken);
    const top = make("tr");
    top.append(make("td"), ...labels.map((label, j) => {
      const head = make("th", label.special ? "special" : "");
      head.scope = "col";
      const word = make("span");
      word.dir = "auto";
      label.watch(() => {
        word.textContent = label.text;
        word.title = `${label.word} (${j})`;
      });
      if (label.gives) head.dataset.gives = label.gives;
      head.append(word);
      return head;
    }));
    const lines = rows.map(({id, name, cells, exact = cells, deep, tints, off = []}) => {
      const line = make("tr", `row-${id}${deep ? " deep" : ""}`);
      line.dataset.row = id;
      const head = make("th", "", name);
      head.scope = "row";
      line.append(head, ...cells.map((text, j) => {
        const cell = make("td", off[j] ? "off" : "");
        const button = make(pick ? "button" : "span", "", text);
        if (pick) {
          button.type = "button";
          button.tabIndex = -1;
          const said = off[j] ? atlas.say("steps.row.hidden") : exact[j]; // no number that could be taken for a small weight
          labels[j].watch(() => button.setAttribute("aria-label", `${name}, ${labels[j].text}: ${said}`));
          button.addEventListener("click", () => pick(id, j));
          button.addEventListener("pointerenter", () => glance(id, j));
          button.addEventListener("focus", () => glance(id, j));
          ["pointerleave", "blur"].forEach((end) => button.addEventListener(end, () => glance()));
        }
        button.title = exact[j];
        button.dataset.column = String(j);
        if (tints) {
          cell.classList.add("tinted");
          cell.style.setProperty("--t", tints[j].toFixed(4));
        }
        cell.append(button);
        return cell;
      }));
      return line;
    });
    const head = make("thead");
    const body = make("tbody");
    head.append(top);
    body.append(...lines);
    table.append(head, body);
    frame.append(table);
    together(frame);
    edges(frame);
    settle(frame, best);
    if (pick) {
      walkable(table);
      const first = table.querySelector("tr:not(.deep) button") ?? table.querySelector("button");
      if (first) first.tabIndex = 0;
    }
    return frame;
  };

  Object.assign(atlas.steps, {keyTable, edges});
})();
