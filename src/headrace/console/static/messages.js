// The topic page: "Pause" freezes the messages while you read; new messages are highlighted for a moment.
"use strict";

(() => {
  const list = document.getElementById("messages");
  const pause = document.getElementById("pause");
  const seen = new Set();
  let held = null;

  const remember = (light) => {
    for (const message of list.querySelectorAll("[data-message]")) {
      const place = message.dataset.message;
      if (light && !seen.has(place)) message.classList.add("message--arrived");
      seen.add(place);
    }
  };

  const paused = () => pause.getAttribute("aria-pressed") === "true";

  list.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (!paused()) return;
    held = event.detail.data;
    event.preventDefault();
  });
  list.addEventListener("htmx:sseMessage", () => remember(true));

  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!paused()));
    pause.textContent = paused() ? "Resume" : "Pause";
    if (!paused() && held !== null) {
      htmx.swap(list, held, { swapStyle: "innerHTML", settleDelay: 0, swapDelay: 0 });
      held = null;
      remember(true);
    }
  });

  remember(false);
})();
