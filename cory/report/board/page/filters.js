// The column on the left: every setting that differs, with its values.

function values(key) {
  const counts = new Map();
  for (const run of data.runs) counts.set(told(run, key), (counts.get(told(run, key)) ?? 0) + 1);
  const number = (text) => (text.trim() !== "" && !Number.isNaN(Number(text)) ? Number(text) : null);
  const order = ([a], [b]) => {
    const [first, second] = [number(a), number(b)];
    if (first !== null && second !== null) return first - second;
    return a.localeCompare(b);
  };
  return [...counts].sort(order);
}

function setting(key, open) {
  const out = notOf(key);
  const every = values(key);
  const ticks = every.map(([value, count]) => {
    const set = (on) => {
      if (on) out.delete(value);
      else out.add(value);
      changed();
    };
    return tick(value, !out.has(value), set, String(count));
  });
  const only = el("button", { type: "button", onclick: () => (out.clear(), changed()) }, "all");
  const none = () => (every.forEach(([value]) => out.add(value)), changed());
  const buttons = el("p", { class: "few" }, only, el("button", { type: "button", onclick: none }, "none"));
  const active = every.filter(([value]) => out.has(value)).length;
  const caption = [key, active ? el("span", { class: "active" }, ` ${every.length - active}/${every.length}`) : null];
  return folded(`setting ${key}`, caption, open, every.length > 3 ? buttons : null, ticks);
}

function drawFilters() {
  const search = el("input", {
    type: "search",
    placeholder: "run name contains ...",
    value: state.search,
    "aria-label": "run name contains",
    oninput: (event) => {
      state.search = event.target.value;
      changed(false);
    },
  });
  const clear = () => {
    state.not.clear();
    state.hidden.clear();
    state.off.clear();
    state.search = "";
    changed();
  };
  const first = data.differing.filter((key) => data.telling.includes(key) || key === "seed");
  const rest = data.differing.filter((key) => !first.includes(key));
  const more = rest.length
    ? folded("rest", `${rest.length} other settings that differ`, false, rest.map((key) => setting(key, false)))
    : null;
  const nothing = data.differing.length ? null : el("p", { class: "quiet" }, "The settings of all runs are equal.");
  fill(
    document.getElementById("filters"),
    el("h2", {}, "Filters"),
    search,
    nothing,
    first.map((key, place) => setting(key, place < 6 && values(key).length < 9)),
    more,
    el("button", { type: "button", onclick: clear }, "show all runs"),
  );
}
