// The theme's search has no name. Keys do not reach what scrolls, and the theme takes the way to it back on touch screens.
addEventListener("load", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const e of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    const reach = () => { if (e.tabIndex !== 0) e.tabIndex = 0; };
    new MutationObserver(reach).observe(e, { attributeFilter: ["tabindex"] });
    reach();
  }
});
