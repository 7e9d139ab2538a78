// Win rates: who against whom, of runs that play games in their evaluations.

const RATE = /^eval\/win_rate(_attacker|_defender)?$/;
const ROLES = { "": "mean of both roles", _attacker: "as attacker", _defender: "as defender" };

const withGames = () => shown().filter((run) => Object.keys(run.series.metrics).some((name) => RATE.test(name)));

// the rate at an evaluation, or the last one; null where there is none
function rateAt(run, metric, opponent) {
  const line = lineOf(run, metric, opponent);
  if (!line) return null;
  const place = state.at === "last" ? line.y.length - 1 : line.x.indexOf(Number(state.at));
  return place < 0 ? null : line.y[place];
}

function cellOf(runs, opponent) {
  const metric = `eval/win_rate${state.role}`;
  const played = runs.filter((run) => rateAt(run, metric, opponent) !== null);
  const known = played.map((run) => rateAt(run, metric, opponent));
  if (!known.length) return el("td", { class: "none", title: "not played" }, "");
  const middle = mean(known);
  let half = halfInterval(known);
  let how = `95 % interval over ${known.length} runs`;
  if (half === null) {
    half = halfFromErrors(played.map((run) => rateAt(run, `${metric}_se`, opponent)));
    how = "95 % interval over words, from the standard error";
  }
  const cell = el("td", { title: half === null ? "" : how }, `${(100 * middle).toFixed(0)} %`);
  if (half !== null) cell.append(el("small", {}, ` ± ${(100 * half).toFixed(0)}`));
  const strength = Math.min(1, Math.abs(middle - 0.5) * 2) * 0.75;
  cell.style.background = withAlpha(middle >= 0.5 ? "#0072B2" : "#D55E00", strength.toFixed(2));
  return cell;
}

function drawMatrices(main) {
  const runs = withGames();
  if (!runs.length) return fill(main, el("p", { class: "quiet" }, "None of the runs shown has win rates."));
  const opponents = distinct(runs.flatMap((run) => Object.keys(run.series.metrics["eval/win_rate"] ?? {}))).sort();
  const times = distinct(
    runs.flatMap((run) => opponents.flatMap((opponent) => lineOf(run, "eval/win_rate", opponent)?.x ?? [])),
  ).sort((a, b) => a - b);
  const roles = Object.keys(ROLES).filter((role) => runs.some((run) => `eval/win_rate${role}` in run.series.metrics));
  const head = el("tr", {}, el("th", {}, "player"), opponents.map((opponent) => el("th", {}, `against ${opponent}`)));
  const rows = [...grouped(runs)].map(([label, own]) =>
    el("tr", {}, el("th", {}, swatch(label), label, el("span", { class: "count" }, `${own.length} run${own.length > 1 ? "s" : ""}`)), opponents.map((opponent) => cellOf(own, opponent))),
  );
  const names = Object.fromEntries([["last", "the last one"], ...times.map((at) => [at, `after iteration ${at}`])]);
  fill(
    main,
    el(
      "div",
      { class: "controls" },
      choice("role", roles, state.role, (v) => ((state.role = v), changed()), ROLES),
      choice("evaluation", ["last", ...times], state.at, (v) => ((state.at = v), changed()), names),
      groupField(),
    ),
    pooledNote(),
    el("div", { class: "wide" }, el("table", { class: "matrix" }, el("thead", {}, head), el("tbody", {}, rows))),
    el("p", { class: "quiet" }, "Share of games that the player of the row wins; a tie counts one half. Blue: more than half. ±: 95 % interval, over runs where a group has several that differ (Student's t), else over words."),
  );
}
