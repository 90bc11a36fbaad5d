/* Ribbons between two lines of words: which are drawn, where they run, how wide they are.
 *
 * A ribbon's width is its weight times one number for the whole picture, so widths can be compared anywhere. Along the edge of a word its
 * ribbons stand side by side in the order of the words at their other ends, so they don't cross where they start. Weights that are not
 * drawn keep their room, so nothing moves when a word is pointed at and its faint ribbons appear.
 */
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const LEAST = 0.02; // weight of the weakest ribbon in the quiet picture
  const LEAST_OWN = 0.005; // and of the word that is pointed at
  const [MOST, MOST_OF_MANY, MANY] = [600, 240, 64]; // ribbons at once, and of lines of more than MANY words: what is drawn without a wait

  /* out[cell]: middle of the cell's ribbon on the edge of its word. `cellAt(word, other)`: index into z; `places`: middle and width of each
   * word; `backwards`: the other line runs the other way. */
  const stack = (out, z, places, numOthers, cellAt, backwards, full) => {
    places.forEach(({middle, width}, word) => {
      let total = 0;
      for (let other = 0; other < numOthers; other++) total += z[cellAt(word, other)];
      const scale = Math.min(full, total > 0 ? width / total : 0); // a word that many look at: closer together, not thinner
      let x = middle - (total * scale) / 2;
      for (let i = 0; i < numOthers; i++) {
        const cell = cellAt(word, backwards ? numOthers - 1 - i : i);
        out[cell] = x + (z[cell] * scale) / 2;
        x += z[cell] * scale;
      }
    });
    return out;
  };

  /* The strongest of the cells start, start + step, ... of z, how many there are above `least`, and the weight of all and of those. */
  const pick = (z, least, runs, most) => {
    let all = 0;
    const found = [];
    for (const [start, step, count, but] of runs) {
      for (let i = 0, cell = start; i < count; i++, cell += step) {
        if (cell === but) continue;
        all += z[cell];
        if (z[cell] >= least) found.push(cell);
      }
    }
    found.sort((a, b) => z[b] - z[a]);
    const count = found.length;
    found.length = Math.min(count, most);
    const drawn = found.reduce((sum, cell) => sum + z[cell], 0);
    return {cells: found.reverse(), count, least, share: all > 0 ? Math.max(0, 1 - drawn / all) : 0}; // the strongest are drawn last, on top
  };

  /* Draws into two groups of `svg`: all ribbons of a map, and those of a word. */
  atlas.ribbons = (svg) => {
    const groups = ["all", "own"].map((name) => {
      const group = document.createElementNS(SVG, "g");
      group.setAttribute("class", name);
      svg.append(group);
      return group;
    });
    const [everything, own] = groups;
    let map = null; // {z, numKeys, numQueries, top, bottom, height, full, most}

    const draw = (group, cells, strong = -1) => {
      while (group.childElementCount > cells.length) group.lastChild.remove();
      while (group.childElementCount < cells.length) group.append(document.createElementNS(SVG, "path"));
      const {z, numKeys, top, bottom, height, full} = map;
      const bend = (height * 0.5).toFixed(1);
      cells.forEach((cell, i) => {
        const path = group.children[i];
        const [above, below] = [top[cell].toFixed(1), bottom[cell].toFixed(1)];
        path.setAttribute("d", `M${above} 0C${above} ${bend} ${below} ${bend} ${below} ${height}`);
        path.setAttribute("stroke-width", (z[cell] * full).toFixed(3));
        path.setAttribute("data-cell", `${Math.floor(cell / numKeys)},${cell % numKeys}`);
        if (group === own) path.classList.toggle("strong", cell === strong);
      });
    };

    return {
      /* `keys`, `queries`: [{middle, width}] in px, in order of reading; `backwards`: whether each line runs from right to left. */
      show(z, keys, queries, {height, full, backwards}) {
        const [numKeys, numQueries] = [keys.length, queries.length];
        const at = (query, key) => query * numKeys + key;
        const top = stack(new Float32Array(z.length), z, keys, numQueries, (key, query) => at(query, key), backwards.queries, full);
        const bottom = stack(new Float32Array(z.length), z, queries, numKeys, at, backwards.keys, full);
        map = {z, numKeys, numQueries, top, bottom, height, full, most: Math.max(numKeys, numQueries) > MANY ? MOST_OF_MANY : MOST};
        const picked = pick(z, LEAST, [[0, 1, z.length]], map.most);
        draw(everything, picked.cells);
        return picked;
      },
      /* The ribbons of a row, a column, or both; null, null takes them away. */
      showOwn(row, column) {
        if (!map) return null;
        const {z, numKeys, numQueries, most} = map;
        const both = row !== null && column !== null;
        const runs = [];
        if (row !== null) runs.push([row * numKeys, 1, numKeys]);
        if (column !== null) runs.push([column, numKeys, numQueries, both ? row * numKeys + column : -1]); // the cell of both, once
        const picked = pick(z, LEAST_OWN, runs, most);
        svg.classList.toggle("lit", row !== null || column !== null);
        svg.classList.toggle("pair", both);
        draw(own, picked.cells, both ? row * numKeys + column : -1);
        return picked;
      },
    };
  };
})();
