// The page: header, tabs, and drawing again what a choice changes.

const TABS = {
  runs: ["Runs", () => true, drawRuns],
  curves: ["Curves", () => true, drawCurves],
  samples: ["Samples", () => data.runs.some((run) => run.samples.length), drawSamples],
  before: ["Before and after", () => data.runs.some((run) => run.before.length), drawBefore],
  matrices: ["Win rates", () => data.runs.some((run) => Object.keys(run.series.metrics).some((n) => RATE.test(n))), drawMatrices],
};

function drawHead() {
  const tabs = Object.entries(TABS).filter(([, [, has]]) => has());
  if (!tabs.some(([name]) => name === state.tab)) state.tab = "runs";
  const buttons = tabs.map(([name, [title]]) => {
    const go = () => ((state.tab = name), changed());
    return el("button", { type: "button", role: "tab", "aria-selected": String(name === state.tab), onclick: go }, title);
  });
  const count = `${shown().length} of ${data.runs.length} runs shown`;
  const notes = data.notes.length
    ? folded("notes", `${data.notes.length} left out`, false, el("ul", {}, data.notes.map((note) => el("li", {}, note))))
    : null;
  fill(
    document.getElementById("head"),
    el("div", { class: "line" }, el("h1", {}, "cory"), el("nav", { role: "tablist" }, buttons), el("span", { class: "quiet" }, count)),
    notes,
    repeatedNote(),
  );
}

function repeatedNote() {
  const repeated = data.runs.filter((run) => run.repeated);
  if (!repeated.length) return null;
  const text = `${repeated.length} of runs with equal settings and seed: all but the last one are switched off at the start (${repeated.map((run) => run.name).join(", ")}).`;
  return el("p", { class: "warning" }, text);
}

// filters too: unless a text is being typed there
function changed(filters = true) {
  writeAddress();
  keepingFocus(() => {
    drawHead();
    if (filters) drawFilters();
    TABS[state.tab][2](document.getElementById("main"));
  });
}

function run(text) {
  const script = document.createElement("script");
  script.textContent = text;
  document.head.append(script);
}

async function start() {
  try {
    data = JSON.parse(await unpacked("data"));
    run(await unpacked("plotly"));
    state.metrics = data.panels;
    data.runs.filter((one) => one.repeated).forEach((one) => state.hidden.add(one.name));
    readAddress();
    changed();
    document.body.dataset.ready = "yes";
  } catch (error) {
    fill(document.getElementById("main"), el("p", { class: "warning" }, `This page could not be drawn: ${error}. It needs a browser of 2023 or later.`));
    throw error;
  }
}

window.addEventListener("hashchange", () => location.reload());
start();
