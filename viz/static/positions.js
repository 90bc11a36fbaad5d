/* The Positions tab: its head, its contents, and when a section asks for its picture. The sections are in position_*.js. */
(() => {
  const {state, set, onChange, say} = atlas;

  const about = () => atlas.model()?.positions;
  /* Whatever is shown stays with the model in use; without one, the tab says so. */
  const follow = (show) => {
    onChange(["lang"], show);
    atlas.onModel(show);
    show();
  };

  const head = (element) => {
    const line = element.querySelector("[data-layout]");
    atlas.applyText(element);
    follow(() => {
      document.body.classList.toggle("atlas-no-positions", !about());
      const own = atlas.model()?.warnings.find(({code}) => code === "own_positions");
      const words = [about() && say(`positions.layout.${about().layout}`), own && say("positions.own", {difference: own.detail})];
      atlas.fill(line, words.filter(Boolean).join(atlas.state.lang === "zh" ? "" : " "));
    });
  };

  /* ---- the contents: a click leads there, and the section that is being read is marked ---- */
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const place = (name) => document.getElementById(`at-${name}`);
  const go = (name) => {
    place(name)?.scrollIntoView({behavior: calm.matches ? "auto" : "smooth", block: "start"});
    place(name)?.querySelector("h3")?.focus({preventScroll: true});
  };
  const contents = (element) => {
    const buttons = [...element.querySelectorAll("[data-section]")];
    const line = 0.3; // of the window's height: what crosses this line is being read
    const mark = () => {
      const places = buttons.map((button) => place(button.dataset.section)?.getBoundingClientRect().top ?? Infinity);
      const current = places.findLastIndex((top) => top < line * innerHeight);
      buttons.forEach((button, i) => {
        if (i === Math.max(0, current)) button.setAttribute("aria-current", "true");
        else button.removeAttribute("aria-current");
      });
    };
    buttons.forEach((button) => button.addEventListener("click", () => go(button.dataset.section)));
    let waits = false;
    addEventListener("scroll", () => {
      if (waits || state.tab !== "positions") return;
      waits = true;
      requestAnimationFrame(() => {
        waits = false;
        mark();
      });
    }, {passive: true});
    onChange(["tab"], mark);
    atlas.applyText(element);
    mark();
  };

  /* Asks the server (`event`) whenever `element` is on the screen, or about to be, and `key()`, which tells one picture from another, is
   * not that of the last question. key() is null where there is nothing to ask. Returns a function that looks again. */
  const whenSeen = (element, event, key) => {
    let near = false;
    let asked = null;
    const look = () => {
      const wanted = near && state.tab === "positions" && about() ? key() : null;
      if (wanted === null || wanted === asked) return;
      asked = wanted;
      atlas.begin(event);
    };
    new IntersectionObserver((entries) => {
      near = entries.at(-1).isIntersecting;
      look();
    }, {rootMargin: "300px 0px"}).observe(element);
    onChange(["tab", "lang", "model", "positions"], look);
    atlas.onModel(look);
    atlas.onResult(look);
    /* No answer came (the server was full or away): the next look asks again. */
    atlas.onSettled(() => atlas.isUnanswered() && (asked = null));
    return look;
  };

  /* A small difference: 0.00000036 as 3.6·10⁻⁷. */
  const tiny = (value) => {
    if (value === 0) return "0";
    const [digits, power] = value.toExponential(1).split("e");
    const raised = [...power.replace("+", "")].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign]));
    return `${digits.replace("-", "−")}·10${raised.join("")}`;
  };
  const change = (patch) => set({positions: {...state.positions, ...patch}});
  atlas.positions = {about, follow, change, head, contents, whenSeen, go, tiny};
})();
