"use strict";
// The page of kerf serve. All numbers are the API's; this draws them. No framework, nothing fetched
// from elsewhere. As a file (kerf serve --page) it holds the answers that it asks for.

const api = "api/v1/";
const $ = (id) => document.getElementById(id);
const usual = ["bf16", "int8", "fp8-e4m3-row", "mxfp8-e4m3", "mxfp6-e2m3", "nvfp4", "mxfp4", "nf4-dq", "int4-g128"];
const state = { hardware: [], formats: [], jobs: new Map(), advice: null, solved: null, power: [] };

// --- asking ---------------------------------------------------------------------------------------

function problem(text) {
  $("problem").textContent = text || "";
  $("problem").hidden = !text;
}

function headers(more) {
  const token = sessionStorage.getItem("kerf-token");
  return Object.assign(token ? { Authorization: "Bearer " + token } : {}, more);
}

const file = $("data") ? JSON.parse($("data").textContent) : null;

// What kerf serve would answer, found in the file.
function answerOfFile(path, body) {
  if (path === "version") return file.version;
  if (path === "hardware") return { hardware: [file.hardware] };
  if (path === "formats") return { formats: [...new Set(file.products.map((r) => r.format))].map((name) => ({ name })) };
  if (path === "models") return { models: file.steps ? [{ name: file.steps[0].config, config: true }] : [] };
  if (path === "jobs") return { jobs: file.jobs || [] };
  if (path === "jobs/1/result") return file.advice;
  if (path === "predict") {
    const phase = body.prefill ? "prefill" : "decode";
    const doc = file.steps.find((d) => d.phase === phase && d.kv === body.kv && d.context === body.context);
    return { ...doc, predictions: doc.predictions.filter((p) => p.format === body.formats[0] && p.batch === body.batches[0]) };
  }
  const solution = file.solutions.filter((s) => s.from <= body.bits + 1e-9).pop();
  if (!solution) throw new Error(`no choice stays under ${body.bits} bits`);
  return { ...solution, picks: file.advice.groups.map((g, i) => ({ group: g.name, ...g.candidates[solution.picks[i]] })) };
}

async function ask(path, body, method) {
  if (file && path === "sweep")
    return file.products.filter((r) => r.n === body.shapes[0][0] && r.k === body.shapes[0][1] && r.batch === body.batches[0] &&
      body.formats.includes(r.format)).map((r) => JSON.stringify(r)).join("\n");
  if (file) return JSON.stringify(answerOfFile(path, body));
  const answer = await fetch(api + path, body === undefined ? { headers: headers(), method: method || "GET" } :
    { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) });
  const text = await answer.text();
  $("token-form").hidden = answer.status !== 401;
  if (!answer.ok) {
    let why = text;
    try { why = JSON.parse(text).error; } catch { /* it is no JSON */ }
    throw new Error(why);
  }
  return text;
}

const askJson = async (path, body, method) => JSON.parse(await ask(path, body, method));

// Reads server-sent events by fetch, which can send a token.
async function follow(path, take) {
  const answer = await fetch(api + path, { headers: headers() });
  if (!answer.ok) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const block = text.slice(0, end), event = /^event: (.*)$/m.exec(block), data = /^data: (.*)$/m.exec(block);
      if (data) take(event ? event[1] : "", JSON.parse(data[1]));
    }
  }
}

// Runs `work` after the last of several calls in a row; a call that comes late wins over one before it.
function latest(work) {
  let turn = 0, timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const mine = ++turn;
      try {
        await work(() => mine === turn);
        if (mine === turn) problem("");
      } catch (e) { if (mine === turn) problem(e.message); }
    }, 15);
  };
}

// --- drawing --------------------------------------------------------------------------------------

function node(parent, name, attributes, text) {
  const svg = parent.namespaceURI.includes("svg") || name === "svg";
  const e = document.createElementNS(svg ? "http://www.w3.org/2000/svg" : parent.namespaceURI, name);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}

