"""From an input event to its picture on the screen, measured inside the page with performance.now.

How paint is measured. A page cannot see its own pixels appear, but it sees frames: callbacks of requestAnimationFrame run before style,
layout and paint of a frame, so what a script has changed is on its way to the screen once a *second* such callback runs. The clock starts
with the `timeStamp` of a trusted event (a real mouse press, key or movement that the browser got from Playwright, so queueing in the
browser counts too) and ends when the second animation frame after the picture's last change begins. It is never too early, and late by
at most one frame (16.7 ms). An empty click takes one to two frames on an idle machine: that is measured beside everything else.

What "the picture changed" means. Any change of the DOM inside the watched parts, or any drawing call on a canvas, wherever it comes from;
so a view that follows a moment later (a debounced drawing, a timer) is waited for. The measurement ends after QUIET ms without a change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page

QUIET = 200  # ms without a change: then the picture has settled
LIMIT = 120_000  # ms

# Given to `context.add_init_script`. It draws nothing and adds nothing to the page before `bench.watch` is called.
SCRIPT = """
window.bench = (() => {
  const now = () => performance.now();
  const clock = {start: null, first: 0, last: 0, painted: 0, answered: 0, changes: 0};
  /* One callback a frame while something changes: whoever draws a thousand small things is not made slower by being watched. */
  let watching = false;
  let seen = 0;
  let after = 0; // frames that have begun since the last change
  const frame = () => {
    if (seen !== clock.changes) [seen, after] = [clock.changes, 0];
    after += 1;
    if (after === 2 || clock.start === null) {
      watching = false;
      clock.painted = now();
    } else requestAnimationFrame(frame);
  };
  const changed = () => {
    if (clock.start === null) return;
    clock.last = now();
    clock.first ||= clock.last;
    clock.changes += 1;
    if (watching) return;
    watching = true;
    requestAnimationFrame(frame);
  };

  /* Not fillRect: Plotly calls it for every cell, and being watched would cost time. Our canvases are cleared or put first. */
  const drawing = ["clearRect", "strokeRect", "fill", "stroke", "fillText", "drawImage", "putImageData"];
  drawing.forEach((name) => {
    const call = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...args) {
      if (this.canvas.isConnected) changed(); // Plotly paints on a loose one, and then changes the DOM
      return call.apply(this, args);
    };
  });

  /* The moment when the server's answer is here: somebody reads a long JSON text for the first time. */
  const parse = JSON.parse;
  JSON.parse = (text, ...more) => {
    if (clock.start !== null && !clock.answered && String(text).length > 20000) clock.answered = now();
    return parse(text, ...more);
  };

  const observer = new MutationObserver(changed);
  const watch = (selector) => document.querySelectorAll(selector).forEach((node) => (
    observer.observe(node, {subtree: true, childList: true, attributes: true, characterData: true})));

  /* Arms the clock for the next event of this type; "opening" is that of the page itself. */
  const arm = (type) => {
    seen = 0;
    Object.assign(clock, {start: null, first: 0, last: 0, painted: 0, answered: 0, changes: 0});
    if (type === "opening") return void (clock.start = 0); // the zero of performance.now is the start of the navigation
    window.addEventListener(type, (event) => (clock.start = event.timeStamp), {capture: true, once: true});
  };
  const waits = () => document.querySelector(".plot-frame[aria-busy]"); // the picture of another map stands there until this one is fetched
  const settled = (quiet, limit) => new Promise((resolve, reject) => {
    const since = now();
    const look = () => {
      if (clock.painted && clock.painted >= clock.last && now() - clock.painted > quiet && !waits()) {
        const {start} = clock;
        const found = {painted: clock.painted - start, first: clock.first - start, last: clock.last - start, changes: clock.changes,
          answered: clock.answered && clock.answered - start};
        clock.start = null;
        return resolve(found);
      }
      if (now() - since > limit) return reject(new Error(`nothing was drawn: ${JSON.stringify(clock)}`));
      setTimeout(look, 10);
    };
    look();
  });
  return {watch, arm, settled};
})();
"""
# To be added after it where the opening of a page is measured: everything is the picture.
FROM_OPENING = """
bench.arm("opening");
new MutationObserver((_, first) => {
  if (!document.documentElement) return;
  first.disconnect();
  bench.watch("html");
}).observe(document, {childList: true});
"""


@dataclass(frozen=True)
class Timing:
    """Milliseconds from the input event: first and last change of the picture, and the second animation frame after the last.

    answered: when the server's answer was there, 0 if there was none. changes: how many changes there were.
    """

    painted: float
    first: float
    last: float
    changes: int
    answered: float


def watch(page: Page, selector: str) -> None:
    """What counts as the picture from now on."""
    page.evaluate("(selector) => bench.watch(selector)", selector)


def timed(page: Page, event: str, act: Callable[[], object], quiet: int = QUIET, limit: int = LIMIT) -> Timing:
    """Does `act`, which has to cause an `event` of this type, and waits until the picture has settled. Raises if it never changes."""
    page.evaluate("(event) => bench.arm(event)", event)
    act()
    return settled(page, quiet, limit)


def settled(page: Page, quiet: int = QUIET, limit: int = LIMIT) -> Timing:
    """Waits until the picture has settled."""
    return Timing(**page.evaluate("([quiet, limit]) => bench.settled(quiet, limit)", [quiet, limit]))
