// Optional: follows progress and saves clicks. Every page works without it.
"use strict";

function follow(box) {
  const source = new EventSource(box.dataset.live);
  const fields = new Map([...box.querySelectorAll("[data-field]")].map((each) => [each.dataset.field, each]));

  function show(view) {
    for (const [name, field] of fields) {
      if (!(name in view)) continue;
      if (name !== "share") {
        // Written only where it changed: a screen reader announces the message, not every tick.
        const words = view[name] === null ? "" : String(view[name]);
        if (field.textContent !== words) field.textContent = words;
      } else if (view.share === null) field.removeAttribute("value");
      else field.value = view.share;
    }
  }

  source.addEventListener("progress", (event) => show(JSON.parse(event.data)));
  source.addEventListener("final", (event) => {
    source.close();
    location.replace(JSON.parse(event.data).location);
  });
}

function submitOnChange(form) {
  form.addEventListener("change", (event) => {
    if (event.target.matches("select")) form.requestSubmit();
  });
}

function countChosen(form) {
  const buttons = [...form.querySelectorAll("button[data-least]")];
  const words = new Map(buttons.map((button) => [button, button.textContent]));
  const update = () => {
    const chosen = form.querySelectorAll("input[name=run]:checked").length;
    for (const button of buttons) {
      const enough = chosen >= Number(button.dataset.least);
      button.disabled = !enough;
      if (button.dataset.words) button.textContent = enough ? `${button.dataset.words} ${chosen} runs` : words.get(button);
    }
  };
  form.addEventListener("change", update);
  window.addEventListener("pageshow", update);
  update();
}

function showBusy(form) {
  form.addEventListener("submit", () => {
    const button = form.querySelector("button");
    button.disabled = true;
    button.textContent = "Checking…";
  });
}

function walk(table) {
  const rows = [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll("td button")]);
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    const row = rows.findIndex((links) => links.includes(document.activeElement));
    if (row < 0) return;
    const next = rows[row + step[0]]?.[rows[row].indexOf(document.activeElement) + step[1]];
    if (next) { event.preventDefault(); next.focus(); }
  });
}

// Says what is wrong with a field as soon as it was changed, in the words of the server.
function validate(form) {
  const address = form.getAttribute("data-validate"); // form.dataset is the field of that name
  const touched = new Set();
  let timer = 0, latest = 0;
  const mark = (name, words) => {
    const place = form.querySelector(`[data-error="${CSS.escape(name)}"]`);
    if (place && place.textContent !== words) place.textContent = words;
    const control = name && form.elements[name];
    if (control?.setAttribute) words ? control.setAttribute("aria-invalid", "true") : control.removeAttribute("aria-invalid");
  };
  const ask = async () => {
    const asked = (latest += 1);
    const answer = await fetch(address, { method: "POST", body: new URLSearchParams(new FormData(form)) }).catch(() => null);
    if (!answer?.ok || asked !== latest) return;
    const problems = await answer.json();
    for (const place of form.querySelectorAll("[data-error]")) {
      const name = place.dataset.error;
      mark(name, touched.has(name) || name === "" ? problems[name] ?? "" : place.textContent && (problems[name] ?? ""));
    }
  };
  form.addEventListener("input", (event) => {
    touched.add(event.target.name);
    clearTimeout(timer);
    timer = setTimeout(ask, 300);
  });
}

// Each key does what its button or link does, once: the next page is for the next key.
function pressByKey(box) {
  let busy = false;
  window.addEventListener("pageshow", () => { busy = false; });
  document.addEventListener("keydown", (event) => {
    if (busy || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    const control = box.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
    if (control) { busy = true; event.preventDefault(); control.click(); }
  });
}

document.querySelectorAll("[data-live]").forEach(follow);
document.querySelectorAll("form[data-auto]").forEach(submitOnChange);
document.querySelectorAll("form[data-choose]").forEach(countChosen);
document.querySelectorAll("form[data-busy]").forEach(showBusy);
document.querySelectorAll("table[data-walk]").forEach(walk);
document.querySelectorAll("[data-keys]").forEach(pressByKey);
document.querySelectorAll("form[data-validate]").forEach(validate);