function table(element, headings, rows) {
  for (const part of element.querySelectorAll("thead, tbody")) part.remove();
  const head = node(node(element, "thead"), "tr"), body = node(element, "tbody");
  for (const h of headings) node(head, "th", { scope: "col", class: h.n ? "n" : "" }, h.name);
  for (const row of rows) {
    const tr = node(body, "tr");
    row.forEach((cell, i) => {
      const td = node(tr, i ? "td" : "th", i ? { class: headings[i].n ? "n" : "" } : { scope: "row" });
      if (cell instanceof Node) td.append(cell); else td.textContent = cell;
    });
  }
}

const short = (x, digits = 4) => x === 0 ? "0" : Number(x.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
const si = (x) => { const k = Math.max(0, Math.min(5, Math.floor(Math.log10(x) / 3))); return short(x / 1000 ** k, 3) + ["", "k", "M", "G", "T", "P"][k]; };

// An axis: log or linear, from values to pixels.
const scale = (lo, hi, from, to, log) => (x) => {
  const t = log ? (Math.log(x) - Math.log(lo)) / (Math.log(hi) - Math.log(lo)) : (x - lo) / (hi - lo);
  return from + (to - from) * t;
};

// A chart is drawn at the width it is shown with, so that its texts are as large as those around it.
function frame(svg, height) {
  const width = Math.max(320, Math.min(960, svg.parentElement.clientWidth || 720)), below = svg === $("gpu-chart") ? 40 : 50;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.maxWidth = width + "px";
  svg.replaceChildren();
  return { left: 50, right: width - 12, top: 30, bottom: height - below };
}

function axes(svg, box, x, y, xs, ys, xname, yname) {
  for (const v of xs) {
    node(svg, "line", { class: "grid", x1: x(v), x2: x(v), y1: box.top, y2: box.bottom });
    node(svg, "text", { class: "dim", x: x(v), y: box.bottom + 18, "text-anchor": x(v) > box.right - 25 ? "end" : "middle" }, si(v));
  }
  for (const v of ys) {
    node(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y(v), y2: y(v) });
    node(svg, "text", { class: "dim", x: box.left - 6, y: y(v) + 4, "text-anchor": "end" }, si(v));
  }
  node(svg, "text", { class: "dim", x: box.right, y: box.bottom + 38, "text-anchor": "end" }, xname);
  node(svg, "text", { class: "dim", x: box.left, y: box.top - 8 }, yname);
}

const decades = (lo, hi) => { const all = []; for (let e = Math.ceil(Math.log10(lo)); e <= Math.log10(hi); e++) all.push(10 ** e); return all; };

// --- roofline -------------------------------------------------------------------------------------

function wanted() {
  const f = new FormData($("product"));
  return { hardware: f.get("hardware"), rows: Number(f.get("rows")), cols: Number(f.get("cols")),
    batch: 2 ** Number(f.get("batch")), formats: f.getAll("format") };
}

