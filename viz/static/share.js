/* Share: copy the link, save pictures and numbers. One row of two quiet buttons; the second opens a menu.
 *
 * Pictures are made in the browser (pictures.js). Numbers and the page to keep come from the server, which has the exact weights:
 * begin("export") -> Python writes a file under a path that nobody can guess -> value of #exported -> the browser fetches it.
 */
(() => {
  const {state, onChange, say, make} = atlas;
  const PICTURES = ["map_png", "map_svg", "words_png", "words_svg"];
  const FILES = ["csv_map", "csv", "json", "npz"];
  const GROUPS = {pictures: PICTURES, numbers: FILES, page: ["html"]};

  /* ---- saving ---- */
  const save = (address, name) => {
    const link = make("a");
    link.href = address;
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
  };
  const saveBlob = (blob, name) => {
    const address = URL.createObjectURL(blob);
    save(address, name);
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  };
  const place = () => (typeof state.head === "number" ? `L${state.layer}H${state.head}` : `L${state.layer}-${state.head}`);
  const savePicture = async (what) => {
    const [part, form] = what.split("_");
    const name = `attention-atlas-${part === "words" ? "words-" : ""}${state.kind}-${place()}.${form}`;
    try {
      saveBlob(await atlas.pictures[part](form), name);
      tell("share.saved", {name});
    } catch (error) {
      console.warn(error);
      tell(null);
      atlas.complain?.({code: "export_picture", params: {}});
    }
  };

  /* ---- what is said beside the buttons ---- */
  let said = null;
  let element = null;
  const tell = (key, params = {}) => {
    said = key && [key, params];
    if (element) atlas.fill(element.querySelector("[data-share-said]"), said ? say(...said) : "");
  };

  /* ---- files of the server, one after the other ---- */
  const queue = [];
  let wish = null; // {form, serial, name, request, again}
  let serial = 0;
  const next = () => {
    if (wish || !queue.length) return;
    wish = {form: queue.shift(), serial: ++serial, request: JSON.stringify(atlas.result()?.request), again: true};
    ask();
  };
  const ask = () => {
    state.exporting = {form: wish.form, serial: wish.serial, dark: atlas.isDark(), ...atlas.focus.pinned()};
    tell("share.working");
    atlas.begin("export");
  };
  const done = (problem) => {
    wish = null;
    if (problem) {
      tell(null);
      atlas.complain?.({...problem, about: "maps"}); // says nothing about the text in the box
    }
    next();
  };
  atlas.exported = (props, watch) => watch("value", () => {
    const {value} = props;
    if (!wish || value?.serial !== wish.serial) return;
    if (value.problem) return done(value.problem);
    /* The server let the maps go, and the result that came along as stale has them computed again: one more try, then. */
    if (value.gone) {
      if (!wish.again) return done({code: "export_gone", params: {}});
      wish.again = false;
      return;
    }
    save(value.file.url, value.name);
    atlas.complain?.(null);
    tell("share.saved", {name: value.name});
    done();
  });
  atlas.onResult(() => {
    if (wish && !wish.again && JSON.stringify(atlas.result()?.request) === wish.request) ask();
  });
  atlas.onSettled?.(() => { // no answer came: the notice says so (page.js)
    if (!wish || !atlas.isUnanswered()) return;
    wish = null;
    queue.splice(0);
    tell(null);
  });

  /* ---- the link ---- */
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return false;
    }
  };
  const copyLink = async () => {
    const {url, complete} = atlas.link();
    const field = element.querySelector("[data-by-hand]");
    const copied = await copy(url);
    /* In a frame the page may not be let at the clipboard: then the visitor copies it. */
    field.hidden = copied;
    field.value = url;
    if (!copied) {
      field.focus();
      field.select();
    }
    tell(`share.${copied ? "copied" : "by_hand"}${complete ? "" : ".short"}`);
  };

  /* ---- the menu: arrow keys move, Escape closes, focus goes back to the button ---- */
  const menu = (button, list) => {
    const items = () => [...list.querySelectorAll("[role=menuitem]")];
    const isOpen = () => !list.hidden;
    const show = (open, back = false) => {
      list.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
      if (back) button.focus();
    };
    const go = (index) => items().at(index % items().length).focus();
    button.addEventListener("click", () => {
      show(!isOpen());
      if (isOpen()) go(0);
    });
    button.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      show(true);
      go(event.key === "ArrowDown" ? 0 : -1);
    });
    list.addEventListener("keydown", (event) => {
      const at = items().indexOf(document.activeElement);
      const moves = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1};
      if (event.key in moves) {
        event.preventDefault();
        event.stopPropagation();
        go(moves[event.key]);
      } else if (event.key === "Escape") {
        event.stopPropagation();
        show(false, true);
      } else if (event.key === "Tab") show(false);
    });
    list.addEventListener("click", (event) => event.target.closest("[role=menuitem]") && show(false, true));
    document.addEventListener("pointerdown", (event) => {
      if (isOpen() && !list.contains(event.target) && !button.contains(event.target)) show(false);
    });
  };
  const button = (className, key) => {
    const node = make("button", className);
    node.type = "button";
    node.dataset.t = key;
    return node;
  };
  const item = (what) => {
    const node = button("", `share.${what}`);
    node.setAttribute("role", "menuitem");
    node.tabIndex = -1;
    node.addEventListener("click", () => {
      if (PICTURES.includes(what)) return savePicture(what);
      queue.push(what);
      next();
    });
    return node;
  };
  const fill = (list) => {
    for (const [name, all] of Object.entries(GROUPS)) {
      /* A page that was saved has no server. */
      if (atlas.offline && name !== "pictures") continue;
      const group = make("div", "menu-group");
      const heading = make("span", "menu-name");
      heading.dataset.t = `share.group.${name}`;
      heading.setAttribute("aria-hidden", "true");
      group.setAttribute("role", "group");
      group.dataset.tLabel = `share.group.${name}`;
      group.append(heading, ...all.map(item));
      list.append(group);
    }
  };

  /* ---- what of a link was left out ---- */
  const shorten = (value) => {
    const letters = [...String(value)];
    return letters.length > 40 ? `${letters.slice(0, 40).join("")}…` : letters.join("");
  };
  const nameOf = (name) => (atlas.has(`link.name.${name}`) ? say(`link.name.${name}`) : name); // one that is not ours says itself
  const leftOutWords = () => {
    const parts = atlas.leftOut.all().map(([name, value]) => say("link.part", {name: nameOf(name), value: shorten(value)}));
    if (!parts.length) return "";
    const words = [say("link.left_out", {parts: parts.join(say("link.and"))}), ...atlas.leftOut.reasons()];
    return words.filter(Boolean).join(state.lang === "zh" ? "" : " ");
  };

  atlas.share = (host) => {
    element = host.querySelector(".share");
    const copyButton = button("plain", "share.copy");
    const menuButton = button("plain menu-button", "share.save");
    menuButton.setAttribute("aria-haspopup", "menu");
    menuButton.setAttribute("aria-expanded", "false");
    const list = make("div", "menu");
    list.setAttribute("role", "menu");
    list.dataset.tLabel = "share.save";
    list.hidden = true;
    fill(list);
    const anchor = make("div", "menu-host");
    anchor.append(menuButton, list);
    const status = make("span", "faint");
    status.setAttribute("role", "status");
    status.dataset.shareSaid = "";
    const field = make("input");
    Object.assign(field, {type: "text", readOnly: true, hidden: true});
    field.dataset.byHand = "";
    field.dataset.tLabel = "share.link";
    const note = make("div", "notice");
    note.dataset.leftOut = "";
    const words = make("span");
    words.setAttribute("role", "status");
    const close = button("plain", "link.close");
    note.append(words, close);
    element.append(...(atlas.offline ? [] : [copyButton]), anchor, status, field);
    (document.querySelector("[data-link-note]") ?? element).append(note); // above the tabs: whichever of them a link leads to

    copyButton.addEventListener("click", copyLink);
    menu(menuButton, list);
    const show = () => {
      const missing = leftOutWords();
      atlas.fill(words, missing);
      note.hidden = !missing;
      tell(...(said || [null]));
    };
    close.addEventListener("click", () => {
      atlas.leftOut.clear();
      show();
    });
    atlas.leftOut.onChange(show);
    onChange(["lang"], show);
    [element, note].forEach(atlas.applyText);
    show();
  };

  atlas.followLinks();
})();
