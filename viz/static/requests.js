/* Requests under way: what is running, whether it is slow, whether it was refused, and whether the server is there at all.
 *
 * Of each kind of request at most one runs and one waits, the last (Gradio's trigger_mode "always_last"), so we count no further.
 * A request that was refused (the queue is full, or this visitor asks too often: viz/limits.py) is still under way: it is sent again by
 * itself, with what is chosen by then, after as long as the server says.
 */
(() => {
  const SLOW = 350; // ms until the progress line shows
  const ALIVE_EVERY = 1500; // ms between questions to the server while an answer is awaited
  const MOST_TRIES = 8; // of a refused request; then the visitor is told and may ask anew
  const LONGEST = 8; // s between two tries while the queue is full
  const underWay = {};
  const refused = {}; // event -> {tries, timer}
  const owed = new Set(); // asked for and not answered, though it may be given up
  const settledListeners = [];
  const idle = () => Object.values(underWay).every((count) => !count);
  let slowTimer = 0;
  let aliveTimer = 0;
  let unanswered = false; // the last request got no answer, and the notice says so

  atlas.begin = (event) => {
    if (refused[event]?.timer) return; // what is chosen now goes along with the next try
    if (idle()) {
      slowTimer = setTimeout(() => document.body.classList.add("atlas-working"), SLOW);
      watchServer();
    }
    underWay[event] = Math.min(2, (underWay[event] || 0) + 1);
    owed.add(event);
    atlas.send(event);
  };
  const settled = (event, left) => {
    underWay[event] = Math.max(0, left);
    if (idle()) rest();
  };
  const rest = () => {
    clearTimeout(slowTimer);
    clearTimeout(aliveTimer);
    document.body.classList.remove("atlas-working");
    setTimeout(() => idle() && settledListeners.forEach((listener) => listener()), 50); // when the answer has reached the components
  };
  /* Gradio calls one of these when an event has ended. Handlers of ours do not fail (they answer with a message), so a failure
   * means that the server refused. If the connection breaks it calls neither. */
  atlas.succeeded = (event) => {
    const complained = unanswered;
    forget(event);
    unanswered = Object.keys(refused).length > 0;
    if (complained && !unanswered) tell(null);
    if (!(underWay[event] > 1)) owed.delete(event);
    settled(event, underWay[event] - 1);
  };
  atlas.failed = (event) => {
    if (tooLarge) { // the same again would be, too
      tooLarge = false;
      forget(event);
      settled(event, 0);
      return noAnswer({code: "too_large", params: {}});
    }
    const tries = (refused[event]?.tries ?? 0) + 1;
    if (tries > MOST_TRIES) {
      forget(event);
      settled(event, 0);
      return noAnswer({code: "busy", params: {}});
    }
    const seconds = pause ?? Math.min(2 ** (tries - 1), LONGEST);
    noAnswer(pause === null ? {code: "busy_again", params: {}} : {code: "too_fast", params: {seconds}});
    pause = null;
    underWay[event] = 1;
    const timer = setTimeout(() => {
      refused[event].timer = 0;
      atlas.send(event);
    }, 1000 * seconds * (1 + Math.random() / 2)); // not all of a class at the same moment
    refused[event] = {tries, timer};
  };
  const forget = (event) => {
    clearTimeout(refused[event]?.timer);
    delete refused[event];
  };
  const noAnswer = (problem) => {
    unanswered = true;
    tell(problem);
  };

  /* Gradio tells that a request failed, not why; the answer to it does. */
  const TOO_OFTEN = 429;
  const TOO_LARGE = 413; // viz/door.py
  let pause = null; // s, if the last refused request came too early
  let tooLarge = false;
  const plainFetch = window.fetch;
  window.fetch = async (...asked) => {
    const answer = await plainFetch(...asked);
    if (!answer.ok && new URL(answer.url, location.href).pathname.endsWith("/queue/join")) {
      tooLarge = answer.status === TOO_LARGE;
      pause = answer.status === TOO_OFTEN ? Number(answer.headers.get("retry-after")) || 1 : null;
    }
    return answer;
  };

  /* It is said beside the sentence, and on the other tabs above them. */
  let problem = null;
  const tell = (next) => {
    problem = next;
    atlas.complain?.(next);
    showAbove();
  };
  const showAbove = () => {
    const line = document.querySelector("[data-server-note]");
    if (!line) return;
    line.hidden = !problem || (atlas.state.tab ?? "translate") === "translate";
    atlas.fill(line, problem ? atlas.problemText(problem) : "");
  };
  atlas.onChange(["tab", "lang"], showAbove);

  atlas.onSettled = (listener) => settledListeners.push(listener);
  atlas.isOwed = (event) => owed.has(event);
  atlas.isUnanswered = () => unanswered || !idle();

  /* A slow answer and no server look alike from here, so while we wait we ask for something that costs nothing. Only refusals count,
   * two in a row; a server that takes its time is left alone. Gradio then tries to reconnect and reloads the page when it can. */
  const isAlive = () => {
    const {root = "", api_prefix: prefix = "/gradio_api"} = window.gradio_config || {};
    return fetch(`${root}${prefix}/app_id`, {cache: "no-store"}).then((answer) => answer.ok, () => false);
  };
  let watch = 0;
  const watchServer = () => {
    const mine = ++watch;
    let refusals = 0;
    const ask = async () => {
      refusals = (await isAlive()) ? 0 : refusals + 1;
      if (idle() || mine !== watch) return;
      if (refusals < 2) return (aliveTimer = setTimeout(ask, refusals ? ALIVE_EVERY / 2 : ALIVE_EVERY));
      const lost = Object.keys(underWay).filter((event) => underWay[event]);
      lost.forEach((event) => {
        underWay[event] = 0;
        forget(event);
      });
      noAnswer({code: "lost", params: {}});
      rest();
      askOnceAwake(lost, mine);
    };
    clearTimeout(aliveTimer);
    aliveTimer = setTimeout(ask, ALIVE_EVERY);
  };

  /* A server that slept (a Space does when nobody comes) answers again after a while: what was lost is then asked for anew, with what is chosen
   * by then, unless the visitor has asked meanwhile, or Gradio has reloaded the page. */
  const askOnceAwake = async (lost, mine) => {
    await new Promise((done) => setTimeout(done, 2 * ALIVE_EVERY));
    if (mine !== watch) return;
    if (!(await isAlive())) return askOnceAwake(lost, mine);
    if (mine === watch) lost.forEach(atlas.begin);
  };

  /* When Gradio reloads the page after a lost connection, what the visitor wrote and chose comes back. It is kept in this tab alone,
   * over this one reload, and only if an answer was still awaited. A page inside a frame may be denied the store: then it starts anew. */
  const KEY = "attention-atlas";
  const keepers = [];
  atlas.keep = (keeper) => keepers.push(keeper);
  window.addEventListener("pagehide", () => {
    if (!atlas.isUnanswered()) return;
    try {
      sessionStorage.setItem(KEY, JSON.stringify(Object.assign({}, ...keepers.map((keeper) => keeper()))));
    } catch {}
  });
  const recall = () => {
    try {
      const kept = JSON.parse(sessionStorage.getItem(KEY));
      sessionStorage.removeItem(KEY);
      return performance.getEntriesByType("navigation")[0]?.type === "reload" ? kept : null;
    } catch {
      return null;
    }
  };
  atlas.kept = recall();
})();
