/* Four experiments on what the parts are for: norms, many heads, the division by the root of d_k, memory against length. */
(() => {
  const {state, onChange, say, make} = atlas;
  const {change, compact, whole, bytes, factor, keyOf, request, fillTable, experiment, find} = atlas.lab;
  const KINDS = ["encoder_self", "decoder_self", "cross"];
  const MEASURES = ["variance", "entropy", "largest", "slope"];
  const three = (value) => String(Number(value.toPrecision(3)));

  /* ---- post-norm against pre-norm ---- */
  const layersOf = () => atlas.model()?.sizes?.layers ?? null;
  const norms = experiment("norms", () => (layersOf() ? keyOf(state.model, state.lab.depth) : null), () => {}, false);
  atlas.lab.norms = (element, props) => {
    const showDepths = () => {
      const [encoder, decoder] = layersOf() ?? ["–", "–"];
      const depths = [...new Set([...props.value.depths, ...(state.lab.depth === null ? [] : [state.lab.depth])])].sort((a, b) => a - b);
      atlas.choices(find(element, "depth"), [
        {value: null, label: say("lab.norms.depth.own", {encoder, decoder})},
        ...depths.map((value) => ({value, label: `${value} + ${value}`})),
      ], state.lab.depth, (depth) => change({depth}));
    };
    onChange(["lang", "lab"], showDepths);
    atlas.onModel(showDepths);
    norms.section(element);
    showDepths();
  };
  atlas.lab.normsFoot = (element, props, watch) => {
    norms.onShow(({growth, norm, width, seeds}) => {
      atlas.fill(find(element, "growth"), say("lab.norms.growth", {
        post: factor(growth.decoder.post), pre: factor(growth.decoder.pre), norm,
        post_encoder: factor(growth.encoder.post), pre_encoder: factor(growth.encoder.pre),
      }));
      atlas.fill(find(element, "how"), say("lab.norms.how", {width, seeds}));
    });
    watch("value", () => norms.take(props.value));
    atlas.applyText(element);
    norms.take(props.value);
  };

  /* ---- many heads or one, and memory: counted together ---- */
  const counts = experiment("counts", () => (request() ? keyOf(request(), state.kind) : null));
  const exact = (value) => ({text: compact(value), title: whole(value)});
  const split = (count, headDim) => {
    const bar = make("div", "lab-split");
    const parts = make("i");
    parts.append(...Array.from({length: count}, () => make("b")));
    bar.append(parts, make("span", "", String(headDim)));
    return bar;
  };
  atlas.lab.heads = (element, props, watch) => {
    counts.onShow(({kind, queries, keys, d_model, own, heads}) => {
      const columns = ["heads", "split", "parameters", "projections", "scores", "weights"];
      atlas.fill(find(element, "place"), say("lab.heads.place", {kind: say(`kind.${kind}`), queries, keys, d_model}));
      fillTable(find(element, "heads"), columns.map((name) => say(`lab.heads.${name}`)), heads.map((count) => {
        const name = make("span", "", String(count.num_heads));
        if (count.num_heads === own) name.append(make("small", "", say("lab.heads.own")));
        const row = [{text: name, head: true}, split(count.num_heads, count.head_dim), whole(count.parameters), exact(count.projections),
          exact(2 * count.scores), whole(count.weights)];
        row.className = count.num_heads === own ? "own" : "";
        return row;
      }));
    });
    watch("value", () => counts.take(props.value));
    counts.section(element);
    counts.take(props.value);
  };
  atlas.lab.memory = (element) => counts.section(element);
  atlas.lab.memoryFoot = (element) => {
    counts.onShow(({bytes: sizes, max_len: length}) => {
      const lines = KINDS.map((kind) => ({kind, ...sizes[kind]}));
      const total = (of) => bytes(lines.reduce((sum, line) => sum + line.layers * of(line), 0));
      const name = (kind) => ({text: say(`kind.${kind}`), head: true, className: kind});
      const header = ["kind", "layers", "here", "here.all", "far"].map((column) => say(`lab.memory.${column}`, {length: whole(length)}));
      const sum = [{text: say("lab.memory.total"), head: true}, whole(lines.reduce((all, line) => all + line.layers, 0)), "",
        total(({here}) => here), total(({far}) => far)];
      sum.className = "sum";
      fillTable(find(element, "memory"), header, [
        ...lines.map(({kind, layers, here, far}) => [name(kind), String(layers), ...[here, layers * here, layers * far].map(bytes)]), sum,
      ]);
    });
    atlas.applyText(element);
  };

  /* ---- the division by the root of d_k ---- */
  const scale = experiment("scale", () => (request() ? keyOf(request(), state.kind, state.layer, state.head) : null));
  atlas.lab.scale = (element) => {
    scale.onShow(({kind, layer, keys, head_dim, plain}) => {
      const params = {kind: say(`kind.${kind}`), layer, keys, head_dim};
      atlas.fill(find(element, "dots"), plain ? say("lab.scale.dots", params) : say("lab.scale.dots.none", params));
    });
    scale.section(element);
  };
  atlas.lab.scaleFoot = (element, props, watch) => {
    scale.onShow(({layer, head, heads, plain, divided}) => {
      const table = find(element, "scale");
      if (!plain) return table.replaceChildren();
      const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
      const picks = [[say("lab.scale.mean", {layer, count: heads}), mean]];
      if (head !== null) picks.unshift([`L${layer} H${head}`, (numbers) => numbers[head]]);
      const header = ["", ...picks.flatMap(([name]) => ["plain", "divided"].map((side) => `${name}: ${say(`lab.scale.${side}`)}`))];
      fillTable(table, header, MEASURES.map((measure) => [
        {text: say(`lab.scale.${measure}`), head: true},
        ...picks.flatMap(([, pick]) => [plain, divided].map((side) => three(pick(side[measure])))),
      ]));
    });
    watch("value", () => scale.take(props.value));
    atlas.applyText(element);
    scale.take(props.value);
  };
})();
