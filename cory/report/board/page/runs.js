// The table: a row for every run, or for every group with its seeds pooled.

// whom a metric is about, without the roles that repeat what agents have
function whomOf(metrics) {
  const found = new Set();
  for (const run of data.runs) {
    for (const metric of metrics) Object.keys(run.series.metrics[metric] ?? {}).forEach((w) => found.add(w));
  }
  return [...found].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
}

const ROLE = /^(pioneer|observer)(_\d+)?$/;

function whomShown(metrics) {
  const every = whomOf(metrics);
  if (state.who) return every.filter((who) => who === "" || state.who.includes(who));
  const agents = every.some((who) => who.startsWith("agent_"));
  return every.filter((who) => !(agents && ROLE.test(who)));
}

const fullName = (metric, who) => (who ? `${metric}/${who}` : metric);

function metricColumns() {
  const columns = [];
  for (const metric of state.metrics) {
    for (const who of whomShown([metric])) {
      const name = fullName(metric, who);
      if (filtered().some((run) => name in run.end)) columns.push(name);
    }
  }
  return columns;
}

function rowsOfRuns(metrics) {
  return filtered().map((run) => ({
    run,
    cells: [
      run.name,
      groupOf(run),
      told(run, "seed") === MISSING ? run.settings.seed : told(run, "seed"),
      run.finished ? "finished" : "unfinished",
      run.iterations,
      run.facts.wall_s ?? null,
      ...metrics.map((name) => run.end[name] ?? null),
    ],
  }));
}

function rowsOfGroups(metrics) {
  return [...grouped(shown())].map(([label, runs]) => ({
    label,
    cells: [
      label,
      runs.length,
      ...metrics.map((name) => {
        const known = runs.map((run) => run.end[name] ?? null).filter((value) => value !== null);
        return known.length ? { middle: mean(known), spread: deviation(known), n: known.length } : null;
      }),
    ],
  }));
}

const sortable = (cell) => (cell !== null && typeof cell === "object" ? cell.middle : cell);

function ordered(rows, place) {
  if (place < 0) return rows;
  const sign = state.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [first, second] = [sortable(a.cells[place]), sortable(b.cells[place])];
    if (first === null || second === null) return (first === null) - (second === null);
    if (typeof first === "number" && typeof second === "number") return sign * (first - second);
    return sign * String(first).localeCompare(String(second), undefined, { numeric: true });
  });
}

function heading(name, title) {
  const sort = () => {
    state.down = state.sort === name ? !state.down : false;
    state.sort = name;
    changed();
  };
  const arrow = state.sort === name ? (state.down ? " ↓" : " ↑") : "";
  return el("th", { title }, el("button", { type: "button", onclick: sort }, breakable(name), arrow));
}

// a name that may be broken at its slashes
const breakable = (name) => name.split("/").flatMap((part, i) => (i ? ["/", el("wbr"), part] : [part]));

function written(cell, name) {
  if (cell === null || cell === undefined) return "";
  if (name === "time") return duration(cell);
  if (typeof cell === "object") {
    const spread = cell.spread === null ? "" : ` ± ${short(cell.spread, 2)}`;
    return `${short(cell.middle, 3)}${spread}`;
  }
  return typeof cell === "number" ? short(cell) : String(cell);
}

const open = new Set();

function drawRuns(main) {
  const metrics = metricColumns();
  const runs = state.rows === "runs";
  const names = runs ? ["run", "group", "seed", "state", "iterations", "time", ...metrics] : ["group", "runs", ...metrics];
  const rows = ordered(runs ? rowsOfRuns(metrics) : rowsOfGroups(metrics), names.indexOf(state.sort));
  const title = (name) =>
    metrics.includes(name)
      ? name.startsWith("eval/")
        ? `${words(name)}the last evaluation`
        : `${words(name)}mean over the last 10 iterations, or of all where there are fewer`
      : "sort";
  const words = (name) => {
    const family = Object.keys(data.called).find((metric) => name === metric || name.startsWith(`${metric}/`));
    return family ? `${data.called[family]}: ` : "";
  };
  const head = el("tr", {}, runs ? el("th", {}, "") : null, names.map((name) => heading(name, title(name))));
  const body = rows.flatMap((row) => (runs ? runRows(row, names) : [groupRow(row, names)]));
  const kinds = choice("rows", ["runs", "groups"], state.rows, (v) => ((state.rows = v), changed()), {
    runs: "one for each run",
    groups: "one for each group: mean ± std over its runs",
  });
  fill(
    main,
    el("div", { class: "controls" }, kinds, metricField(), whomField()),
    state.rows === "groups" ? pooledNote() : null,
    el("div", { class: "wide" }, el("table", { class: "runs" }, el("thead", {}, head), el("tbody", {}, body))),
    el("p", { class: "quiet" }, "Values: mean over the last 10 iterations; of eval/ metrics the last evaluation. A click on a run shows its settings."),
  );
}

function groupRow(row, names) {
  const numeric = (i) => (i ? "number" : "group");
  return el("tr", {}, row.cells.map((cell, i) => el("td", { class: numeric(i) }, i ? null : swatch(row.label), written(cell, names[i]))));
}

function runRows({ run, cells }, names) {
  const toggle = (on) => {
    if (on) state.hidden.delete(run.name);
    else state.hidden.add(run.name);
    changed();
  };
  const details = () => {
    if (open.has(run.name)) open.delete(run.name);
    else open.add(run.name);
    changed();
  };
  const box = el("input", {
    type: "checkbox",
    checked: !state.hidden.has(run.name),
    onchange: (event) => toggle(event.target.checked),
    "aria-label": `show ${run.name}`,
  });
  const data_ = cells.map((cell, i) => {
    const text = written(cell, names[i]);
    if (i === 0) return el("td", { class: "run" }, el("button", { type: "button", class: "link", onclick: details }, breakable(text)));
    if (i === 1) return el("td", { class: "group" }, swatch(groupOf(run)), text);
    return el("td", { class: typeof cell === "number" || i === 2 ? "number" : "" }, text);
  });
  const row = el("tr", { class: state.hidden.has(run.name) ? "out" : "" }, el("td", {}, box), data_);
  if (!open.has(run.name)) return [row];
  return [row, el("tr", { class: "detail" }, el("td", { colspan: names.length + 1 }, detailsOf(run)))];
}

function pairs(values) {
  const rows = values.map(([key, value]) => el("tr", {}, el("td", {}, key), el("td", {}, value)));
  return el("table", { class: "pairs" }, el("tbody", {}, rows));
}

function detailsOf(run) {
  const facts = [["directory", run.path], ...Object.entries(run.facts).map(([key, value]) => [key, fact(value)])];
  const settings = Object.entries(run.settings);
  const differing = settings.filter(([key]) => data.telling.includes(key) || key === "seed");
  const end = Object.entries(run.end).map(([key, value]) => [key, short(value)]);
  return el(
    "div",
    { class: "columns" },
    el("section", {}, el("h3", {}, "Run"), pairs(facts)),
    el("section", {}, el("h3", {}, "Settings that tell it apart"), pairs(differing)),
    folded(`all ${run.name}`, `all ${settings.length} settings`, false, pairs(settings)),
    folded(`end ${run.name}`, `all ${end.length} metrics at the end`, false, pairs(end)),
  );
}

const fact = (value) => (typeof value === "string" ? value : JSON.stringify(value));
