// Before and after training: the table that a run ends with, with the seeds of a group pooled.

const VERDICTS = { rose: "rose", fell: "fell", undecided: "no difference can be told" };

const LEAST_PROMPTS = 20; // nothing is claimed of fewer, as in the sentences at a run's end

// of one run the interval over its prompts, of several that of the mean over runs, if they differ
function changeOf(runs, metric) {
  const rows = runs.map((run) => run.before.find((row) => row.metric === metric)).filter(Boolean);
  const differences = rows.map((row) => row.after - row.before);
  const found = {
    before: mean(rows.map((row) => row.before)),
    after: mean(rows.map((row) => row.after)),
    difference: mean(differences),
    low: rows[0].low,
    high: rows[0].high,
    n: rows[0].n === null ? "" : `${rows[0].n} prompts`,
  };
  found.judged = rows[0].n !== null; // not numbers of the training, which are of other prompts
  if (rows.length < 2) return { ...found, few: rows[0].n < LEAST_PROMPTS };
  const half = halfInterval(differences, Math.max(...rows.flatMap((row) => [row.before, row.after]).map(Math.abs)));
  const [low, high] = half === null ? [null, null] : [found.difference - half, found.difference + half];
  return { ...found, low, high, n: `${rows.length} runs` };
}

function verdictOf({ low, high, judged, few }) {
  if (!judged || low === null || high === null) return "";
  if (few) return VERDICTS.undecided;
  return low > 0 ? VERDICTS.rose : high < 0 ? VERDICTS.fell : VERDICTS.undecided;
}

const signed = (value, digits = 3) => (value > 0 ? `+${short(value, digits)}` : short(value, digits) || "0");

function changesTable(label, runs) {
  const metrics = distinct(runs.flatMap((run) => run.before.map((row) => row.metric)));
  const names = ["metric", "before", "after", "difference", "95 % interval", "from", "verdict"];
  const head = el("tr", {}, names.map((name) => el("th", {}, name)));
  const calledOf = (metric) => runs.flatMap((run) => run.before).find((row) => row.metric === metric).called;
  const rows = metrics.map((metric) => {
    const found = changeOf(runs, metric);
    const interval = found.low === null ? "" : `${signed(found.low)} to ${signed(found.high)}`;
    const verdict = verdictOf(found);
    const cells = [short(found.before, 3), short(found.after, 3), signed(found.difference), interval, found.n];
    return el(
      "tr",
      {},
      el("td", { title: metric }, calledOf(metric)),
      cells.map((text) => el("td", { class: "number" }, text)),
      el("td", { class: `verdict ${verdict}` }, verdict),
    );
  });
  const count = `${runs.length} run${runs.length > 1 ? "s" : ""}`;
  return el(
    "section",
    {},
    el("h3", {}, swatch(label), label, el("span", { class: "count" }, count)),
    el("div", { class: "wide" }, el("table", { class: "runs plain" }, el("thead", {}, head), el("tbody", {}, rows))),
  );
}

function drawBefore(main) {
  const runs = shown().filter((run) => run.before.length);
  if (!runs.length) return fill(main, el("p", { class: "quiet" }, "None of the runs shown was evaluated before its training."));
  const left = shown().length - runs.length;
  fill(
    main,
    el("div", { class: "controls" }, groupField()),
    pooledNote(),
    [...grouped(runs)].map(([label, own]) => changesTable(label, own)),
    el(
      "p",
      { class: "quiet" },
      "The same prompts before and after. Interval: of one run paired over its prompts; of several runs that of their mean (Student's t), and none where all of them changed by the same. Where it contains 0, no difference can be told; of two or three runs it is wide, and \"every run on its own\" shows the interval of each. KL: first iteration, and mean of the last ten.",
      left ? ` ${left} of the runs shown have no such table.` : "",
    ),
  );
}