function drawRoofline(rows, w) {
  const svg = $("roofline-chart"), box = frame(svg, 400);
  state.roofline = [rows, w];
  const machine = state.hardware.find((h) => h.name === w.hardware);
  const bandwidth = machine.facts.bandwidth_gbps.value * 1e9;
  const peaks = [...new Set(rows.map((r) => r.ridge * bandwidth))].sort((a, b) => a - b);
  const left = Math.min(...rows.map((r) => r.intensity)) / 6, right = Math.max(...rows.map((r) => Math.max(r.ridge, r.intensity))) * 8;
  const top = Math.max(...peaks) * 4, low = Math.min(left * bandwidth, ...rows.map((r) => r.flops / r.high_us * 1e6)) / 2;
  const x = scale(left, right, box.left, box.right, true), y = scale(low, top, box.bottom, box.top, true);
  const clip = (v) => Math.min(box.bottom, y(v));
  axes(svg, box, x, y, decades(left, right), decades(low, top), "operations per byte", "operations per second");
  for (const peak of peaks) {
    const ridge = peak / bandwidth;
    node(svg, "path", { class: "roof", d: `M${x(left)} ${clip(left * bandwidth)}L${x(ridge)} ${y(peak)}H${box.right}` });
    node(svg, "text", { class: "dim", x: box.right, y: y(peak) - 6, "text-anchor": "end" }, `${si(peak)}/s, ridge ${short(ridge, 3)}`);
  }
  // Names stand in a column beside the points, below the roof where there is room, each led to its point.
  const points = rows.map((r) => ({ r, cx: x(r.intensity), cy: clip(r.flops / r.us * 1e6) })).sort((p, q) => p.cy - q.cy || p.cx - q.cx);
  const most = Math.max(...points.map((p) => p.cx)), least = Math.min(...points.map((p) => p.cx)), toRight = most + 150 < box.right;
  const column = toRight ? most + 40 : Math.max(box.left + 100, least - 40);
  const first = Math.max(box.top + 20, Math.min(points[0].cy - 8, box.bottom - 16 * points.length));
  points.forEach(({ r, cx, cy }, i) => {
    const speed = (us) => clip(r.flops / us * 1e6), at = first + 16 * i;
    node(svg, "line", { class: "grid", x1: cx, x2: column, y1: cy, y2: at });
    node(svg, "line", { class: "band", x1: cx, x2: cx, y1: speed(r.low_us), y2: speed(r.high_us) });
    const dot = node(svg, "circle", { class: "dot", cx, cy, r: 5, "data-format": r.format, "data-us": r.us });
    node(dot, "title", {}, `${r.format}: ${short(r.us)} us, ${short(r.intensity)} flop/B`);
    node(svg, "text", { x: column + (toRight ? 4 : -4), y: at + 4, "text-anchor": toRight ? "start" : "end" }, r.format);
  });
  svg.setAttribute("aria-label", `Roofline of ${w.rows} x ${w.cols}, batch ${w.batch}, on ${machine.title}: ` +
    rows.map((r) => `${r.format} ${short(r.us)} microseconds, bound by ${r.bound}`).join("; "));
}

const updateProduct = latest(async (isLatest) => {
  const w = wanted();
  $("batch-out").textContent = w.batch;
  if (!w.formats.length || !(w.rows >= 1) || !(w.cols >= 1)) return;
  const text = await ask("sweep", { hardware: w.hardware, shapes: [[w.rows, w.cols]], batches: [w.batch], formats: w.formats });
  if (!isLatest()) return;
  const rows = text.trim().split("\n").map((line) => JSON.parse(line));
  drawRoofline(rows, w);
  table($("products"), [{ name: "format" }, { name: "us", n: 1 }, { name: "band", n: 1 }, { name: "MB", n: 1 }, { name: "flop/B", n: 1 },
    { name: "ridge", n: 1 }, { name: "bound" }, { name: "times bf16", n: 1 }, { name: "tier" }],
  rows.map((r) => [r.format, short(r.us), `${short(r.low_us, 3)} to ${short(r.high_us, 3)}`, short(r.bytes / 1e6), short(r.intensity),
    short(r.ridge, 3), r.bound, r.speedup.toFixed(2), r.tier]));
});

// --- a model's step -------------------------------------------------------------------------------

function stepWanted() {
  const f = new FormData($("step")), model = f.get("model");
  const body = { hardware: wanted().hardware, formats: [f.get("format")], kv: f.get("kv"), batches: [Number(f.get("batch"))],
    context: 2 ** Number(f.get("context")), prefill: f.get("phase") === "prefill" };
  if (model) body.model = model;
  else if (f.get("config").trim()) body.config = JSON.parse(f.get("config"));
  else return null;
  return body;
}

