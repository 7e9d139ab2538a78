// Curves: one panel for each metric, one colour for each group, one dash for each agent.

// Okabe and Ito's colours, as in the figures of the report, and five more for large sweeps
const COLOURS = [
  "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
  "#7B4FA3", "#8C613C", "#6B8E23", "#A6192E", "#5F6B7A",
];
const DASHES = ["solid", "dot", "dash", "dashdot", "longdash"];
const EACH = "every run on its own";
const NAMED = ["experiment", "scale"];

const MOST_WORDS = 4; // settings in a label, beside names

const groupKeys = () => state.group ?? data.telling;
const sameAs = (a, b) => a.length === b.length && a.every((key) => b.includes(key));
const leafOf = (key) => key.split(".").pop();
const isName = (key) => NAMED.includes(key) || leafOf(key) === "name";
const vary = (runs, key) => new Set(runs.map((run) => told(run, key))).size > 1;

// the values of the settings that runs are grouped by: of one group the same
const identity = (run, keys) =>
  keys.includes(EACH) ? run.name : JSON.stringify(keys.map((key) => told(run, key)));

// Names are said where they part the runs that the names before them leave together, and then the
// settings that differ between runs with these names; where they are many, only as many as needed.
function labelOf(run, keys) {
  if (keys.includes(EACH)) return run.name;
  let alike = data.runs;
  const words = [];
  const say = (key) => words.push(isName(key) ? told(run, key) : `${leafOf(key)}=${told(run, key)}`);
  const narrow = (key) => (alike = alike.filter((other) => told(other, key) === told(run, key)));
  for (const key of keys.filter(isName)) {
    if (vary(alike, key)) say(key);
    narrow(key);
  }
  const differing = keys.filter((key) => !isName(key) && vary(alike, key));
  for (const key of differing) {
    const needed = differing.length <= MOST_WORDS || vary(alike, key);
    if (needed) say(key);
    if (differing.length > MOST_WORDS) narrow(key);
  }
  return words.join(", ") || "all runs";
}

// label -> its runs, of all runs of the file; made once for each choice of settings
let groups = new Map();
let labels = new Map(); // name of a run -> its label
let madeFor = null;

function makeGroups() {
  const keys = groupKeys();
  if (madeFor === JSON.stringify(keys)) return;
  madeFor = JSON.stringify(keys);
  const known = new Map();
  labels = new Map();
  groups = new Map();
  for (const run of data.runs) {
    const own = identity(run, keys);
    if (!known.has(own)) {
      const label = labelOf(run, keys);
      known.set(own, groups.has(label) ? `${label} (${groups.size + 1})` : label);
      groups.set(known.get(own), []);
    }
    labels.set(run.name, known.get(own));
    groups.get(known.get(own)).push(run);
  }
}

function groupOf(run) {
  makeGroups();
  return labels.get(run.name);
}

function grouped(runs) {
  makeGroups();
  const own = [...groups].map(([label, every]) => [label, every.filter((run) => runs.includes(run))]);
  return new Map(own.filter(([, some]) => some.length));
}

// by the place among all groups, so that filters change no colour
function colourOf(label) {
  makeGroups();
  return COLOURS[[...groups.keys()].indexOf(label) % COLOURS.length];
}

const swatch = (label) => {
  const mark = el("span", { class: "swatch" });
  mark.style.background = colourOf(label);
  return mark;
};

