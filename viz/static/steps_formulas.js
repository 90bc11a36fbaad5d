/* Step by step, part 5: each step as a formula and as a few lines of PyTorch, for the model that is loaded: its order of norms, its
 * activation, its output. Constants of ours: no text of a visitor's comes near them.
 *
 * T tokens, S keys, D d_model, K head_dim, H heads, F d_ff, V vocabulary. The code is one row of one head, written out, and runs from
 * step to step: each piece uses names of those before it, modules of the sublayer that it belongs to, and `..._of_every_...` for what other
 * tokens and heads make in the same way.
 */
(() => {
  const {make, steps: {isSines}} = atlas;
  const I = (letter, below = "", above = "") => `<i>${letter}</i>${below && `<sub>${below}</sub>`}${above && `<sup>${above}</sup>`}`;
  const W = (letter) => `${I("W", `<i>${letter}</i>`)} + ${I("b", `<i>${letter}</i>`)}`; // a linear map
  const SUM = `${I("x")} = ${I("e")} + PE(${I("p")})`;
  const ANGLE = `${I("p")} / 10000<sup>2${I("i")}/${I("d")}</sup>`;
  const root = (of) => `<span class="root"><span class="sign">√</span><span class="under">${of}</span></span>`; // drawn by atlas.css
  const ROOT_K = root(I("d", "<i>k</i>"));
  const [MEAN, VARIANCE] = [I("μ"), I("σ", "", "2")];

  const [Q, X, N, M] = ["q", "x", "n", "M"].map((letter) => I(letter));
  const times = (x, letter) => `${x} ${W(letter)}`;
  /* Layers from..to, one after another, over all rows. */
  const through = (from, to) => {
    const layer = (at) => `Layer<sub>${at}</sub>`;
    return `${I("X")} ← ${from === to ? `${layer(to)}(${I("X")})` : `${layer(to)}(… ${layer(from)}(${I("X")}))`}`;
  };
  const blocks = (which, kind) =>
    `for block in layers[${which}]:\n    rows = block(${kind === "encoder_self" ? "rows" : "rows, memory"})\n`;
  const ROWS = "rows = torch.stack(x_of_every_token)  # each as x: [T, D]\n";
  const ACTIVATIONS = {relu: `max(0, ${I("h")})`, gelu: `${I("h")} · Φ(${I("h")})`, silu: `${I("h")} · σ(${I("h")})`};
  const PART = "part = slice(head * head_dim, (head + 1) * head_dim)";

  /* step -> what of the walk (steps_step.js) -> {math, code}. */
  const FORMULAS = {
    token: ({payload: {side}}) => ({
      code: `token_ids = ${side === "source" ? "tokenizer.encode(sentence)" : "[start_id, *tokenizer.encode(translation)]"}\n`
        + "token_id = token_ids[position]",
    }),
    embedding: ({facts}) => (facts.embedding_scale === 1
      ? {math: `${I("e")} = ${I("E")}[id]`, code: "e = embedding.weight[token_id]  # [D]"}
      : {math: `${I("e")} = ${I("E")}[id] · ${root(I("d", "model"))}`, code: "e = embedding.weight[token_id] * d_model ** 0.5  # [D]"}),
    position: ({facts, position, before}) => {
      if (!isSines(facts, position, before.encoding)) {
        return {math: `${I("x")} = ${I("e")} + ${I("P")}[${I("p")}]`, code: "pe = positions[position]  # [D]\nx = e + pe  # [D]"};
      }
      const [even, odd, pe] = facts.layout === "halves"
        ? [I("i"), `${I("i")}+${I("d")}/2`, "torch.cat([angle.sin(), angle.cos()])"]
        : [`2${I("i")}`, `2${I("i")}+1`, "torch.stack([angle.sin(), angle.cos()], -1).flatten()"];
      return {
        math: `PE(${I("p")}, ${even}) = sin(${ANGLE}),&emsp;PE(${I("p")}, ${odd}) = cos(…),&emsp;${SUM}`,
        code: `angle = position / 10000 ** (torch.arange(0, d_model, 2) / d_model)  # [D/2]\npe = ${pe}\nx = e + pe  # [D]`,
      };
    },
    stream: ({layer, kind}) => ({
      math: layer ? through(0, layer - 1) : "",
      code: ROWS + (layer ? `${blocks(":layer", kind)}x = rows[position]  # [D]` : ""),
    }),
    norm: () => ({
      math: `LayerNorm(${X}) = (${X} − ${MEAN}) / ${root(`${VARIANCE} + ${I("ε")}`)} · ${I("γ")} + ${I("β")}`,
      code: "mean, variance = x.mean(), x.var(correction=0)\nn = (x - mean) / (variance + eps).sqrt() * gamma + beta  # [D]",
    }),
    qkv: ({kind, pre}) => {
      const [read, keys] = [pre ? N : X, kind === "cross" ? M : I(pre ? "N" : "X")];
      const of = kind === "cross" ? "memory" : pre ? "layer_norm(rows)" : "rows";
      return {
        math: `${Q} = ${times(read, "Q")},&emsp;${I("K")} = ${times(keys, "K")},&emsp;${I("V")} = ${times(keys, "V")}`,
        code: `${PART}\nq = q_proj(${pre ? "n" : "x"})[part]  # [K]\n`
          + `k = k_proj(${of})[:, part]  # [S, K]\nv = v_proj(${of})[:, part]  # [S, K]`,
      };
    },
    scores: () => ({
      math: `${I("s", "<i>j</i>")} = ${Q} · ${I("k", "<i>j</i>")} / ${ROOT_K}`,
      code: "scores = k @ q / head_dim ** 0.5  # [S, K] @ [K] -> [S]",
    }),
    mask: ({kind}) => ({
      math: `${I("s", "<i>j</i>")} + ${I("m", "<i>j</i>")},&emsp;${I("m", "<i>j</i>")} ∈ {0, −∞}`,
      code: kind === "decoder_self"
        ? 'may_see = torch.arange(len(scores)) <= position\nscores = scores + torch.where(may_see, 0.0, float("-inf"))  # [S]'
        : "scores = scores + 0  # [S]: nothing is hidden",
    }),
    softmax: () => ({
      math: `${I("a", "<i>j</i>")} = exp(${I("s", "<i>j</i>")}) / Σ<sub><i>i</i></sub> exp(${I("s", "<i>i</i>")})`,
      code: "powers = (scores - scores.max()).exp()\nweights = powers / powers.sum()  # [S]",
    }),
    mix: () => ({
      math: `${I("o")} = Σ<sub><i>j</i></sub> ${I("a", "<i>j</i>")} ${I("v", "<i>j</i>")}`,
      code: "out = weights @ v  # [S] @ [S, K] -> [K]",
    }),
    join: () => ({
      math: `${I("y")} = [${I("o", "0")} ; ${I("o", "1")} ; … ] ${W("O")}`,
      code: "joined = torch.cat(out_of_every_head)  # H x [K] -> [D]\ny = out_proj(joined)  # [D]",
    }),
    other: ({kind, pre}) => {
      const [read, rows] = [pre ? N : X, pre ? "layer_norm(rows[:position + 1])" : "rows[:position + 1]"];
      const [keys, code] = kind === "cross"
        ? [I(pre ? "N" : "X", "≤<i>p</i>"), `y = self_attention(${pre ? "n" : "x"}, ${rows})  # [D]`]
        : [M, `y = cross_attention(${pre ? "n" : "x"}, memory)  # [D]`];
      return {math: `${I("y")} = MultiHead(${read}, ${keys})`, code};
    },
    add: ({pre}) => (pre
      ? {math: `${X} ← ${X} + ${I("y")}`, code: "x = x + y  # [D]"}
      : {math: `${X} ← LayerNorm(${X} + ${I("y")})`, code: "x = layer_norm(x + y)  # [D]"}),
    hidden: ({facts: {activation}, pre}) => ({
      math: `${I("h")} = ${pre ? N : X} ${I("W", "1")} + ${I("b", "1")},&emsp;${I("f")}(${I("h")}) = ${ACTIVATIONS[activation]}`,
      code: `hidden = linear1(${pre ? "n" : "x"})  # [D] -> [F]\nactive = F.${activation}(hidden)`,
    }),
    output: () => ({
      math: `${I("y")} = ${I("f")}(${I("h")}) ${I("W", "2")} + ${I("b", "2")}`,
      code: "y = linear2(active)  # [F] -> [D]",
    }),
    later: ({layer, facts: {layers}, kind, pre}) => {
      const more = layer < layers - 1;
      const end = more ? "rows[position]" : "x";
      const last = pre ? `x = final_norm(${end})  # [D]` : more ? `x = ${end}  # [D]` : "";
      const code = (more ? ROWS + blocks("layer + 1:", kind) : "") + last;
      const math = [more && through(layer + 1, layers - 1), pre && `${X} ← LayerNorm(${X})`].filter(Boolean).join(",&emsp;");
      return {math, code};
    },
    memory: () => ({math: `${M} = [${I("x", "0")} ; ${I("x", "1")} ; … ]`, code: "memory = torch.stack(x_of_every_token)  # [S, D]"}),
    logits: ({facts, before: {never_written: never, shared_anew: anew}}) => {
      const [matrix, weight] = facts.output_tied ? [I("E", "", "⊤"), "embedding.weight"] : [I("U", "", "⊤"), "output_weight"];
      const [bias, added] = facts.output_bias ? [` + ${I("b")}`, " + output_bias"] : ["", ""];
      const [first, last] = [
        never && anew ? 'logits[never_written] = float("-inf")\n' : "", never && !anew ? "\nprobs[never_written] = 0" : "",
      ];
      return {
        math: `${I("z")} = ${X} ${matrix}${bias},&emsp;`
          + `${I("p", I("t"))} = exp(${I("z", I("t"))}) / Σ<sub><i>u</i></sub> exp(${I("z", I("u"))})`,
        code: `logits = ${weight} @ x${added}  # [V, D] @ [D] -> [V]\n${first}probs = logits.softmax(-1)  # [V]${last}`,
      };
    },
  };

  const formula = (id, context) => {
    const {math, code} = FORMULAS[id](context);
    if (!code) return [];
    const box = make("div", "step-formula deeper");
    if (math) {
      const line = make("p", "formula");
      line.innerHTML = math; // of constants of this file and whole numbers
      box.append(line);
    }
    const block = make("pre");
    block.tabIndex = 0; // so that the keyboard can move a long line sideways
    block.append(make("code", "", code.trimEnd()));
    box.append(block);
    return [box];
  };

  atlas.steps.formula = formula;
})();