const updateStep = latest(async (isLatest) => {
  const body = stepWanted();
  $("context-out").textContent = 2 ** Number(new FormData($("step")).get("context"));
  if (!file) $("config-label").hidden = Boolean($("model-name").value);
  if (!body) return;
  const doc = await askJson("predict", body);
  if (!isLatest()) return;
  const p = doc.predictions[0], list = $("step-total");
  list.replaceChildren();
  for (const [k, v] of [["model", `${doc.type}, ${short(doc.parameters / 1e9)} G parameters, on ${doc.hardware}`],
    ["weights", `${short(p.weight_bytes / 1e9)} GB, cache ${short(p.cache_bytes / 1e9)} GB${p.fits === null ? "" : p.fits ? ", fits" : ", does not fit"}`],
    ["a step", `${short(p.us / 1e3)} ms (${short(p.low_us / 1e3, 3)} to ${short(p.high_us / 1e3, 3)}), ${short(p.step_bytes / 1e9)} GB read`],
    ["tokens/s", `${short(p.tokens_per_s[0])} to ${short(p.tokens_per_s[1])}`]]) {
    node(list, "dt", {}, k);
    node(list, "dd", {}, v);
  }
  table($("operators"), [{ name: "operator" }, { name: "times", n: 1 }, { name: "MB each", n: 1 }, { name: "us each", n: 1 }, { name: "bound" },
    { name: "share" }], p.operators.map((o) => {
    const share = o.count * o.us / p.us, bar = document.createElement("progress");
    bar.max = 1;
    bar.value = share;
    bar.textContent = bar.title = (100 * share).toFixed(1) + " %";
    bar.setAttribute("aria-label", `${o.name}: ${bar.title} of the step`);
    return [o.name, o.count, short(o.bytes / 1e6), short(o.us), o.bound, bar];
  }));
});

// --- frontier -------------------------------------------------------------------------------------

// Round numbers between two, at most so many.
function ticks(lo, hi, most) {
  const raw = (hi - lo) / most, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((f) => f * power >= raw) * power, all = [];
  for (let i = Math.ceil(lo / step); i * step <= hi; i++) all.push(i * step);
  return all;
}

function drawFrontier() {
  const a = state.advice, svg = $("frontier-chart"), box = frame(svg, 300), timed = a.hardware && a.time_curve && a.time_curve.length;
  $("across").disabled = !timed;
  if (!timed) $("across").value = "bits";
  const key = $("across").value, points = (key === "us" ? a.time_curve : a.curve).filter((p) => p.t2 > 0);
  const all = points.concat(a.uniform.filter((p) => p.t2 > 0), state.solved ? [state.solved] : []);
  const values = all.map((p) => p[key]), errors = all.map((p) => p.t2).filter((t) => t > 0), room = (Math.max(...values) - Math.min(...values)) / 20 || 1;
  const lo = Math.min(...values) - room, hi = Math.max(...values) + room, ylo = Math.min(...errors) / 1.5, yhi = Math.max(...errors) * 3;
  const x = scale(lo, hi, box.left, box.right), y = scale(ylo, yhi, box.bottom, box.top, true);
  axes(svg, box, x, y, [], decades(ylo, yhi).filter((v) => v >= 1), key === "us" ? "predicted us of a step, middle of the band" : "bits per weight",
    "sum of alpha t2, logarithmic");
  for (const v of ticks(lo, hi, (box.right - box.left) / 60)) {
    node(svg, "line", { class: "grid", x1: x(v), x2: x(v), y1: box.top, y2: box.bottom });
    node(svg, "text", { class: "dim", x: x(v), y: box.bottom + 18, "text-anchor": x(v) > box.right - 25 ? "end" : "middle" }, short(v, 6));
  }
  for (const v of decades(ylo, yhi).filter((d) => d < 1)) {
    node(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y(v), y2: y(v) });
    node(svg, "text", { class: "dim", x: box.left - 6, y: y(v) + 4, "text-anchor": "end" }, v.toExponential(0));
  }
  node(svg, "path", { class: "curve", d: points.map((p, i) => `${i ? "L" : "M"}${x(p[key])} ${y(p.t2)}`).join("") });
  for (const p of a.uniform) {
    if (!(p.t2 > 0)) continue;
    const right = x(p[key]) > box.right - 120;
    node(svg, "circle", { class: "other", cx: x(p[key]), cy: y(p.t2), r: 4 });
    node(svg, "text", { x: x(p[key]) + (right ? -8 : 8), y: y(p.t2) - 6, "text-anchor": right ? "end" : "start" }, p.codec);
  }
  if (state.solved && state.solved.t2 > 0)
    node(svg, "circle", { class: "now", cx: x(state.solved[key]), cy: y(state.solved.t2), r: 7, "data-bits": state.solved.bits, "data-us": state.solved.us });
  svg.setAttribute("aria-label", `Frontier of error against ${key === "us" ? "predicted time" : "bits"}: ` +
    a.uniform.map((p) => `${p.codec} ${short(p[key])}, error ${p.t2.toExponential(2)}`).join("; "));
}

