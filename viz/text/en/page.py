"""The page around the tabs."""

TEXT = {
    "page.title": "Attention Atlas",
    "page.tagline": "Watch a Transformer translate, and see where it looks.",
    "page.skip": "Skip to the sentence",
    "header.language": "Language of this page",
    "header.theme": "Switch between light and dark",
    "tab.translate": "Translate",
    "tab.heads": "Heads",
    "tab.steps": "Step by step",
    "tab.positions": "Positions",
    "tab.machine": "Machine",
    "page.belongs": "What you see here belongs to “{text}”.",
    "page.belongs.until": "It stays until the new sentence is answered.",
    "footer.model": "Maps and translations come from real passes of the loaded model. Where something else is computed, it says so.",
}
