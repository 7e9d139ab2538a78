"use strict";
// Elements, made of attributes and text nodes alone: no text of a run is ever read as HTML.

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean" || name === "value") node[name] = value;
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null));
}

// plotly reads some tags and entities in labels
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function option(value, text, chosen) {
  return el("option", { value, selected: value === chosen }, text);
}

function choice(label, values, chosen, onchange, names = {}) {
  const options = values.map((value) => option(String(value), names[value] ?? value, String(chosen)));
  const select = el("select", { onchange: (event) => onchange(event.target.value) }, options);
  return el("label", { class: "field" }, el("span", {}, label), select);
}

function tick(text, checked, onchange, note = null) {
  const box = el("input", { type: "checkbox", checked, onchange: (e) => onchange(e.target.checked) });
  const words = el("span", { title: text }, text.length > 60 ? `${text.slice(0, 60)} ...` : text);
  return el("label", { class: "tick" }, box, words, note && el("span", { class: "count" }, note));
}

// an element with a caption that opens it; `open` is remembered in the state, not in the address
const opened = new Map();

function folded(key, caption, open, ...children) {
  const remember = (event) => opened.set(key, event.target.open);
  const isOpen = opened.has(key) ? opened.get(key) : open;
  const summary = el("summary", {}, caption);
  return el("details", { open: isOpen, ontoggle: remember }, summary, children);
}

// drawing again makes new elements: the one that had the focus is found by what it says
function focusName(node) {
  const place = node.closest("#head, #filters, #legend, #main");
  const group = node.closest("details")?.querySelector("summary").textContent ?? "";
  const words = node.getAttribute("aria-label") ?? (node.closest("label") ?? node).textContent;
  return place && `#${place.id} ${node.tagName} ${group.replace(/ \d+\/\d+$/, "")} ${words.slice(0, 80)}`;
}

function keepingFocus(draw) {
  const name = focusName(document.activeElement);
  draw();
  if (!name || document.activeElement !== document.body) return;
  const all = document.querySelectorAll(`${name.split(" ")[0]} :is(input, button, select, summary)`);
  [...all].find((node) => focusName(node) === name)?.focus({ preventScroll: true });
}

async function unpacked(id) {
  const node = document.getElementById(id);
  const text = atob(node.content.textContent);
  node.remove(); // the browser need not keep it twice
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
