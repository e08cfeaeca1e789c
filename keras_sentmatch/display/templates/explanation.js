"use strict";
// Draws lines of attention between words, in the page of an explanation and in a page that contains one.
const showLinks = () => {
  const layers = JSON.parse(document.getElementById("links").textContent);
  const box = document.querySelector(".sentences"), svg = box.querySelector("svg");
  const said = document.querySelector("output");
  const sides = [...box.querySelectorAll(".sentence")].map(p => [...p.querySelectorAll(".word")]);
  const radios = [...document.querySelectorAll("[name=layer]")];
  let chosen = null;  // [side, place]

  const percent = share => Math.round(100 * share) + "%";
  const textOf = word => word.firstChild.textContent;

  function draw() {
    svg.replaceChildren();
    for (const word of sides.flat()) {
      word.removeAttribute("aria-pressed");
      word.style.removeProperty("--share");
    }
    said.textContent = "\u00a0";
    if (!chosen) return;
    const [side, place] = chosen, word = sides[side][place], others = sides[1 - side];
    const layer = layers[radios.findIndex(radio => radio.checked)];
    const shares = layer.to[side][place];
    const total = shares.reduce((sum, share) => sum + share, 0);
    word.setAttribute("aria-pressed", "true");
    const frame = box.getBoundingClientRect(), from = word.getBoundingClientRect();
    const down = from.top < others[0].getBoundingClientRect().top;
    others.forEach((other, i) => {
      const share = total && shares[i] / total;
      if (share < 0.02) return;
      const to = other.getBoundingClientRect();
      const x1 = from.left + from.width / 2 - frame.left, x2 = to.left + to.width / 2 - frame.left;
      const y1 = (down ? from.bottom : from.top) - frame.top;
      const y2 = (down ? to.top : to.bottom) - frame.top;
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      const bend = (y1 + y2) / 2;
      path.setAttribute("d", `M${x1} ${y1}C${x1} ${bend} ${x2} ${bend} ${x2} ${y2}`);
      path.setAttribute("stroke-width", 1 + 11 * share);
      path.setAttribute("stroke-opacity", 0.35 + 0.6 * share);
      svg.append(path);
      other.style.setProperty("--share", share);
    });
    const best = others.map((other, i) => [shares[i], textOf(other)]).sort((a, b) => b[0] - a[0]);
    const list = best.slice(0, 5).filter(([share]) => share >= 0.005);
    const rest = 1 - total;
    said.textContent = `\u2068${textOf(word)}\u2069 attends to ` +
      (list.map(([share, text]) => `\u2068${text}\u2069 ${percent(share)}`).join(", ") || "nothing") +
      (rest > 0.02 ? `; ${percent(rest)} stays in its own sentence or goes to marks` : "");
  }

  function choose(side, place) {
    chosen = chosen && chosen[0] === side && chosen[1] === place ? null : [side, place];
    draw();
  }

  function go(side, place) {
    const word = sides[side][place];
    if (!word) return;
    sides[side].forEach(other => { other.tabIndex = other === word ? 0 : -1; });
    word.focus();
    if (chosen) { chosen = [side, place]; draw(); }
  }

  sides.forEach((words, side) => words.forEach((word, place) => {
    word.tabIndex = place ? -1 : 0;
    word.addEventListener("click", () => choose(side, place));
    word.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) go(side, place + step);
      else if (event.key === "Home") go(side, 0);
      else if (event.key === "End") go(side, words.length - 1);
      else if (event.key === "ArrowDown" || event.key === "ArrowUp")
        go(1 - side, Math.min(place, sides[1 - side].length - 1));
      else if (event.key === "Escape") { chosen = null; draw(); }
      else return;
      event.preventDefault();
    });
  }));
  radios.forEach(radio => radio.addEventListener("change", draw));
  onresize = draw;
  document.querySelectorAll("[data-live]").forEach(part => { part.hidden = false; });

  // At first, the word with the largest number
  const number = word => Math.abs(parseFloat((word.querySelector("small") || word).textContent)) || 0;
  const starts = sides.flatMap((words, side) => words.map((word, place) => [number(word), side, place]));
  const first = starts.filter(([, side, place]) => layers.some(x => x.to[side][place].some(y => y)))
    .sort((a, b) => b[0] - a[0])[0];
  if (first && sides[1 - first[1]].length) choose(first[1], first[2]);
};
if (document.getElementById("links")) showLinks();
