// Texts side by side: two runs, or two iterations of one run, at the same prompts.

const KINDS = { before: "evaluation before training" };

function withSamples() {
  return filtered().filter((run) => run.samples.length);
}

const distinct = (items) => [...new Set(items)];

// what is chosen on one side, made possible where the run does not have it
function settled(side, fallback) {
  const runs = withSamples();
  const want = state[side];
  const run = runs.find((other) => other.name === want.run) ?? fallback.run;
  const kinds = distinct(run.samples.map((line) => line.kind));
  const first = [fallback.early ? "before" : null, "evaluation", kinds[0]].find((name) => kinds.includes(name));
  const kind = kinds.includes(want.kind) ? want.kind : first;
  const ofKind = run.samples.filter((line) => line.kind === kind);
  const times = distinct(ofKind.map((line) => line.iteration)).sort((a, b) => a - b);
  const iteration = times.includes(Number(want.iteration)) && want.iteration !== undefined
    ? Number(want.iteration)
    : fallback.early ? times[0] : times[times.length - 1];
  const whom = distinct(ofKind.filter((line) => line.iteration === iteration).map((line) => line.who));
  const who = whom.includes(want.who) ? want.who : whom[0];
  const lines = ofKind.filter((line) => line.iteration === iteration && line.who === who);
  return { run, kind, iteration, who, kinds, times, whom, lines };
}

function sideField(side, now) {
  const set = (part) => (value) => {
    state[side] = { run: now.run.name, kind: now.kind, iteration: String(now.iteration), who: now.who, [part]: value };
    changed();
  };
  const runs = withSamples().map((run) => run.name);
  const names = Object.fromEntries(withSamples().map((run) => [run.name, longName(run)]));
  return el(
    "div",
    { class: "side" },
    choice("run", runs, now.run.name, set("run"), names),
    choice("texts of", now.kinds, now.kind, set("kind"), KINDS),
    now.times.length > 1 ? choice("iteration", now.times, now.iteration, set("iteration"), whenNames(now.times)) : null,
    now.whom.length > 1 ? choice("who", now.whom, now.who, set("who")) : null,
  );
}

// the iterations of the files count from 0; -1 is before the training
const whenNames = (times) => Object.fromEntries(times.map((at) => [at, at < 0 ? "before training" : String(at + 1)]));

function longName(run) {
  const seed = data.differing.includes("seed") ? `, seed ${told(run, "seed")}` : "";
  return data.runs.length > 1 ? `${run.name} (${groupOf(run)}${seed})` : run.name;
}

// ids alone name different prompts in runs of different data; the prompts of a training have several episodes
function keyed(lines) {
  const times = new Map();
  return lines.map((line) => {
    const prompt = `${line.id} ${line.prompt} ${line.sample}`;
    times.set(prompt, (times.get(prompt) ?? 0) + 1);
    return [`${prompt} ${times.get(prompt)}`, line];
  });
}

// of a game what it was worth to the policy that is evaluated: both players' scores add up to nothing
function scoreOf(line) {
  const own = line.end ? line.turns.filter((turn) => turn.agent === line.policy) : line.turns;
  const known = own.map((turn) => turn.score).filter((score) => score !== null);
  return known.length ? mean(known) : null;
}

function pairsOf(left, right) {
  const there = new Map(keyed(right.lines));
  const both = keyed(left.lines).filter(([key]) => there.has(key));
  if (both.length) return { pairs: both.map(([key, line]) => [line, there.get(key)]), common: true };
  const count = Math.max(left.lines.length, right.lines.length);
  const pairs = Array.from({ length: count }, (_, i) => [left.lines[i] ?? null, right.lines[i] ?? null]);
  return { pairs, common: false };
}

const textOf = (place) => (place === null ? null : data.strings[place]);

function contains(line, words) {
  if (!line) return false;
  const texts = [line.prompt, ...line.turns.map((turn) => turn.response)].map(textOf);
  return texts.some((text) => text !== null && text.toLowerCase().includes(words));
}

// as the summary of a run says it: the agent with its role, in a debate the place and the turn
function speakerOf({ agent, role }) {
  if (role === "solo" || !role) return whoName(agent);
  const place = /^debater_(\d+)$/.exec(role);
  if (!place) return agent ? `${whoName(agent)} (${role})` : role;
  const turn = /turn_\d+$/.exec(agent);
  return `agent ${place[1]}${turn ? `, ${whoName(turn[0])}` : ""}`;
}

