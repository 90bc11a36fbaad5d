/* Step by step, part 5: each step as a formula and as a few lines of PyTorch. Constants of ours: no text of a visitor's comes near them.
 *
 * S keys, D d_model, K head_dim, H heads, F d_ff, V vocabulary. The code is one row of one head, written out, and fits together:
 * each piece uses the names of those before it.
 */
(() => {
  const {make} = atlas;
  const I = (letter, below = "", above = "") => `<i>${letter}</i>${below && `<sub>${below}</sub>`}${above && `<sup>${above}</sup>`}`;
  const W = (letter) => `${I("W", `<i>${letter}</i>`)} + ${I("b", `<i>${letter}</i>`)}`; // a linear map
  const SUM = `${I("x")} = ${I("e")} + PE(${I("p")})`;
  const ANGLE = `${I("p")} / 10000<sup>2${I("i")}/${I("d")}</sup>`;
  const root = (of) => `<span class="root"><span class="sign">√</span><span class="under">${of}</span></span>`; // drawn by atlas.css
  const ROOT_K = root(I("d", "<i>k</i>"));
  const [MEAN, VARIANCE] = [I("μ"), I("σ", "", "2")];

  const FORMULAS = {
    token: {code: 'token_id = tokenizer.encode(sentence)[position]'},
    embedding: {
      math: `${I("e")} = ${I("E")}[id] · ${root(I("d", "model"))}`,
      code: "e = embedding.weight[token_id] * d_model ** 0.5  # [D]",
    },
    embedding_plain: {math: `${I("e")} = ${I("E")}[id]`, code: "e = embedding.weight[token_id]  # [D]"},
    position: {
      math: `PE(${I("p")}, 2${I("i")}) = sin(${ANGLE}),&emsp;PE(${I("p")}, 2${I("i")}+1) = cos(…),&emsp;${SUM}`,
      code: "angle = position / 10000 ** (torch.arange(0, d_model, 2) / d_model)  # [D/2]\n"
        + "pe = torch.stack([angle.sin(), angle.cos()], -1).flatten()\nx = e + pe  # [D]",
    },
    position_halves: {
      math: `PE(${I("p")}, ${I("i")}) = sin(${ANGLE}),&emsp;PE(${I("p")}, ${I("i")}+${I("d")}/2) = cos(…),&emsp;${SUM}`,
      code: "angle = position / 10000 ** (torch.arange(0, d_model, 2) / d_model)  # [D/2]\npe = torch.cat([angle.sin(), angle.cos()])\n"
        + "x = e + pe  # [D]",
    },
    norm: {
      math: `LayerNorm(${I("x")}) = (${I("x")} − ${MEAN}) / ${root(`${VARIANCE} + ${I("ε")}`)} · ${I("γ")} + ${I("β")}`,
      code: "mean, variance = x.mean(), x.var(correction=0)\nn = (x - mean) / (variance + eps).sqrt() * gamma + beta  # [D]",
    },
    qkv_self: {
      math: `${I("q")} = ${I("n")} ${W("Q")},&emsp;${I("K")} = ${I("N")} ${W("K")},&emsp;${I("V")} = ${I("N")} ${W("V")}`,
      code: "part = slice(head * head_dim, (head + 1) * head_dim)\nq = q_proj(n)[part]            # [K]\n"
        + "k = k_proj(everyone)[:, part]  # [S, K]\nv = v_proj(everyone)[:, part]  # [S, K]",
    },
    qkv_cross: {
      math: `${I("q")} = ${I("n")} ${W("Q")},&emsp;${I("K")} = ${I("M")} ${W("K")},&emsp;${I("V")} = ${I("M")} ${W("V")}`,
      code: "part = slice(head * head_dim, (head + 1) * head_dim)\nq = q_proj(n)[part]          # [K]\n"
        + "k = k_proj(memory)[:, part]  # [S, K]\nv = v_proj(memory)[:, part]  # [S, K]",
    },
    scores: {
      math: `${I("s", "<i>j</i>")} = ${I("q")} · ${I("k", "<i>j</i>")} / ${ROOT_K}`,
      code: "scores = k @ q / head_dim ** 0.5  # [S, K] @ [K] -> [S]",
    },
    mask: {
      math: `${I("s", "<i>j</i>")} + ${I("m", "<i>j</i>")},&emsp;${I("m", "<i>j</i>")} ∈ {0, −∞}`,
      code: 'scores = scores + torch.where(may_see, 0.0, float("-inf"))  # [S]',
    },
    softmax: {
      math: `${I("a", "<i>j</i>")} = exp(${I("s", "<i>j</i>")}) / Σ<sub><i>i</i></sub> exp(${I("s", "<i>i</i>")})`,
      code: "powers = (scores - scores.max()).exp()\nweights = powers / powers.sum()  # [S]",
    },
    mix: {
      math: `${I("o")} = Σ<sub><i>j</i></sub> ${I("a", "<i>j</i>")} ${I("v", "<i>j</i>")}`,
      code: "out = weights @ v  # [S] @ [S, K] -> [K]",
    },
    join: {
      math: `MultiHead = [${I("o", "0")} ; ${I("o", "1")} ; … ] ${I("W", "<i>O</i>")} + ${I("b", "<i>O</i>")}`,
      code: "joined = torch.cat(out_of_every_head)  # H x [K] -> [D]\ny = out_proj(joined)  # [D]",
    },
    add_pre: {math: `${I("x")} ← ${I("x")} + Sublayer(LayerNorm(${I("x")}))`, code: "x = x + y  # [D]"},
    add_post: {math: `${I("x")} ← LayerNorm(${I("x")} + Sublayer(${I("x")}))`, code: "x = layer_norm(x + y)  # [D]"},
    hidden: {
      math: `FFN(${I("n")}) = ${I("f")}(${I("n")} ${I("W", "1")} + ${I("b", "1")}) ${I("W", "2")} + ${I("b", "2")}`,
      code: "hidden = linear1(n)  # [D] -> [F]\nactive = activation(hidden)\ny = linear2(active)  # [F] -> [D]",
    },
    memory: {code: "memory = torch.stack(final_state_of_every_token)  # [S, D]"},
    logits: {
      math: `${I("z")} = ${I("x")} ${I("E", "", "⊤")},&emsp;`
        + `${I("p", I("t"))} = exp(${I("z", I("t"))}) / Σ<sub><i>u</i></sub> exp(${I("z", I("u"))})`,
      code: "logits = output_weight @ x  # [V, D] @ [D] -> [V]\nprobs = logits.softmax(-1)  # [V]",
    },
  };

  const formula = (id) => {
    const {math, code} = FORMULAS[id] ?? {};
    if (!code) return [];
    const box = make("div", "step-formula deeper");
    if (math) {
      const line = make("p", "formula");
      line.innerHTML = math; // a constant of this file
      box.append(line);
    }
    const block = make("pre");
    block.tabIndex = 0; // so that the keyboard can move a long line sideways
    block.append(make("code", "", code));
    box.append(block);
    return [box];
  };

  atlas.steps.formula = formula;
})();
