/* The tour of a first visit: five stops, each a ring around a part of the page and a card that says one thing about it.
 *
 * It is offered, never forced: a first visitor gets a small card with two buttons, and the page works as ever beside it. The button in the
 * header starts it again at any time. That it was offered is remembered by the browser alone; where it may not remember (a page inside
 * another one), the offer simply comes again.
 */
(() => {
  const {say, make} = atlas;
  const KEY = "attention-atlas-tour";
  const STOPS = ["#sentence", "#result", "#map-main", "#heads-strip", "#tabs [role=tablist]"];
  const ROOM = 12; // px between ring and card

  const remembered = () => {
    try {
      return localStorage.getItem(KEY) !== null;
    } catch {
      return false;
    }
  };
  const remember = () => {
    try {
      localStorage.setItem(KEY, "1");
    } catch {}
  };

  let card = null;
  let ring = null;
  let stop = 0; // 0: the offer; 1 to 5
  let before = null; // what had the focus, and which tab was open, when the tour began

  const target = () => (stop ? document.querySelector(STOPS[stop - 1]) : null);

  /* What is to be seen of a part, without the room that it keeps for longer sentences. */
  const boxOf = (part) => {
    const boxes = [...part.querySelectorAll("p, button, textarea, canvas, svg")].map((node) => node.getBoundingClientRect()).filter(({width}) => width > 1);
    const whole = part.getBoundingClientRect();
    const inside = boxes.length ? boxes : [whole];
    const [left, top] = ["left", "top"].map((side) => Math.max(whole[side], Math.min(...inside.map((box) => box[side]))));
    const [right, bottom] = ["right", "bottom"].map((side) => Math.min(whole[side], Math.max(...inside.map((box) => box[side]))));
    return {left, top, right, bottom, width: right - left, height: bottom - top};
  };

  /* Below its part if there is room, else above it, else in the lower corner. On narrow screens a sheet at the bottom (tour.css). */
  const place = () => {
    if (!card) return;
    const part = target() && boxOf(target());
    ring.hidden = !part?.width;
    if (ring.hidden) return card.style.removeProperty("top"), card.style.removeProperty("left");
    Object.assign(ring.style, {left: `${part.left - 6}px`, top: `${part.top - 4}px`, width: `${part.width + 12}px`, height: `${part.height + 8}px`});
    const {offsetWidth: width, offsetHeight: height} = card;
    const below = part.bottom + ROOM;
    const above = part.top - ROOM - height;
    const top = below + height < innerHeight ? below : above > 0 ? above : innerHeight - height - ROOM;
    card.style.top = `${Math.max(ROOM, top)}px`;
    card.style.left = `${Math.max(ROOM, Math.min(part.left, innerWidth - width - ROOM))}px`;
  };
  const follow = () => requestAnimationFrame(place);

  const button = (key, act, plain = true) => {
    const made = make("button", plain ? "plain" : "primary", say(key));
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  };
  const paragraph = (name, words) => make("p", name, words);

  const fillCard = () => {
    card.setAttribute("aria-label", say("tour.label"));
    const head = paragraph("tour-head", say(stop ? `tour.${stop}` : "tour.invite"));
    const text = paragraph("tour-text", say(stop ? `tour.${stop}.text` : "tour.invite.text"));
    const row = make("div", "tour-row");
    if (!stop) row.append(button("tour.decline", end), button("tour.start", () => go(1), false));
    else {
      row.append(make("span", "faint tour-count", say("tour.count", {stop, stops: STOPS.length})));
      if (stop < STOPS.length) row.append(button("tour.skip", end));
      if (stop > 1) row.append(button("tour.back", () => go(stop - 1)));
      row.append(stop < STOPS.length ? button("tour.next", () => go(stop + 1), false) : button("tour.end", end, false));
    }
    card.replaceChildren(head, text, row);
  };

  const open = () => {
    if (card) return;
    card = make("section", "tour");
    card.setAttribute("role", "dialog");
    card.tabIndex = -1;
    ring = make("div", "tour-ring");
    ring.hidden = true;
    document.body.prepend(card, ring); // first in the order of the keyboard
    document.addEventListener("keydown", onKey);
    addEventListener("scroll", follow, {passive: true, capture: true});
    addEventListener("resize", follow);
  };
  function end() {
    remember();
    if (!card) return;
    removeEventListener("scroll", follow, {capture: true});
    removeEventListener("resize", follow);
    document.removeEventListener("keydown", onKey);
    card.remove();
    ring.remove();
    card = ring = null;
    stop = 0;
    const {focus, tab} = before ?? {};
    before = null;
    if (tab && tab !== "translate") document.getElementById(`tab-${tab}-button`)?.click();
    (focus?.isConnected && focus !== document.body ? focus : document.querySelector("[data-tour]"))?.focus({preventScroll: true});
  }
  function onKey(event) {
    if (event.key === "Escape") return end();
    if (!stop || !card.contains(document.activeElement)) return;
    const next = {ArrowRight: stop + 1, ArrowLeft: stop - 1}[event.key];
    if (next >= 1 && next <= STOPS.length) go(next);
  }
  function go(next) {
    open();
    remember();
    stop = next;
    card.dataset.stop = String(stop);
    const away = document.querySelector("#tab-translate-button");
    if (away?.getAttribute("aria-selected") === "false") away.click();
    fillCard();
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    target()?.scrollIntoView({block: "center", behavior: calm ? "auto" : "smooth"});
    place();
    card.querySelector(".primary").focus({preventScroll: true});
    setTimeout(place, 400); // when the page has come to rest
  }

  atlas.startTour = () => {
    before ??= {focus: document.activeElement, tab: atlas.state.tab};
    go(1);
  };
  atlas.onChange(["lang"], () => card && (fillCard(), place()));
  atlas.offerTour = () => {
    if (remembered() || card) return;
    open();
    card.dataset.stop = "0";
    fillCard();
  };
  atlas.whenPresent("#result", () => setTimeout(atlas.offerTour, 600));
})();