// Columns are layers, rows what stands in each.
function drawHeat() {
  const svg = $("heat"), cell = 22, left = 150, rows = new Map();
  const before = new Map(state.advice.groups.map((g) => [g.name, g.codec]));
  let layers = 0;
  svg.replaceChildren();
  for (const p of state.solved.picks) {
    const found = /layers\.(\d+)\.(.*)$/.exec(p.group), layer = found ? Number(found[1]) : 0, name = found ? found[2] : p.group;
    if (!rows.has(name)) rows.set(name, rows.size);
    layers = Math.max(layers, layer + 1);
    const shade = Math.max(0, Math.min(100, (p.bits - 2) / 14 * 100)), changed = before.get(p.group) !== p.codec;
    const r = node(svg, "rect", { class: changed ? "cell changed" : "cell", x: left + layer * cell, y: 24 + rows.get(name) * cell, width: cell - 3,
      height: cell - 3, rx: 3 });
    r.style.fill = `color-mix(in srgb, var(--hi) ${shade}%, var(--lo))`;
    node(r, "title", {}, `${p.group}: ${p.codec}, ${p.bits.toFixed(3)} bits${changed ? ", recommended: " + before.get(p.group) : ""}`);
  }
  for (const [name, i] of rows) node(svg, "text", { x: left - 8, y: 24 + i * cell + 14, "text-anchor": "end" }, name.slice(-22));
  for (let i = 0; i < layers; i += layers > 16 ? 4 : 1) node(svg, "text", { class: "dim", x: left + i * cell + 9, y: 16, "text-anchor": "middle" }, i);
  svg.setAttribute("width", left + layers * cell);
  svg.setAttribute("height", 24 + rows.size * cell);
  svg.setAttribute("aria-label", state.solved.picks.map((p) => `${p.group}: ${p.codec}`).join("; "));
}

const updateBudget = latest(async (isLatest) => {
  const bits = Number($("budget").value);
  $("budget-out").textContent = bits.toFixed(2);
  if (!state.advice) return;
  const solved = await askJson(`jobs/${$("advice").value}/solve`, { bits });
  if (!isLatest()) return;
  state.solved = solved;
  const before = new Map(state.advice.groups.map((g) => [g.name, g.codec]));
  const changed = solved.picks.filter((p) => before.get(p.group) !== p.codec).length;
  $("solved").textContent = `${solved.bits.toFixed(4)} bits per weight, sum of alpha t2 ${solved.t2.toExponential(3)}; ` +
    `${changed} of ${solved.picks.length} groups differ from the recommendation; solved in ${(1e3 * solved.seconds).toFixed(2)} ms.`;
  drawFrontier();
  drawHeat();
  table($("picks"), [{ name: "group" }, { name: "format" }, { name: "recommended" }, { name: "bits", n: 1 }, { name: "alpha t2", n: 1 }],
    solved.picks.map((p) => [p.group, p.codec, before.get(p.group), p.bits.toFixed(3), p.t2.toExponential(2)]));
});

