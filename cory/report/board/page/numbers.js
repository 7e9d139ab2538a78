// Numbers: how they are written, pooled over seeds, and smoothed.

function short(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-4) return value.toExponential(2);
  return String(Number(value.toPrecision(digits)));
}

function duration(seconds) {
  if (seconds === undefined) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// of the sample (n - 1); null of a single value
function deviation(values) {
  if (values.length < 2) return null;
  const middle = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  return Math.sqrt(squares / (values.length - 1));
}

// 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom
const QUANTILES = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045,
];

function halfInterval(values) {
  const spread = deviation(values);
  if (spread === null) return null;
  return ((QUANTILES[values.length - 2] ?? 1.96) * spread) / Math.sqrt(values.length);
}

// exponential moving average, without a bias to the start; a missing value stays missing
function smoothed(values, weight) {
  if (!weight) return values;
  let sum = 0;
  let mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

// of several runs: mean and band at the iterations that all of them have
function pooled(lines, band) {
  const maps = lines.map(({ x, y }) => new Map(x.map((at, place) => [at, y[place]])));
  const x = lines[0].x.filter((at) => maps.every((map) => (map.get(at) ?? null) !== null));
  const found = { x, y: [], low: [], high: [] };
  for (const at of x) {
    const values = maps.map((map) => map.get(at));
    const middle = mean(values);
    found.y.push(middle);
    const half = band === "interval" ? halfInterval(values) : deviation(values);
    found.low.push(band === "range" ? Math.min(...values) : middle - half);
    found.high.push(band === "range" ? Math.max(...values) : middle + half);
  }
  return found;
}
