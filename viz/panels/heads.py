"""The Heads tab: every head of the model on one sheet, in order of layers or sorted by what it does, and the chosen one large.

All of it is drawn in the browser (static/heads.js) from the maps and measures that came with the translation.
"""

from __future__ import annotations

from model.analysis.roles import ROLES
from viz.page import static_block

# What heads can be sorted by, and what is said of the chosen one. "entropy", in nats, is left to the normalised one: it grows with length.
MEASURES = (
    "normalised_entropy", "distance", "start", "end", "punctuation", "previous", "next", "same", "alignment", "alignment_read", "broad",
)

_SHEET = """
<section class="sheet" data-t-label="heads.label">
  <h2 class="only-spoken" data-t="heads.label"></h2>
  <div class="sheet-bar">
    <div class="setting"><span class="setting-name" data-t="heads.basis"></span>
      <div class="segments" role="radiogroup" data-t-label="heads.basis" data-sheet="basis"></div>
      <span class="faint" data-sheet="why"></span></div>
    <div class="setting"><label class="setting-name" for="heads-order" data-t="heads.order"></label>
      <select id="heads-order" data-sheet="order"></select>
      <button type="button" class="plain" data-t-title="heads.direction" data-sheet="direction"></button></div>
    <div class="facet" role="group" data-t-label="heads.kinds" data-sheet="facet-kinds"></div>
    <div class="facet wide" role="group" data-t-label="heads.roles" data-sheet="facet-roles"></div>
  </div>
  <div class="sheet-body">
    <div class="sheet-main">
      <p class="sheet-status" aria-live="polite"><span data-sheet="status"></span>
        <button type="button" class="plain" data-sheet="clear" data-t="heads.clear"></button></p>
      <div class="sheet-said head-said"><p><span class="head-said-name" data-sheet="name"></span> <span data-sheet="role"></span></p>
        <p class="head-said-help" data-sheet="help"></p></div>
      <div class="sheet-groups" data-sheet="groups"></div>
    </div>
    <div class="sheet-side" data-sheet="side"></div>
  </div>
  <div class="map-foot">
    <p class="caption" data-t="heads.caption"></p>
    <p class="caveat" data-t="caveat"></p>
    <details><summary data-t="more.open"></summary>
      <p data-t="heads.more.threshold"></p>
      <p data-t="heads.more.rows"></p>
      <h3 data-t="heads.more.roles"></h3><dl class="terms">{roles}</dl>
      <h3 data-t="heads.more.measures"></h3><dl class="terms">{measures}</dl>
    </details>
  </div>
</section>
"""


def terms(table: str, names: tuple[str, ...]) -> str:
    """Names and definitions of one table of texts ("role" or "measure") as a list in markup."""
    return "".join(f'<dt data-t="{table}.{name}"></dt><dd data-t="{table}.{name}.help"></dd>' for name in names)


def build() -> None:
    """Lays the tab out inside the current Blocks. All it shows, it reads from the maps of the Translate tab."""
    sheet = _SHEET.format(roles=terms("role", ROLES), measures=terms("measure", MEASURES))
    static_block(sheet, "atlas.headsSheet(element, props)", "heads-sheet", {"roles": list(ROLES), "measures": list(MEASURES)})
