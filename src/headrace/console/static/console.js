// Common to all pages: shows whether the page is live. Server-sent events do the rest (see streams.py).
"use strict";

(() => {
  const status = document.getElementById("live-status");
  if (!status) return;

  const show = (state, text) => {
    status.dataset.state = state;
    status.querySelector(".live__text").textContent = text;
  };
  document.addEventListener("htmx:sseOpen", () => show("live", "live"));
  document.addEventListener("htmx:sseError", () => show("lost", "reconnecting"));
  document.addEventListener("htmx:sseClose", () => show("lost", "closed"));
})();
