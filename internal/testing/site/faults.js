// faults lists what keeps a reader from a page at the window's width.
(() => {
  const found = [];
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) found.push(`the page is ${wide} pixels wider than the window`);

  // A code block is cut where it lies beyond an ancestor that clips it, and none between them scrolls.
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const clips = (e) => ["hidden", "clip"].includes(getComputedStyle(e).overflowX);
  const cut = (block) => {
    const range = document.createRange();
    range.selectNodeContents(block);
    const { right } = range.getBoundingClientRect();
    for (let e = block; e && e !== document.body; e = e.parentElement) {
      if (scrolls(e)) return e.scrollWidth > e.clientWidth + 1 && !e.matches("[tabindex], :has([tabindex])");
      if (clips(e) && right > e.getBoundingClientRect().right + 1) return true;
    }
    return right > innerWidth + 1;
  };
  for (const block of document.querySelectorAll("article pre code, article pre:not(:has(code))")) {
    if (block.offsetWidth && cut(block)) found.push(`a code block is cut: ${block.textContent.trim().slice(0, 60)}`);
  }

  // A name is broken where a line ends between two of its letters, although the whole name fits on a line. A table scrolls.
  const letter = /[A-Za-z0-9_]/;
  const range = document.createRange();
  const place = (text, i) => (range.setStart(text, i), range.setEnd(text, i + 1), range.getBoundingClientRect());
  const broken = (text, room) => {
    const { data } = text;
    for (let i = 1; i < data.length; i++) {
      if (!letter.test(data[i - 1]) || !letter.test(data[i]) || place(text, i).top <= place(text, i - 1).bottom - 2) continue;
      const [word] = data.slice(0, i).match(/\w+$/), [rest] = data.slice(i).match(/^\w+/);
      if ((word.length + rest.length + 6) * place(text, i).width < room) found.push(`a name is broken: ${word}|${rest}`);
    }
  };
  for (const code of document.querySelectorAll("article code:not(pre code)")) {
    if (code.getClientRects().length < 2) continue;
    const room = code.closest("table") ? Infinity : code.closest("p, li, h1, h2, h3, h4, article").getBoundingClientRect().width;
    for (const text of code.childNodes) if (text.nodeType === Node.TEXT_NODE) broken(text, room);
  }

  // A link within text differs from it by more than its colour.
  const plain = (a) => {
    const around = a.parentElement.closest("p, li, td, dd");
    const text = around && [...around.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim().length > 1);
    const line = [a, ...a.querySelectorAll("*")].some((e) => getComputedStyle(e).textDecorationLine.includes("underline"));
    return text && !line && a.textContent.trim() && !a.querySelector("img, svg") && !a.matches(".headerlink, nav a");
  };
  for (const a of document.querySelectorAll("article a[href]")) {
    if (plain(a)) found.push(`a link differs by colour alone: ${a.textContent.trim()}`);
  }
  return [...new Set(found)];
})()
