// What is chosen; it stands in the address after #, so that a view can be kept and sent.

let data = null;
let tab = null;

const state = {
  tab: "runs",
  not: new Map(), // setting -> the values that are filtered out
  hidden: new Set(), // names of runs that are taken out one by one
  off: new Set(), // groups that the legend switches off
  search: "",
  metrics: [],
  who: null, // null: agents, not their roles a second time
  group: null, // settings; null: those that tell groups apart
  smooth: 0,
  band: "std",
  log: false,
  rows: "runs",
  sort: null,
  down: false,
  left: {},
  right: {},
  find: "",
  differ: false,
  role: "",
  at: "last",
};

const LISTS = ["metrics", "who", "group"];
const SETS = ["hidden", "off"];
const WORDS = ["tab", "search", "band", "rows", "sort", "find", "role", "at"];
const FLAGS = ["log", "down", "differ"];
const SIDES = ["left", "right"];

function readAddress() {
  const read = new URLSearchParams(location.hash.slice(1));
  for (const name of WORDS) if (read.has(name)) state[name] = read.get(name);
  for (const name of FLAGS) if (read.has(name)) state[name] = read.get(name) === "1";
  for (const name of LISTS) if (read.has(name)) state[name] = read.getAll(name).filter(Boolean);
  for (const name of SETS) if (read.has(name)) state[name] = new Set(read.getAll(name));
  if (read.has("smooth")) state.smooth = Math.min(0.99, Math.max(0, Number(read.get("smooth")) || 0));
  for (const side of SIDES) {
    for (const part of ["run", "kind", "iteration", "who"]) {
      if (read.has(`${side}.${part}`)) state[side][part] = read.get(`${side}.${part}`);
    }
  }
  for (const [name, value] of read) {
    if (name.startsWith("not.")) notOf(name.slice(4)).add(value);
  }
}

function writeAddress() {
  const written = new URLSearchParams();
  for (const name of WORDS) if (state[name]) written.set(name, state[name]);
  for (const name of FLAGS) if (state[name]) written.set(name, "1");
  for (const name of LISTS) {
    if (state[name]) (state[name].length ? state[name] : [""]).forEach((v) => written.append(name, v));
  }
  for (const name of SETS) state[name].forEach((value) => written.append(name, value));
  if (state.smooth) written.set("smooth", state.smooth);
  for (const side of SIDES) {
    for (const [part, value] of Object.entries(state[side])) written.set(`${side}.${part}`, value);
  }
  for (const [key, values] of state.not) values.forEach((v) => written.append(`not.${key}`, v));
  try {
    history.replaceState(null, "", `#${written}`);
  } catch (error) {
    // a browser that refuses this for files: the view works, but its address does not say it
  }
}

function notOf(key) {
  if (!state.not.has(key)) state.not.set(key, new Set());
  return state.not.get(key);
}

// whom a metric is about, as the summary of a run calls agents: "agent 0", "agent 1, turn 2"
function whoName(who) {
  const found = /^(?:(agent|generation|critic)_(\d+))?_?(?:turn_(\d+))?$/.exec(who);
  if (!who || !found) return who.replace(/_/g, " ");
  const [, kind, number, turn] = found;
  const agent = kind ? `${kind === "agent" ? "agent" : `${kind} agent`} ${number}` : null;
  return [agent, turn ? `turn ${turn}` : null].filter(Boolean).join(", ");
}

const MISSING = "(not there)"; // a setting that a run does not have

function told(run, key) {
  return run.told[data.differing.indexOf(key)] ?? MISSING;
}

function passes(run) {
  for (const [key, values] of state.not) {
    if (data.differing.includes(key) && values.has(told(run, key))) return false;
  }
  return run.name.toLowerCase().includes(state.search.toLowerCase());
}

// those that the filters let through, and of these the ones that are not taken out by hand
const filtered = () => data.runs.filter(passes);
const shown = () => filtered().filter((run) => !state.hidden.has(run.name));