async function chooseAdvice() {
  const id = $("advice").value;
  if (!id) return;
  try {
    const doc = await askJson(`jobs/${id}/result`);
    if (!doc.groups || !doc.groups[0].candidates) return;
    state.advice = doc;
    state.solved = null;
    const least = doc.groups.map((g) => Math.min(...g.candidates.map((c) => c.bits)));
    $("budget").min = (Math.max(...least) + 0.01).toFixed(2);
    $("budget").max = Math.max(...doc.uniform.map((u) => u.bits), 8.5);
    $("budget").value = doc.total.bits.toFixed(2);
    if (Number($("budget").value) < Number(doc.total.bits.toFixed(3))) $("budget").value = Number($("budget").value) + 0.01;
    $("frontier-some").hidden = false;
    $("frontier-none").hidden = true;
    updateBudget();
  } catch (e) { problem(e.message); }
}

function listAdvice() {
  const done = [...state.jobs.values()].filter((j) => j.verb === "advise" && j.state === "done" && j.request.model);
  const old = [...$("advice").options].map((o) => o.value).join(), now = done.map((j) => String(j.id)).join();
  if (old === now) return;
  const chosen = $("advice").value;
  $("advice").replaceChildren();
  for (const j of done) node($("advice"), "option", { value: j.id }, `${j.id}: ${j.request.model}, ${j.request.budget.join(", ")}`);
  if (chosen && now.split(",").includes(chosen)) $("advice").value = chosen;
  else if (done.length) { $("advice").value = done[done.length - 1].id; chooseAdvice(); }
}

// --- GPUs -----------------------------------------------------------------------------------------

function takeSample(s) {
  const known = s.sources || [], text = (v, unit, by = 1) => v === null || v === undefined ? "-" : short(v / by, 4) + unit;
  $("gpu-note").textContent = s.unavailable || `${known.length} sources, read at ${new Date(1e3 * s.unix_s).toLocaleTimeString()}`;
  if (!known.length) return;
  table($("gpu-table"), [{ name: "source" }, { name: "power", n: 1 }, { name: "clock", n: 1 }, { name: "heat", n: 1 }, { name: "memory", n: 1 },
    { name: "busy", n: 1 }, { name: "clocks held by" }], known.map((g) => [`${g.kind}${g.index} ${g.name}`, text(g.power_w, " W"),
    text(g.sm_mhz, " MHz"), text(g.temperature_c, " °C"), text(g.memory_used_bytes, " GB", 1e9), text(g.busy_percent, " %"),
    g.lost ? "lost: " + g.lost : (g.throttles || []).join(" ") || "-"]));
  state.power.push({ at: s.elapsed_s, watts: known.map((g) => g.power_w) });
  while (state.power.length > 1 && state.power[0].at < s.elapsed_s - 120) state.power.shift();
  const svg = $("gpu-chart");
  svg.toggleAttribute("hidden", false);
  const box = frame(svg, 220);
  const most = 1.1 * Math.max(1, ...state.power.flatMap((p) => p.watts.map((w) => w || 0)));
  const x = scale(s.elapsed_s - 120, s.elapsed_s, box.left, box.right), y = scale(0, most, box.bottom, box.top);
  for (const v of [0, most / 2, most]) {
    node(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y(v), y2: y(v) });
    node(svg, "text", { class: "dim", x: box.left - 6, y: y(v) + 4, "text-anchor": "end" }, short(v, 3) + " W");
  }
  known.forEach((g, i) => {
    const points = state.power.filter((p) => p.watts[i] !== null && p.watts[i] !== undefined);
    node(svg, "path", { class: "curve curve" + i % 4, d: points.map((p, k) => `${k ? "L" : "M"}${x(p.at)} ${y(p.watts[i])}`).join("") });
  });
  svg.setAttribute("aria-label", "Power of the last two minutes: " + known.map((g) => `${g.name} ${text(g.power_w, " watts")}`).join("; "));
}

// --- jobs -----------------------------------------------------------------------------------------

function button(text, label, work) {
  const b = document.createElement("button");
  b.type = "button";
  b.textContent = text;
  b.setAttribute("aria-label", label);
  b.addEventListener("click", work);
  return b;
}

