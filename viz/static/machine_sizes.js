/* The Machine tab, part 4: facts of the loaded checkpoint, configurations beside each other, and the form for one's own sizes. */
(() => {
  const {number, operations} = atlas.machine;
  const {say, make, has} = atlas;

  /* ---- facts ---- */
  const both = (encoder, decoder, show = number) => (encoder === decoder ? show(encoder) : `${show(encoder)} / ${show(decoder)}`);
  const languages = (codes) => {
    const named = codes.slice(0, 6).map(atlas.languageName);
    return named.join(say("machine.and")) + (codes.length > 6 ? ` +${codes.length - 6}` : "");
  };
  const powerOfTen = (value) => {
    const [, digits, power] = value.toExponential().match(/^(.*)e[+]?(.*)$/);
    return `${digits === "1" ? "" : `${digits} · `}10${raised(power)}`;
  };
  const raised = (power) => [...power].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("");
  const factsOf = (facts, total) => {
    const {encoder, decoder} = facts;
    const untied = facts.tied === "none" || encoder.vocab_size !== decoder.vocab_size;
    return [
      ["parameters", number(total)],
      ["layers", `${encoder.layers} + ${decoder.layers}`],
      ["d_model", number(facts.d_model)],
      ["heads", both(encoder.heads, decoder.heads)],
      ["head_dim", both(encoder.head_dim, decoder.head_dim)],
      ["d_ff", both(encoder.d_ff, decoder.d_ff)],
      ["norm", say(`machine.norm.${facts.norm}`)],
      ["activation", facts.activation],
      ["positions", say(`machine.layout.${facts.layout}`)],
      ["max_len", number(facts.max_len)],
      ["scale", facts.scale === 1 ? say("machine.no") : `√${number(facts.d_model)} = ${atlas.machine.scale(facts.scale)}`],
      ["tied", say(`machine.tied.${facts.tied}`)],
      ["vocabulary", untied ? both(encoder.vocab_size, decoder.vocab_size) : number(encoder.vocab_size)],
      ["bias", say(facts.output_bias ? "machine.yes" : "machine.no")],
      ["eps", powerOfTen(facts.eps)],
      ["dropout", String(facts.dropout)],
      ["numbers", `${facts.dtype} · ${(facts.bytes / 1e6).toFixed(1)} MB`],
      ["device", facts.device],
      ["languages", `${facts.source ? atlas.languageName(facts.source) : "?"} → ${languages(facts.targets)}`],
      ...(facts.revision ? [["revision", facts.revision.slice(0, 7)]] : []),
    ];
  };
  const facts = (host, value) => {
    if (!value.facts) return host.replaceChildren(make("h3", "", say("machine.facts")), make("p", "faint", say("machine.facts.none")));
    const list = make("dl", "m-facts");
    const total = value.compare.find(({config}) => config === "loaded").total;
    factsOf(value.facts, total).forEach(([name, content]) => {
      const pair = make("div", "m-fact");
      pair.dataset.fact = name;
      if (has(`machine.fact.${name}.help`)) pair.title = say(`machine.fact.${name}.help`);
      pair.append(make("dt", "", say(`machine.fact.${name}`)), make("dd", "", content));
      list.append(pair);
    });
    host.replaceChildren(make("h3", "", say("machine.facts.of", {model: atlas.modelName(value.asked.model)})), list);
  };

  /* ---- configurations side by side ---- */
  const PARTS = ["embedding", "encoder_self_attention", "encoder_feed_forward", "encoder_norm", "decoder_self_attention", "cross_attention",
    "decoder_feed_forward", "decoder_norm", "output_projection"];
  const KIND_OF = {encoder_self_attention: "encoder_self", decoder_self_attention: "decoder_self", cross_attention: "cross"};
  const compare = (host, value) => {
    const {compare: all} = value;
    const most = Math.max(...all.map(({total}) => total));
    const table = make("table", "m-compare");
    const head = table.createTHead().insertRow();
    head.append(make("th", "", say("machine.compare.part")));
    head.firstChild.scope = "col";
    all.forEach(({config, total, parts}) => {
      const cell = make("th", config === value.picture.config ? "shown" : "");
      cell.scope = "col";
      const bar = make("span", "m-bar");
      bar.setAttribute("aria-hidden", "true");
      PARTS.forEach((part) => {
        const piece = make("i", KIND_OF[part] ?? part);
        piece.style.width = `${(100 * parts[part]) / most}%`;
        bar.append(piece);
      });
      cell.append(make("span", "m-config", say(`machine.config.${config}`)), " ", make("b", "", number(total)), bar);
      head.append(cell);
    });
    const body = table.createTBody();
    const line = (name, cells, kind = "") => {
      const made = body.insertRow();
      const label = make("th", kind, name);
      label.scope = "row";
      made.append(label, ...cells.map(([content, share]) => {
        const cell = make("td", "", content);
        if (share !== undefined) cell.append(" ", make("span", "faint", share));
        return cell;
      }));
      return made;
    };
    PARTS.forEach((part) => line(say(`machine.part.${part}`),
      all.map(({parts, total}) => [number(parts[part]), atlas.percent(parts[part] / total, 1)]), KIND_OF[part] ?? ""));
    if (all[0].operations !== null) line(say("machine.compare.operations"), all.map(({operations: count}) => [operations(count)]));
    const room = make("div", "m-compare-room");
    room.append(table);
    const named = say(`machine.config.${value.picture.config}`);
    const [one, three] = value.picture.tying;
    const tying = one === null ? say("machine.tying.three", {config: named, three: number(three)})
      : say("machine.tying", {config: named, one: number(one), three: number(three), less: number(three - one)});
    const [base, big] = ["base", "big"].map((name) => (all.find(({config}) => config === name).total / 1e6).toFixed(1));
    host.replaceChildren(make("h3", "", say("machine.compare")), make("p", "faint", say("machine.compare.help")), room,
      make("p", "m-tying", tying), make("p", "faint", say("machine.compare.paper", {base, big})));
  };

  /* ---- one's own sizes ---- */
  const FIELDS = atlas.OWN.slice(0, 6);
  const form = (host, limits, onOwn) => {
    let own = null;
    let waits = false; // changed, and not asked for yet: whatever is answered meanwhile is older
    const soon = atlas.debounce(300, () => {
      waits = false;
      onOwn(own);
    });
    const change = (patch) => {
      own = {...own, ...patch};
      waits = true;
      soon();
    };
    const inputs = {};
    FIELDS.forEach((name) => {
      const label = make("label");
      const words = make("span", "option-name");
      words.dataset.t = `machine.own.${name}`;
      const [min, max] = limits[name];
      const input = Object.assign(make("input"), {type: "number", min, max, step: name === "d_model" ? 2 : 1, name});
      input.addEventListener("input", () => change({[name]: input.value === "" ? null : Number(input.value)}));
      inputs[name] = input;
      label.append(words, input);
      host.append(label);
    });
    const group = (name) => {
      const room = make("div", "setting");
      const words = make("span", "option-name");
      words.dataset.t = `machine.own.${name}`;
      const choices = make("div", "segments");
      choices.setAttribute("role", "radiogroup");
      choices.dataset.tLabel = `machine.own.${name}`;
      room.append(words, choices);
      host.append(room);
      return choices;
    };
    const [norm, tied] = [group("norm"), group("tied")];
    host.addEventListener("submit", (event) => event.preventDefault());
    atlas.applyText(host);
    const show = (next) => {
      if (!waits) own = next;
      FIELDS.forEach((name) => {
        const told = own[name] === null ? "" : String(own[name]);
        if (document.activeElement !== inputs[name] && inputs[name].value !== told) inputs[name].value = told;
      });
      const pick = (name) => (value) => {
        change({[name]: value});
        show(own);
      };
      atlas.choices(norm, ["post", "pre"].map((value) => ({value, label: say(`machine.norm.${value}`)})), own.norm, pick("norm"));
      atlas.choices(tied, ["all", "none"].map((value) => ({value, label: say(`machine.own.tied.${value}`)})), own.tied, pick("tied"));
    };
    return {show};
  };

  /* Why sizes cannot be, with the word that stands at the field. */
  const refusal = ({code, params}) => {
    const key = `machine.own.${params.size}`;
    return atlas.problemText({code, params: {...params, ...(has(key) ? {size: say(key)} : {})}}, params.value === "" ? ".empty" : "");
  };

  Object.assign(atlas.machine, {facts, compare, form, refusal});
})();
