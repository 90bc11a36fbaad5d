/* Part 2: controls. A row of choices is a real radio group, so arrow keys, focus and screen readers work by themselves. */
(() => {
  let serial = 0;

  /* Fills `host` (role=radiogroup) with options [{value, label, title, className}] and marks `chosen`.
   * `onPick(value)` gets the original value, not its string. Nothing is rebuilt when nothing changed, so focus stays. */
  atlas.choices = (host, options, chosen, onPick) => {
    const shape = JSON.stringify(options);
    if (host.dataset.shape !== shape) {
      const focused = host.contains(document.activeElement) ? document.activeElement.value : null;
      const name = host.dataset.name || (host.dataset.name = `choice-${serial++}`);
      host.replaceChildren(...options.map((option, index) => {
        const label = atlas.make("label", `choice ${option.className || ""}`);
        const input = atlas.make("input");
        input.type = "radio";
        input.name = name;
        input.value = String(index);
        if (option.title) label.title = option.title;
        if (option.spoken) input.setAttribute("aria-label", option.spoken);
        input.addEventListener("change", () => host.onPick(host.options[index].value));
        label.append(input, atlas.make("span", "", option.label));
        return label;
      }));
      host.dataset.shape = shape;
      if (focused !== null) host.querySelector(`input[value="${focused}"]`)?.focus();
    }
    host.options = options;
    host.onPick = onPick;
    options.forEach((option, index) => {
      host.children[index].firstChild.checked = option.value === chosen;
    });
  };

  /* A parameter of a problem: a list, a clause {reason, params} that the tables have, or text. */
  const told = (value) => {
    if (Array.isArray(value)) return value.join(", ");
    return value?.reason ? atlas.say(`reason.${value.reason}`, toldAll(value.params)) : value;
  };
  const toldAll = (params) => Object.fromEntries(Object.entries(params).map(([name, value]) => [name, told(value)]));

  /* {code, params} in words; where the table has two, `variant` names the one that fits the place. */
  atlas.problemText = ({code, params}, variant = "") => {
    const key = [`error.${code}${variant}`, `error.${code}`, "error.unexpected"].find(atlas.has);
    return atlas.say(key, toldAll(params));
  };

  /* A message area: {code, params} from Python or from here, worded in the current language. Returns the function that shows
   * another one for the time being (null: back to Python's). `onShow` gets each one that shows, or null. */
  atlas.notice = (element, props, watch, onShow = () => {}) => {
    const area = element.querySelector("[role=alert]");
    let problem = props.value || null;
    const show = () => {
      area.hidden = !problem;
      onShow(problem);
      if (!problem) return area.replaceChildren();
      area.textContent = atlas.problemText(problem);
      if (problem.code === "model_not_loaded") atlas.reloadModel(problem.params.model);
    };
    const complain = (next) => {
      problem = next || props.value || null;
      show();
    };
    watch("value", () => complain(null));
    atlas.onChange(["lang"], show);
    show();
    return complain;
  };

  /* Sets text only where it changed, so that a selection or a screen reader is not disturbed. */
  atlas.fill = (node, content) => {
    if (node && node.textContent !== content) node.textContent = content;
  };
})();