function drawJobs() {
  const rows = [...state.jobs.values()].sort((a, b) => b.id - a.id).map((j) => {
    const bar = document.createElement("progress"), tools = document.createElement("span");
    bar.max = 1;
    if (j.state !== "running" || j.share) bar.value = j.state === "done" ? 1 : j.share || 0;
    bar.setAttribute("aria-label", `progress of job ${j.id}`);
    const active = j.state === "queued" || j.state === "running";
    if (active) tools.append(button("Cancel", `Cancel job ${j.id}`, () => cancelJob(j.id)));
    if (j.state === "done") tools.append(button("Result", `Result of job ${j.id}`, () => showResult(j.id)));
    return [j.id, j.verb, j.request.model || "", j.state, active || j.state === "done" ? bar : j.error || "", j.item && active ? j.item : "", tools];
  });
  table($("job-table"), [{ name: "job" }, { name: "verb" }, { name: "model" }, { name: "state" }, { name: "progress" }, { name: "at" }, { name: "" }], rows);
  listAdvice();
}

function takeJob(j) {
  state.jobs.set(j.id, Object.assign(state.jobs.get(j.id) || {}, j));
  const mine = state.jobs.get(j.id), active = j.state === "queued" || j.state === "running";
  if (active && !mine.followed) {
    mine.followed = true;
    follow(`jobs/${j.id}/events`, (event, data) => {
      if (event === "state") Object.assign(mine, data);
      if (data.total_bytes && data.done_bytes !== undefined) mine.share = data.done_bytes / data.total_bytes;
      if (data.name) mine.item = data.name;
      drawJobs();
    });
  }
  drawJobs();
}

async function cancelJob(id) {
  try { takeJob(await askJson(`jobs/${id}`, undefined, "DELETE")); } catch (e) { problem(e.message); }
}

async function showResult(id) {
  try {
    $("result-text").textContent = await ask(`jobs/${id}/result`);
    $("result").hidden = false;
    $("result").open = true;
    $("result-text").focus();
  } catch (e) { problem(e.message); }
}

function showFields() {
  const verb = $("submit").elements.verb.value;
  for (const label of $("submit").querySelectorAll("[data-for]")) label.hidden = !label.dataset.for.split(" ").includes(verb);
}

async function submitJob(e) {
  e.preventDefault();
  const f = $("submit").elements, verb = f.verb.value, list = f.formats.value.split(",").map((s) => s.trim()).filter(Boolean);
  const body = { device: f.device.value };
  if (verb === "measure") Object.assign(body, { rows: Number(f.rows.value), cols: Number(f.cols.value), formats: list });
  else body.model = f.model.value;
  if (verb === "score") body.formats = list;
  if (verb === "recommend") Object.assign(body, { formats: list, budget: [f.budget.value.trim()], hardware: f.hardware.value });
  if (verb === "quantize") Object.assign(body, { format: list[0], output: f.output.value.trim() });
  try { takeJob(await askJson(verb, body)); problem(""); } catch (err) { problem(err.message); }
}

// --- beginning ------------------------------------------------------------------------------------

function fill(select, names, titles, first) {
  select.replaceChildren();
  names.forEach((n, i) => node(select, "option", { value: n }, titles ? titles[i] : n));
  if (first && names.includes(first)) select.value = first;
}

// What stands behind ? in the address is put into the controls: a view can be kept as a bookmark.
function fromAddress() {
  const q = new URLSearchParams(location.search), f = $("product").elements;
  for (const name of ["hardware", "rows", "cols"]) if (q.get(name)) f[name].value = q.get(name);
  if (q.get("batch")) f.batch.value = Math.round(Math.log2(Number(q.get("batch"))));
  if (q.get("formats")) for (const box of $("formats").querySelectorAll("input")) box.checked = q.get("formats").split(",").includes(box.value);
}

