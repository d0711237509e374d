// Optional: panels without a reload, keys, the selection, live progress. Every page works without it.
"use strict";

const typing = (event) => event.target.matches("input:not([type=checkbox]), textarea, select") || event.ctrlKey || event.metaKey || event.altKey;

// A row opens its panel: the block of that name of the row's own address takes the place of ours.
async function openPanel(link) {
  const panel = document.getElementById("panel");
  const answer = await fetch(link.href, { headers: { fragment: "panel" } }).catch(() => null);
  if (!answer?.ok) { location.assign(link.href); return; }
  panel.outerHTML = await answer.text();
  link.closest("table").querySelectorAll("tr.on").forEach((row) => { row.classList.remove("on"); row.removeAttribute("aria-current"); });
  const row = link.closest("tr");
  row.classList.add("on");
  row.setAttribute("aria-current", "true");
  row.scrollIntoView({ block: "nearest" });
  history.replaceState(null, "", link.href.replace(/#panel$/, ""));
  if (matchMedia("(max-width: 60rem)").matches) document.getElementById("panel").scrollIntoView();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-panel]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  openPanel(link);
});

// j and k go through the rows of the list, Enter opens one, x chooses it.
function step(by) {
  const rows = [...document.querySelectorAll("tr[data-row]")];
  if (!rows.length) return;
  const here = rows.findIndex((row) => row.matches("[data-cursor], .on"));
  const row = rows[Math.max(0, Math.min(rows.length - 1, here + by))];
  const link = row.querySelector("a[data-panel]");
  if (link) { openPanel(link); return; }
  rows[here]?.removeAttribute("data-cursor");
  row.setAttribute("data-cursor", "");
  row.scrollIntoView({ block: "nearest" });
}

const actions = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => document.querySelector("input[type=search]")?.focus(),
  "?": () => document.getElementById("keys")?.showModal(),
  x: () => document.querySelector("tr[data-cursor] input[type=checkbox]")?.click(),
  Enter: () => document.querySelector("tr[data-cursor] a")?.click(),
};
let busy = false; // each key does what its button does, once: the next page is for the next key
window.addEventListener("pageshow", () => { busy = false; });
document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return; // which has its own keys
  if (busy || event.repeat || typing(event)) {
    if (event.key === "Escape") event.target.blur?.();
    return;
  }
  const control = [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)].find((each) => !each.disabled && each.offsetParent);
  if (control) { busy = control.matches("[data-leaves]"); event.preventDefault(); control.click(); }
  else if (actions[event.key] && !(event.key === "Enter" && event.target.matches("a, button, summary"))) { event.preventDefault(); actions[event.key](); }
});

// The chosen runs are kept for this tab, so that they survive paging, filters and other views.
function keepChosen(form) {
  const known = new Set(JSON.parse(sessionStorage.getItem("chosen") ?? "[]"));
  const bar = form.querySelector(".select-bar");
  const boxes = () => [...form.querySelectorAll("input[type=checkbox][name=run]")];
  const show = () => {
    sessionStorage.setItem("chosen", JSON.stringify([...known]));
    form.querySelectorAll("input[type=hidden][name=run]").forEach((each) => each.remove());
    const here = new Set(boxes().map((box) => box.value));
    for (const name of known) if (!here.has(name)) form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "run", value: name }));
    for (const box of boxes()) { box.checked = known.has(box.value); box.closest("tr").classList.toggle("on", box.checked); }
    bar.classList.toggle("some", known.size > 0);
    bar.querySelector("[data-count]").textContent = `${known.size} chosen, the oldest is the reference`;
    form.querySelector("[data-all]").checked = here.size > 0 && [...here].every((name) => known.has(name));
  };
  form.addEventListener("change", (event) => {
    const changed = event.target.matches("[data-all]") ? boxes().map((box) => { box.checked = event.target.checked; return box; }) : [event.target];
    for (const box of changed) if (box.name === "run") box.checked ? known.add(box.value) : known.delete(box.value);
    show();
  });
  bar.querySelector("[data-clear]").addEventListener("click", () => { known.clear(); show(); });
  document.body.classList.add("scripted");
  window.addEventListener("pageshow", show);
  show();
}

function follow(box) {
  const source = new EventSource(box.dataset.live);
  const fields = new Map([...box.querySelectorAll("[data-field]")].map((each) => [each.dataset.field, each]));
  source.addEventListener("progress", (event) => {
    const view = JSON.parse(event.data);
    for (const [name, field] of fields) {
      if (!(name in view)) continue;
      if (name === "share") { if (view.share === null) field.removeAttribute("value"); else field.value = view.share; continue; }
      // Written only where it changed: a screen reader announces the message, not every tick.
      const words = view[name] === null ? "" : String(view[name]);
      if (field.textContent !== words) field.textContent = words;
    }
  });
  source.addEventListener("final", (event) => { source.close(); location.replace(JSON.parse(event.data).location); });
}

// Drag across a trend to see a part of it: the dates of the form are set, and it is sent.
function brush(form) {
  for (const plot of document.querySelectorAll("svg.trend")) {
    const runs = [...plot.querySelectorAll("a.point")];
    let start = null, area = null;
    const at = (event) => { const box = plot.getBoundingClientRect(); return ((event.clientX - box.left) / box.width) * plot.viewBox.baseVal.width; };
    plot.addEventListener("pointerdown", (event) => { if (!event.target.closest("a")) { start = at(event); event.preventDefault(); } });
    plot.addEventListener("pointermove", (event) => {
      if (start === null) return;
      area ??= plot.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
      const end = at(event);
      for (const [name, value] of Object.entries({ class: "brush", x: Math.min(start, end), y: 0, width: Math.abs(end - start), height: plot.viewBox.baseVal.height })) area.setAttribute(name, value);
    });
    plot.addEventListener("pointerup", (event) => {
      const [low, high] = [start, at(event)].sort((a, b) => a - b);
      area?.remove();
      area = null;
      const begun = start !== null;
      start = null;
      const days = runs.filter((run) => { const box = run.getBBox(); const x = box.x + box.width / 2; return x >= low && x <= high; }).map((run) => run.textContent.match(/\d{4}-\d\d-\d\d/)?.[0]).filter(Boolean).sort();
      if (!begun || high - low < 8 || !days.length) return;
      form.elements.since.value = days[0];
      form.elements.until.value = days.at(-1);
      form.requestSubmit();
    });
  }
}

document.querySelectorAll("[data-live]").forEach(follow);
document.querySelectorAll("form[data-auto]").forEach((form) => form.addEventListener("change", () => form.requestSubmit()));
document.querySelectorAll("form[data-chosen]").forEach(keepChosen);
document.querySelectorAll("form[data-brush]").forEach(brush);
