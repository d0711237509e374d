// Optional: tooltips at once (also for a finger), arrow keys from point to point, charts as files.
// Without it, a point has its title, and says it in the chart while it has the focus.
"use strict";

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true"); // the point's own name says the same

function showTip(point) {
  tip.textContent = point.dataset.says;
  tip.hidden = false;
  const mark = point.getBoundingClientRect();
  const box = tip.getBoundingClientRect();
  const left = mark.left + mark.width / 2 - box.width / 2;
  const above = mark.top - box.height - 8;
  tip.style.left = `${Math.max(6, Math.min(left, document.documentElement.clientWidth - box.width - 6))}px`;
  tip.style.top = `${above < 6 ? mark.bottom + 8 : above}px`;
}

function takeWords(point) {
  // The browser's own tooltip would come a second later and say it again.
  const title = point.querySelector("title");
  if (!title) return;
  point.dataset.says = title.textContent;
  point.setAttribute("aria-label", title.textContent);
  title.remove();
}

function reach(plot) {
  const points = [...plot.querySelectorAll(".point")];
  if (!points.length) return;
  plot.classList.add("scripted");
  points.forEach((point, place) => {
    takeWords(point);
    point.setAttribute("tabindex", place ? "-1" : "0");
  });
  const pointOf = (event) => event.target.closest?.(".point");
  plot.addEventListener("pointerover", (event) => pointOf(event) && showTip(pointOf(event)));
  plot.addEventListener("pointerout", () => { tip.hidden = true; });
  plot.addEventListener("focusin", (event) => pointOf(event)?.matches(":focus-visible") && showTip(pointOf(event)));
  plot.addEventListener("focusout", () => { tip.hidden = true; });
  plot.addEventListener("keydown", (event) => {
    const here = points.indexOf(document.activeElement);
    if (event.key === "Escape") tip.hidden = true;
    const next = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: 0, End: points.length - 1 }[event.key];
    if (here < 0 || next === undefined) return;
    event.preventDefault();
    const point = points[Math.max(0, Math.min(next, points.length - 1))];
    points[here].setAttribute("tabindex", "-1");
    point.setAttribute("tabindex", "0");
    point.focus();
  });
}

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order"];

function alone(plot) {
  // A copy that needs no style sheet: what the page's style decides becomes attributes.
  const copy = plot.cloneNode(true);
  const [originals, copies] = [plot, copy].map((each) => [each, ...each.querySelectorAll("*")]);
  originals.forEach((original, place) => {
    const style = getComputedStyle(original);
    for (const name of DRAWN) copies[place].setAttribute(name, style.getPropertyValue(name));
  });
  copy.querySelectorAll(".say").forEach((each) => each.remove());
  const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("x", -12);
  paper.setAttribute("y", -8);
  paper.setAttribute("width", width + 24);
  paper.setAttribute("height", height + 16);
  paper.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(paper);
  copy.setAttribute("viewBox", `-12 -8 ${width + 24} ${height + 16}`);
  return { words: new XMLSerializer().serializeToString(copy), width: width + 24, height: height + 16 };
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function savePicture(plot, name) {
  const { words, width, height } = alone(plot);
  const picture = new Image(width, height);
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(words)}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => blob && save(blob, name));
}

function offerFiles(chart) {
  const tools = document.createElement("p");
  tools.className = "chart-tools";
  const shown = () => [...chart.querySelectorAll("svg.plot")].find((plot) => plot.getBoundingClientRect().width);
  const file = (ending) => `${chart.dataset.name}.${ending}`;
  const kinds = {
    SVG: () => save(new Blob([alone(shown()).words], { type: "image/svg+xml" }), file("svg")),
    PNG: () => savePicture(shown(), file("png")),
  };
  for (const [kind, act] of Object.entries(kinds)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Save as ${kind}`;
    button.addEventListener("click", act);
    tools.append(button);
  }
  chart.append(tools);
}

document.body.append(tip);
document.querySelectorAll("svg.plot").forEach(reach);
document.querySelectorAll(".chart").forEach(offerFiles);