function withAlpha(colour, alpha) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${parts.join(",")},${alpha})`;
}

// groups that pool runs which differ in more than their seed are named, never drawn silently
function pooledNote() {
  const mixed = [];
  for (const [label, runs] of grouped(shown())) {
    const keys = data.telling.filter((key) => vary(runs, key));
    if (keys.length) mixed.push(`"${label}" pools runs with different ${keys.join(", ")}`);
  }
  if (!mixed.length) return null;
  return el("p", { class: "warning" }, `Unlike runs in one group: ${mixed.join("; ")}.`);
}

function metricField() {
  const every = [...new Set(data.runs.flatMap((run) => Object.keys(run.series.metrics)))].sort();
  const left = every.filter((name) => !state.metrics.includes(name));
  const add = (name) => {
    state.metrics = [...state.metrics, name];
    changed();
  };
  const families = new Map();
  for (const name of left) {
    const family = name.split("/")[0];
    families.set(family, [...(families.get(family) ?? []), name]);
  }
  const options = [...families].map(([family, names]) =>
    el("optgroup", { label: family }, names.map((name) => option(name, name))),
  );
  const select = el(
    "select",
    { onchange: (event) => event.target.value && add(event.target.value), "aria-label": "add a metric" },
    option("", "add a metric ..."),
    options,
  );
  const chips = state.metrics.map((name) => {
    const drop = () => {
      state.metrics = state.metrics.filter((other) => other !== name);
      changed();
    };
    const cross = el("button", { type: "button", onclick: drop, "aria-label": `without ${name}` }, "×");
    return el("span", { class: "chip" }, name, cross);
  });
  return el("div", { class: "field" }, el("span", {}, "metrics"), el("div", { class: "chips" }, chips, select));
}

function whomField() {
  const every = whomOf(state.metrics).filter(Boolean);
  if (every.length < 2) return null;
  const now = whomShown(state.metrics);
  const ticks = every.map((who) =>
    tick(whoName(who), now.includes(who), (on) => {
      state.who = every.filter((other) => (other === who ? on : now.includes(other)));
      changed();
    }),
  );
  return el("div", { class: "field" }, el("span", {}, "of"), el("div", { class: "chips" }, ticks));
}

function groupField() {
  const now = groupKeys();
  const every = [...data.differing.filter((key) => values(key).length > 1), EACH];
  const first = every.filter((key) => data.telling.includes(key) || now.includes(key) || key === "seed" || key === EACH);
  const toTick = (key) =>
    tick(key, now.includes(key), (on) => {
      const next = on ? [...now, key] : now.filter((other) => other !== key);
      state.group = sameAs(next, data.telling) ? null : next;
      changed();
    });
  const rest = every.filter((key) => !first.includes(key));
  const more = rest.length ? folded("groups", `${rest.length} more`, false, rest.map(toTick)) : null;
  const ticks = el("div", { class: "chips" }, first.map(toTick), more);
  if (first.length <= 8) return el("div", { class: "field" }, el("span", {}, "group by"), ticks);
  const said = `${now.slice(0, 3).join(", ")}${now.length > 3 ? ` and ${now.length - 3} more` : ""}`;
  return el("div", { class: "field" }, el("span", {}, "group by"), folded("group by", said, false, ticks));
}

function smoothField() {
  const said = el("output", {}, state.smooth ? state.smooth.toFixed(2) : "off");
  const slide = el("input", {
    type: "range",
    min: 0,
    max: 0.99,
    step: 0.01,
    value: state.smooth,
    "aria-label": "smoothing",
    oninput: (event) => {
      state.smooth = Number(event.target.value);
      said.textContent = state.smooth ? state.smooth.toFixed(2) : "off";
      writeAddress();
      drawPanels();
    },
  });
  const title = "weight of an exponential moving average, of each run before runs are pooled";
  return el("label", { class: "field", title }, el("span", {}, "smoothing ", said), slide);
}

function drawCurves(main) {
  const bands = {
    std: "± standard deviation",
    interval: "95 % interval of the mean (t)",
    range: "lowest to highest",
    none: "none",
  };
  const band = choice("band over seeds", Object.keys(bands), state.band, (v) => ((state.band = v), changed()), bands);
  const log = tick("logarithmic", state.log, (on) => ((state.log = on), changed()));
  fill(
    main,
    el("div", { class: "controls" }, metricField(), whomField(), groupField(), smoothField(), band, el("div", { class: "field" }, el("span", {}, "y axis"), log)),
    pooledNote(),
    el("div", { id: "legend" }),
    el("div", { id: "panels" }),
  );
  drawPanels();
}

const STROKES = { solid: "", dot: "2 3", dash: "7 4", dashdot: "8 3 2 3", longdash: "13 4" };

function dashMark(dash) {
  const [svg, line] = ["svg", "line"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  const set = (node, values) => Object.entries(values).forEach(([name, value]) => node.setAttribute(name, value));
  set(svg, { width: 40, height: 8 });
  set(line, { x1: 0, x2: 40, y1: 4, y2: 4, stroke: "#444", "stroke-width": 2, "stroke-dasharray": STROKES[dash] });
  svg.append(line);
  return svg;
}

function drawLegend(own, whom) {
  const entries = own.map(([label, runs]) => {
    const flip = () => {
      if (!state.off.delete(label)) state.off.add(label);
      changed();
    };
    const seeds = `${runs.length} run${runs.length > 1 ? "s" : ""}`;
    const attributes = { type: "button", class: state.off.has(label) ? "off" : "", onclick: flip, title: "switch on and off" };
    return el("button", attributes, swatch(label), label, el("span", { class: "count" }, seeds));
  });
  const named = whom.filter(Boolean);
  const dashes = named.length < 2 ? [] : named.map((who) => {
    const line = dashMark(DASHES[whom.indexOf(who) % DASHES.length]);
    return el("span", { class: "entry" }, line, whoName(who));
  });
  const many = own.length > COLOURS.length ? `more than ${COLOURS.length} groups: colours repeat` : null;
  fill(document.getElementById("legend"), entries, dashes, many && el("span", { class: "quiet" }, many));
}

function drawPanels() {
  const whom = whomShown(state.metrics);
  const own = [...grouped(shown())];
  drawLegend(own, whom);
  const panels = document.getElementById("panels");
  const on = own.filter(([label]) => !state.off.has(label));
  while (panels.children.length > state.metrics.length) panels.lastChild.remove();
  // all of them before the first is drawn, which takes the width that it finds
  while (panels.children.length < state.metrics.length) {
    panels.append(el("figure", {}, el("h3"), el("div", { class: "plot" }), el("figcaption")));
  }
  state.metrics.forEach((metric, i) => drawPanel(panels.children[i], metric, on, whom));
  if (!state.metrics.length) fill(panels, el("p", { class: "quiet" }, "Choose a metric above."));
}

function lineOf(run, metric, who) {
  const found = run.series.metrics[metric]?.[who];
  return found ? { x: run.series.at[found[0]], y: found[1] } : null;
}

function tracesOf(label, runs, metric, who, dash, notes) {
  const lines = runs.map((run) => lineOf(run, metric, who)).filter(Boolean);
  if (!lines.length) return [];
  const smooth = lines.map(({ x, y }) => ({ x, y: smoothed(y, state.smooth) }));
  const curve = pooled(smooth, state.band);
  if (lines.length < runs.length) notes.add(`${label}: only ${lines.length} of ${runs.length} runs have it.`);
  const ends = lines.map(({ x }) => x[x.length - 1]);
  if (Math.min(...ends) < Math.max(...ends)) {
    notes.add(`${label}: its runs are pooled up to iteration ${Math.min(...ends)}, which all of them have.`);
  }
  const colour = colourOf(label);
  const name = plain(who ? `${label}: ${whoName(who)}` : label);
  const quiet = { mode: "lines", hoverinfo: "skip", showlegend: false, line: { width: 0 } };
  const traces = [];
  if (lines.length > 1 && state.band !== "none") {
    traces.push({ ...quiet, x: curve.x, y: curve.low });
    traces.push({ ...quiet, x: curve.x, y: curve.high, fill: "tonexty", fillcolor: withAlpha(colour, 0.16) });
  }
  if (state.smooth) {
    const raw = pooled(lines, state.band);
    traces.push({ ...quiet, x: raw.x, y: raw.y, line: { color: withAlpha(colour, 0.25), width: 1 } });
  }
  traces.push({
    x: curve.x,
    y: curve.y,
    name,
    mode: curve.x.length > 25 ? "lines" : "lines+markers",
    line: { color: colour, width: 2, dash },
    marker: { size: 5, color: colour },
    hovertemplate: `${name} (${lines.length})<br>after %{x} iterations: %{y:.4g}<extra></extra>`,
  });
  return traces;
}

// a metric in words, with its name
const titled = (metric) => (data.called[metric] ? `${data.called[metric]} (${metric})` : metric);

function drawPanel(figure, metric, own, whom) {
  const [title, plot, caption] = figure.children;
  title.textContent = titled(metric);
  const having = whomOf([metric]);
  const notes = new Set();
  const traces = own.flatMap(([label, runs]) =>
    whom
      .filter((who) => having.includes(who))
      .flatMap((who) => tracesOf(label, runs, metric, who, DASHES[whom.indexOf(who) % DASHES.length], notes)),
  );
  const axis = { gridcolor: "#e6e6e6", zerolinecolor: "#bbb", automargin: true };
  const layout = {
    height: 320,
    margin: { l: 50, r: 12, t: 8, b: 40 },
    showlegend: false,
    font: { family: "inherit", size: 12 },
    hovermode: "closest",
    xaxis: { ...axis, title: { text: "iterations done (0: before training)" } },
    yaxis: { ...axis, type: state.log ? "log" : "linear" },
    uirevision: metric,
  };
  Plotly.react(plot, traces, layout, {
    displaylogo: false,
    responsive: true,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    displayModeBar: "hover",
    toImageButtonOptions: { filename: metric.replace(/\//g, "_"), scale: 2 },
  });
  const stride = Math.max(1, ...having.map((who) => data.thinned[fullName(metric, who)] ?? 1));
  if (stride > 1) notes.add(`Thinned: each point is the mean of ${stride} neighbouring iterations.`);
  if (!traces.length) notes.add("None of the runs shown has this metric.");
  caption.textContent = [...notes].join(" ");
}
