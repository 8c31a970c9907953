// Returns what is wrong with the page as it stands in the window, as texts.
(() => {
  const problems = new Set();
  const shown = e => e.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true });
  const where = e => {
    const t = e.textContent.trim().replace(/\s+/g, " ");
    return `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") || ""}"> ${t.slice(0, 50)}`;
  };
  const numbers = color => (color.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const ownText = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  const width = document.documentElement.clientWidth;

  if (document.scrollingElement.scrollWidth > width) {
    problems.add(`the page is ${document.scrollingElement.scrollWidth} wide in a window of ${width}`);
  }
  let texts = 0, drawings = 0;
  for (const e of document.body.querySelectorAll("*")) {
    if (["SCRIPT", "STYLE", "NOSCRIPT", "title"].includes(e.tagName) || !shown(e)) continue;
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    if (box.width <= 1 || style.clipPath !== "none" || e.closest("thead") && getComputedStyle(e.closest("thead")).clipPath !== "none") continue;
    const scrolls = e.parentElement.closest(".scrolls");
    if (!scrolls && (box.right > width + 1 || box.left < -1)) problems.add(`outside of the window: ${where(e)}`);
    if (e.scrollWidth > e.clientWidth + 1 && style.overflowX !== "visible" && !e.matches(".scrolls")) problems.add(`cut off: ${where(e)}`);
    const inSVG = e instanceof SVGElement;
    if (ownText(e)) {
      texts++;
      const color = numbers(inSVG ? style.fill : style.color), size = parseFloat(style.fontSize);
      const c = contrast(color, behind(e)), large = size >= 24 || size >= 18.66 && +style.fontWeight >= 700;
      if (c < (large ? 3 : 4.5)) problems.add(`contrast ${c.toFixed(2)}: ${where(e)}`);
      if (size * (inSVG ? e.getScreenCTM().a : 1) < 8.5) problems.add(`text of ${(size * (inSVG ? e.getScreenCTM().a : 1)).toFixed(1)} px: ${where(e)}`);
    }
    if (inSVG && e.matches(".line, .limit, .thin, .mark, .bars")) {
      drawings++;
      const c = contrast(numbers(e.matches(".mark, .bars") ? style.fill : style.stroke), behind(e));
      if (c < 3) problems.add(`contrast ${c.toFixed(2)} of a drawing: ${where(e)}`);
    }
  }
  for (const drawing of document.querySelectorAll("svg.chart")) {
    if (!shown(drawing)) continue;
    const frame = drawing.getBoundingClientRect();
    const labels = [...drawing.querySelectorAll("text")].map(e => [e, e.getBoundingClientRect()]);
    const marks = [...drawing.querySelectorAll(".mark")].map(e => [e, e.getBoundingClientRect()]);
    for (const [e, a] of labels) for (const [m, b] of marks) {
      const later = e.compareDocumentPosition(m) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (later && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2) {
        problems.add(`a mark hides a part of ${where(e)}`);
      }
    }
    labels.forEach(([e, a], i) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1) {
        problems.add(`outside of its chart: ${where(e)}`);
      }
      for (const [f, b] of labels.slice(i + 1)) {
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) {
          problems.add(`one on the other: ${where(e)} and ${where(f)}`);
        }
      }
    });
  }
  for (const t of document.querySelectorAll("table")) {
    if (!t.caption) problems.add("a table without a caption");
    if (t.querySelector("th:not([scope])")) problems.add("a heading without a scope");
  }
  for (const s of document.querySelectorAll("svg")) {
    if (s.getAttribute("role") !== "img" || !s.getAttribute("aria-label")) problems.add("a picture without a label");
  }
  return { problems: [...problems], texts, drawings, height: document.scrollingElement.scrollHeight,
    tables: document.querySelectorAll("table").length, charts: [...document.querySelectorAll("svg.chart")].filter(shown).length };
})()
