// Refreshes what stands in a page when a tick has landed; everything works without it.
"use strict";
const past = new URLSearchParams(location.search).has("at");
if (!past && document.querySelector("#live, #waiting") && window.EventSource) {
  const source = new EventSource("/changes");
  // A tick may have landed since the page was made.
  let seen = document.body.dataset.changes;
  source.addEventListener("message", (event) => {
    if (seen !== event.data) document.body.dispatchEvent(new Event("board-changed"));
    seen = event.data;
  });
}
