// Optional: panels without a reload, keys, the selection, live progress. Every page works without it.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function isTyping(event) {
  const field = event.target.matches("input:not([type=checkbox]), textarea, select");
  return field || event.ctrlKey || event.metaKey || event.altKey;
}

// --- panels and keys ------------------------------------------------------------------------------

// The server renders the block `panel` alone of the row's own address; it takes the place of ours.
async function openPanel(link) {
  const answer = await fetch(link.href, { headers: { fragment: "panel" } }).catch(() => null);
  if (!answer?.ok) {
    location.assign(link.href);
    return;
  }
  document.getElementById("panel").outerHTML = await answer.text();
  const row = link.closest("tr");
  for (const each of all("tr.on", row.parentElement)) {
    each.classList.remove("on");
    each.removeAttribute("aria-current");
  }
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

function step(by) {
  const rows = all("tr[data-row]");
  if (!rows.length) return;
  const here = rows.findIndex((row) => row.matches("[data-cursor], .on"));
  const row = rows[Math.max(0, Math.min(rows.length - 1, here + by))];
  const link = row.querySelector("a[data-panel]");
  if (link) {
    openPanel(link);
    return;
  }
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

// A key does what its button does, once: after one that leaves the page, the next is for the next page.
let leaving = false;
window.addEventListener("pageshow", () => {
  leaving = false;
});
document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return; // which has its own keys
  if (leaving || event.repeat || isTyping(event)) {
    if (event.key === "Escape") event.target.blur?.();
    return;
  }
  const buttons = all(`[data-key="${CSS.escape(event.key)}"]`);
  const button = buttons.find((each) => !each.disabled && each.offsetParent);
  const opens = event.key === "Enter" && event.target.matches("a, button, summary");
  if (button) {
    leaving = button.matches("[data-leaves]");
    event.preventDefault();
    button.click();
  } else if (actions[event.key] && !opens) {
    event.preventDefault();
    actions[event.key]();
  }
});

// --- the selection --------------------------------------------------------------------------------

// The chosen runs are kept for this tab, so that they survive paging, filters and other views.
function keepChosen(form) {
  const chosen = new Set(JSON.parse(sessionStorage.getItem("chosen") ?? "[]"));
  const bar = form.querySelector(".select-bar");
  const boxes = all("input[type=checkbox][name=run]", form);

  function show() {
    sessionStorage.setItem("chosen", JSON.stringify([...chosen]));
    for (const box of boxes) {
      box.checked = chosen.has(box.value);
      box.closest("tr").classList.toggle("on", box.checked);
    }
    // Runs of other pages are sent with those of this one.
    all("input[type=hidden][name=run]", form).forEach((each) => each.remove());
    for (const value of chosen) {
      if (boxes.some((box) => box.value === value)) continue;
      const field = Object.assign(document.createElement("input"), { type: "hidden", name: "run", value });
      form.append(field);
    }
    bar.classList.toggle("some", chosen.size > 0);
    bar.querySelector("[data-count]").textContent = `${chosen.size} chosen, the oldest is the reference`;
    form.querySelector("[data-all]").checked = boxes.every((box) => box.checked);
  }

  form.addEventListener("change", ({ target }) => {
    for (const box of target.matches("[data-all]") ? boxes : [target]) {
      if (target.checked) chosen.add(box.value);
      else chosen.delete(box.value);
    }
    show();
  });
  bar.querySelector("[data-clear]").addEventListener("click", () => {
    chosen.clear();
    show();
  });
  document.body.classList.add("scripted");
  window.addEventListener("pageshow", show);
  show();
}

// --- live progress and the brush of a trend -------------------------------------------------------

function follow(box) {
  const source = new EventSource(box.dataset.live);
  source.addEventListener("progress", (event) => {
    const view = JSON.parse(event.data);
    for (const field of all("[data-field]", box)) {
      const value = view[field.dataset.field];
      if (field.matches("progress")) {
        if (value === null) field.removeAttribute("value");
        else field.value = value;
      } else if (field.textContent !== value) {
        field.textContent = value; // only if it changed: a screen reader announces each change
      }
    }
  });
  source.addEventListener("final", (event) => {
    source.close();
    location.replace(JSON.parse(event.data).location);
  });
}

// Drag across a trend to see a part of it: the dates of the form are set, and it is sent.
function brush(form) {
  const plot = document.querySelector("svg.trend");
  if (!plot) return;
  const { width, height } = plot.viewBox.baseVal;
  const area = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  area.setAttribute("class", "brush");
  area.setAttribute("height", height);
  let start = null;

  function at(event) {
    const box = plot.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * width;
  }

  plot.addEventListener("pointerdown", (event) => {
    if (event.target.closest("a")) return;
    event.preventDefault();
    start = at(event);
    area.setAttribute("width", 0);
    plot.append(area);
  });
  plot.addEventListener("pointermove", (event) => {
    if (start === null) return;
    area.setAttribute("x", Math.min(start, at(event)));
    area.setAttribute("width", Math.abs(at(event) - start));
  });
  plot.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const [low, high] = [start, at(event)].sort((a, b) => a - b);
    start = null;
    area.remove();
    const days = all("a.point", plot)
      .filter((point) => {
        const { x, width } = point.getBBox();
        return low <= x + width / 2 && x + width / 2 <= high;
      })
      .map((point) => point.textContent.match(/\d{4}-\d\d-\d\d/)[0])
      .sort();
    if (high - low < 8 || !days.length) return;
    form.elements.since.value = days[0];
    form.elements.until.value = days.at(-1);
    form.requestSubmit();
  });
}

all("[data-live]").forEach(follow);
all("form[data-auto]").forEach((form) => form.addEventListener("change", () => form.requestSubmit()));
all("form[data-chosen]").forEach(keepChosen);
all("form[data-brush]").forEach(brush);