function turnOf(turn) {
  const response = textOf(turn.response);
  const score = turn.score === null ? null : el("span", { class: "score" }, short(turn.score, 3));
  const context = textOf(turn.context);
  const who = speakerOf(turn);
  const text = response === null
    ? el("p", { class: "quiet" }, "no answer: the turn never came")
    : response === "" ? el("p", { class: "quiet" }, "an empty answer") : el("p", { class: "text" }, response);
  const saw = context ? el("details", {}, el("summary", {}, "what it saw"), el("p", { class: "text quiet" }, context)) : null;
  return el("div", { class: "turn" }, el("p", { class: "role" }, who, score), text, saw);
}

function cardSide(line) {
  if (!line) return el("div", { class: "answer" }, el("p", { class: "quiet" }, "no such prompt"));
  const end = line.end ? el("p", { class: "quiet" }, `end of the game: ${line.end}`) : null;
  return el("div", { class: "answer" }, line.turns.map(turnOf), end);
}

function promptOf(line) {
  const number = line.sample === null || line.sample === undefined ? "" : ` · response ${line.sample + 1}`;
  const answer = line.answer === null ? null : el("p", { class: "quiet" }, `right answer: ${textOf(line.answer)}`);
  return el("div", { class: "prompt" }, el("p", { class: "quiet" }, `${textOf(line.id)}${number}`), el("p", { class: "text" }, textOf(line.prompt)), answer);
}

function card([left, right], common) {
  const prompts = common ? [promptOf(left)] : [el("div", { class: "two" }, left ? promptOf(left) : el("div"), right ? promptOf(right) : el("div"))];
  return el("article", {}, prompts, el("div", { class: "two" }, cardSide(left), cardSide(right)));
}

function average(now, lines) {
  const known = lines.filter(Boolean).map(scoreOf).filter((score) => score !== null);
  return known.length ? `mean score ${short(mean(known), 3)} over ${known.length}` : "no scores";
}

let most = 20;

function drawSamples(main) {
  const runs = withSamples();
  if (!runs.length) return fill(main, el("p", { class: "quiet" }, "None of the runs that pass the filters has samples."));
  const left = settled("left", { run: runs[0], early: true });
  const right = settled("right", { run: left.kind === "before" || left.times.length > 1 ? left.run : runs[1] ?? runs[0], early: false });
  const { pairs, common } = pairsOf(left, right);
  const words = state.find.toLowerCase();
  const kept = pairs.filter(([a, b]) => {
    if (words && !contains(a, words) && !contains(b, words)) return false;
    return !state.differ || (a && b && scoreOf(a) !== scoreOf(b));
  });
  const find = el("input", {
    type: "search",
    placeholder: "prompt or answer contains ...",
    value: state.find,
    "aria-label": "prompt or answer contains",
    onchange: (event) => ((state.find = event.target.value), changed()),
  });
  const differ = tick("only different scores", state.differ, (on) => ((state.differ = on), changed()));
  const more = kept.length > most
    ? el("button", { type: "button", onclick: () => ((most += 20), changed()) }, `show more (${kept.length - most} left)`)
    : null;
  const warn = common ? null : el("p", { class: "warning" }, "No prompt is on both sides: the texts are shown in the order in which they were recorded.");
  fill(
    main,
    el("div", { class: "two sides" }, sideField("left", left), sideField("right", right)),
    el("div", { class: "controls" }, find, differ, el("span", { class: "quiet" }, `${kept.length} of ${pairs.length} prompts`)),
    warn,
    el("div", { class: "two quiet" }, el("p", {}, average(left, kept.map(([a]) => a))), el("p", {}, average(right, kept.map(([, b]) => b)))),
    kept.slice(0, most).map((pair) => card(pair, common)),
    more,
    el("p", { class: "quiet" }, keptNote([left.run, right.run])),
  );
}

function keptNote(runs) {
  const parts = distinct(runs).map((run) => `${run.samples.length} of ${run.sample_lines} lines of ${run.name}`);
  return `This file has ${parts.join(", ")}: at most five iterations of each kind, and of an evaluation the first ${data.limits.prompts} prompts of each agent. samples.jsonl has all.`;
}
