/* The card of a translated word: its pieces, how likely each was, and what else the model might have written there.
 *
 * It lies over the page and pushes nothing. It stays while the pointer is on it, and goes with Escape.
 */
(() => {
  const {say, make} = atlas;
  const LINGER = 160; // ms between leaving the word and losing the card, for the way into it
  const GAP = 6; // px between word and card
  const NAMES = {"<s>": "token.start", "</s>": "token.end", "<unk>": "token.unknown", "<pad>": "token.padding"};

  /* A piece as the model has it; the block in front, which stands for a space, is paler. */
  const pieceNode = (token) => {
    const node = make("bdi", "card-token");
    if (Object.hasOwn(NAMES, token)) {
      node.textContent = say(NAMES[token]);
      return node;
    }
    const [, blocks, rest] = token.match(/^(▁*)(.*)$/su);
    node.append(make("span", "faint", blocks), rest);
    return node;
  };
  const row = ([token, probability, written]) => {
    const node = make("li", written ? "written" : "");
    const bar = make("i");
    bar.style.setProperty("--p", probability.toFixed(4));
    node.append(pieceNode(token));
    if (written) node.append(make("span", "only-spoken", say("card.written")));
    node.append(make("span", "card-value", probability.toFixed(4)), bar);
    return node;
  };
  const pieceBlock = ({token, probability, others = [], rank}) => {
    const list = make("ul");
    const rows = [[token, probability, true], ...others].sort((a, b) => b[1] - a[1]);
    list.append(...rows.map(row));
    const block = make("div", "card-piece");
    block.append(list);
    if (rank > rows.length) block.append(make("p", "faint", say("card.rank", {rank})));
    return block;
  };
  const content = (word) => {
    const pieces = make("div", "card-pieces");
    pieces.append(...word.pieces.map(pieceBlock));
    if (word.pieces.length === 1) return [pieces];
    return [make("p", "faint", say("card.product", {value: word.probability.toFixed(4)})), pieces];
  };

  atlas.wordCard = (host) => {
    const card = make("div", "word-card");
    card.id = "word-card";
    card.setAttribute("role", "tooltip");
    card.hidden = true;
    host.append(card);
    let owner = null;
    let timer = 0;

    const release = () => {
      owner?.setAttribute("aria-expanded", "false");
      owner?.removeAttribute("aria-describedby");
      owner = null;
    };
    const hide = () => {
      clearTimeout(timer);
      release();
      card.hidden = true;
    };
    const hideSoon = () => {
      clearTimeout(timer);
      timer = setTimeout(() => document.activeElement === owner && owner?.matches(":focus-visible") || hide(), LINGER);
    };
    /* Under the word and inside the page's own edges; above it where the window ends. */
    const place = (node) => {
      const [around, word] = [host.getBoundingClientRect(), node.getBoundingClientRect()];
      const left = Math.max(0, Math.min(word.left - around.left, host.clientWidth - card.offsetWidth));
      const below = word.bottom + GAP;
      const fits = below + card.offsetHeight <= innerHeight || word.top - GAP - card.offsetHeight < 0;
      card.style.left = `${left}px`;
      card.style.top = `${(fits ? below : word.top - GAP - card.offsetHeight) - around.top}px`;
    };
    const show = (node, word) => {
      clearTimeout(timer);
      if (owner === node) return;
      release();
      owner = node;
      card.replaceChildren(...content(word));
      card.lang = node.closest("[lang]")?.lang ?? "";
      card.style.setProperty("--pieces", String(word.pieces.length));
      card.hidden = false;
      place(node);
      node.setAttribute("aria-expanded", "true");
      node.setAttribute("aria-describedby", card.id);
    };

    card.addEventListener("pointerenter", () => clearTimeout(timer));
    card.addEventListener("pointerleave", hideSoon);
    document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
    document.addEventListener("pointerdown", (event) => {
      if (owner && !card.contains(event.target) && !owner.contains(event.target)) hide();
    });
    return {show, hide, hideSoon, owner: () => owner};
  };
})();