// A file has no server behind it: what needs one is left out, and controls offer what the file holds.
function beFile() {
  const numbers = (label, values) => {
    const input = $("step").elements[label], list = document.createElement("select");
    list.name = label;
    for (const v of values) node(list, "option", { value: v }, String(v));
    input.replaceWith(list);
  };
  for (const e of document.querySelectorAll("[data-live]")) e.hidden = true;
  for (const e of document.querySelectorAll("[data-file]")) e.hidden = false;
  for (const e of document.querySelectorAll("[data-part]")) e.hidden = !file[e.dataset.part];
  const shapes = [...new Set(file.products.map((r) => `${r.n}x${r.k}`))];
  fill($("shapes"), shapes, shapes.map((s) => s.replace("x", " x ")));
  const take = () => { [$("product").elements.rows.value, $("product").elements.cols.value] = $("shapes").value.split("x"); };
  $("shapes").addEventListener("input", take);
  take();
  $("config-label").remove();
  if (!file.steps) return;
  const held = (key) => [...new Set(file.steps.map((d) => d[key]))].sort((a, b) => a - b);
  numbers("batch", [...new Set(file.steps[0].predictions.map((p) => p.batch))]);
  fill($("step").elements.kv, held("kv"));
  const context = $("step").elements.context, all = held("context").map(Math.log2);
  Object.assign(context, { min: all[0], max: all[all.length - 1], step: 2, value: 12 });
}

async function begin() {
  const [version, hardware, formats, known, jobs] = await Promise.all(["version", "hardware", "formats", "models", "jobs"].map((p) => askJson(p)));
  $("version").textContent = version.version;
  state.hardware = hardware.hardware;
  state.formats = formats.formats.map((f) => f.name);
  const names = state.hardware.map((h) => h.name), titles = state.hardware.map((h) => h.title || h.name);
  for (const s of [$("hardware"), ...document.querySelectorAll(".hardware-list")]) fill(s, names, titles, "h200");
  for (const s of document.querySelectorAll(".format-list")) fill(s, state.formats, null, s.dataset.first || "nvfp4");
  for (const name of state.formats.filter((n) => usual.includes(n))) {
    const label = node($("formats"), "label"), box = node(label, "input", { type: "checkbox", name: "format", value: name });
    box.checked = true;
    label.append(name);
  }
  if (file) beFile();
  const there = known.models.map((m) => m.name), config = known.models.filter((m) => m.config).map((m) => m.name);
  if (file) fill($("model-name"), config, config.map((name) => name.split("/").filter(Boolean).pop()));
  else fill($("model-name"), ["", ...config], ["(a config.json)", ...config], config[0]);
  for (const s of document.querySelectorAll(".model-list")) fill(s, there);
  if (!known.output) $("submit").querySelector("option[value=quantize]").remove();
  fromAddress();
  $("product").addEventListener("input", () => { updateProduct(); if (!file) updateStep(); });
  $("step").addEventListener("input", updateStep);
  $("budget").addEventListener("input", updateBudget);
  $("across").addEventListener("input", () => { if (state.advice) drawFrontier(); });
  $("advice").addEventListener("change", chooseAdvice);
  $("submit").addEventListener("submit", submitJob);
  $("submit").addEventListener("input", showFields);
  for (const f of document.forms) if (f.id !== "submit" && f.id !== "token-form") f.addEventListener("submit", (e) => e.preventDefault());
  showFields();
  updateProduct();
  if (!file || file.steps) updateStep();
  jobs.jobs.forEach(takeJob);
  drawJobs();
  if (!file) follow("nvml/stream", (event, data) => takeSample(data));
  document.body.dataset.ready = "1";
}

addEventListener("resize", () => {
  if (state.roofline) drawRoofline(...state.roofline);
  if (state.advice && state.solved) drawFrontier();
});
$("token-form").addEventListener("submit", (e) => {
  e.preventDefault();
  sessionStorage.setItem("kerf-token", $("token").value);
  location.reload();
});
begin().catch((e) => problem(e.message));
