// The pages work without this: it only replaces <main> by the same page's newer <main>.
(() => {
  "use strict";
  let waiting = false;
  const refresh = async () => {
    if (waiting || document.hidden) return;
    waiting = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.ok) {
        const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
        const open = new Set([...document.querySelectorAll("details[open]")].map((each) => each.id));
        next.querySelectorAll("details").forEach((each) => { if (open.has(each.id)) each.open = true; });
        if (!document.querySelector("main").contains(document.activeElement)) {
          document.querySelector("main").replaceWith(next);
        }
      }
    } catch { /* the next event tries again */ } finally { waiting = false; }
  };
  const state = document.getElementById("live");
  const source = new EventSource("/events");
  source.addEventListener("changed", refresh);
  source.addEventListener("open", () => { state.textContent = "live"; });
  source.addEventListener("error", () => { state.textContent = "not connected"; });
  document.addEventListener("visibilitychange", refresh);
})();
