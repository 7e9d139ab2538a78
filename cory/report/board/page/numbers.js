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

const Z = 1.959964; // 97.5 % quantile of the normal law

// 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom
const QUANTILES = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045,
];

// beyond the list by the expansion around the normal quantile (Abramowitz and Stegun, 1964, 26.7.5)
function studentT(degrees) {
  const first = (Z ** 3 + Z) / 4;
  const second = (5 * Z ** 5 + 16 * Z ** 3 + 3 * Z) / 96;
  return QUANTILES[degrees - 1] ?? Z + first / degrees + second / degrees ** 2;
}

const ROUNDING = 1e-12; // relative to the numbers that are compared, as in claims/width.py

// half of the 95 % interval of a mean; null of a single value, and of values that are equal: these
// say nothing of how sure their mean is (docs/studies.md)
// scale: of differences, the largest absolute number that they were formed of
function halfInterval(values, scale = 0) {
  const spread = deviation(values);
  if (spread === null || spread <= ROUNDING * Math.max(scale, ...values.map(Math.abs))) return null;
  return (studentT(values.length - 1) * spread) / Math.sqrt(values.length);
}

// the same from a standard error of each value, where values are equal or there is but one
function halfFromErrors(errors) {
  if (errors.includes(null) || !errors.some(Boolean)) return null;
  return (Z * Math.hypot(...errors)) / errors.length;
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
    // where there is no interval the band has no width, so that nothing is drawn
    const half = (band === "interval" ? halfInterval(values) : deviation(values)) ?? 0;
    found.low.push(band === "range" ? Math.min(...values) : middle - half);
    found.high.push(band === "range" ? Math.max(...values) : middle + half);
  }
  return found;
}
