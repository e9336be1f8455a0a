// The timeline: fills the overview once, and the detail for the range under the brush.
// #timeline-data holds per GPU one byte per state and bin; columns are sums of whole bins.
const block = document.getElementById("timeline-data");
if (block) start(JSON.parse(block.textContent));

function start(data) {
  const STATES = ["compute", "comm", "copy", "memset", "idle"];
  const WORDS = ["compute", "communication", "exposed copy", "memset", "idle"];
  const LANE = 100;
  const shares = data.shares.map((text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
  const first = data.from_ms;
  const last = data.to_ms;
  const tip = document.getElementById("timeline-tip");
  const said = document.getElementById("timeline-range");
  const state = { from: first, to: last, columns: [], overview: null, detail: null };

  const format = (ms) => {
    const size = Math.abs(ms);
    const [value, unit] =
      size >= 1000 ? [ms / 1000, "s"] : size >= 1 ? [ms, "ms"] : size >= 0.001 ? [ms * 1000, "µs"] : [ms * 1e6, "ns"];
    return `${Number(value.toPrecision(4)).toLocaleString("en")} ${unit}`;
  };

  // Sums of each state over columns of whole bins: [{t, end, parts: [5 shares of the column]}].
  function columns(gpu, from, to, most) {
    const low = Math.max(0, Math.floor((from - first) / data.bin_ms));
    const high = Math.min(data.bins, Math.ceil((to - first) / data.bin_ms));
    const step = Math.max(1, Math.ceil((high - low) / most));
    const result = [];
    // Columns start at multiples of their width, so that they do not shimmer while panning.
    for (let at = Math.floor(low / step) * step; at < high; at += step) {
      const until = Math.min(at + step, data.bins);
      const parts = STATES.map((_, s) => {
        let sum = 0;
        for (let bin = at; bin < until; bin++) sum += shares[gpu][s * data.bins + bin];
        return sum / (255 * (until - at));
      });
      result.push({ t: first + at * data.bin_ms, end: first + until * data.bin_ms, parts });
    }
    return result;
  }

  // Step areas: a row per state where a column differs from the one before, and one at the end.
  function bands(perGpu, top, bottom) {
    const rows = [];
    perGpu.forEach((cols, gpu) => {
      let before = "";
      cols.forEach((col, index) => {
        const shape = col.parts.map((p) => p.toFixed(3)).join();
        if (shape !== before) push(col.t, col.parts, gpu);
        if (index === cols.length - 1) push(col.end, col.parts, gpu);
        before = shape;
      });
    });
    return rows;
    function push(t, parts, gpu) {
      let base = LANE * gpu + bottom;
      parts.forEach((part, s) => {
        const next = base - part * (bottom - top);
        rows.push({ t, gpu, state: STATES[s], low: next, high: base });
        base = next;
      });
    }
  }

  const LANES = { iterations: [64, 72], gaps: [76, 84], copies: [88, 96] };
  const marks = Object.entries(LANES).flatMap(([kind, [low, high]]) =>
    (data.marks[kind] || []).map(([gpu, a, b, paint, faint, text]) => ({
      a, b, paint: `var(--${paint})`, faint, tip: text,
      low: LANE * data.gpus.indexOf(gpu) + low, high: LANE * data.gpus.indexOf(gpu) + high,
    })),
  );

  function width(view) {
    return view.signal("width") || 600;
  }

  async function show(from, to) {
    const least = Math.min(data.bin_ms * 4, last - first);
    const span = Math.min(Math.max(to - from, least), last - first);
    const middle = (from + to) / 2;
    state.from = Math.min(Math.max(first, middle - span / 2), last - span);
    state.to = state.from + span;
    const most = Math.min(700, Math.floor(width(state.detail) / (data.gpus.length > 4 ? 3 : 1.5)));
    state.columns = data.gpus.map((_, gpu) => columns(gpu, state.from, state.to, most));
    const shown = marks.filter((m) => m.b > state.from && m.a < state.to);
    state.detail.signal("from_ms", state.from).signal("to_ms", state.to);
    state.detail.data("bands", bands(state.columns, 4, 58)).data("marks", shown);
    const column = state.columns[0].length ? state.columns[0][0].end - state.columns[0][0].t : 0;
    said.textContent =
      `${format(state.from)} to ${format(state.to)} (${format(span)}); ` + `one column is ${format(column)}`;
    await state.detail.runAsync();
  }

  // Move the brush; its signal then shows the range.
  function brush(from, to) {
    const scale = state.overview.scale("x");
    const whole = to - from >= (last - first) * 0.9999;
    state.overview.signal("brush_x", whole ? [0, 0] : [scale(Math.max(from, first)), scale(Math.min(to, last))]);
    state.overview.runAsync();
    show(from, to);
  }

  function move(action) {
    const span = state.to - state.from;
    const [by, zoom] = { left: [-0.5, 1], right: [0.5, 1], in: [0, 0.5], out: [0, 2] }[action] || [0, 1e9];
    const middle = (state.from + state.to) / 2 + by * span;
    const half = Math.min((span * zoom) / 2, last - first);
    const from = Math.max(first, Math.min(middle - half, last - 2 * half));
    brush(from, Math.min(last, from + 2 * half));
  }

  function point(event, item) {
    const view = state.detail;
    const [left, top] = view.origin();
    const box = view.container().getBoundingClientRect();
    const x = event.clientX - box.left - left;
    const y = event.clientY - box.top - top;
    if (item && item.datum && item.datum.tip) return say(event, item.datum.tip);
    const t = state.from + (x / width(view)) * (state.to - state.from);
    const gpu = Math.floor((y / view.signal("height")) * data.gpus.length);
    const col = (state.columns[gpu] || []).find((c) => c.t <= t && t < c.end);
    if (!col || x < 0) return hush();
    const inside = col.parts.reduce((a, b) => a + b, 0);
    const split = WORDS.map((word, s) => [word, col.parts[s]]).filter(([, part]) => part > 0);
    const lines = split.map(([word, part]) => `${word} ${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`);
    if (inside < 0.995) lines.push(`outside of the analysed time ${(100 * (1 - inside)).toFixed(0)} %`);
    say(event, `GPU ${data.gpus[gpu]}, ${format(col.t)} + ${format(col.end - col.t)}\n${lines.join("\n")}`);
  }
  function say(event, text) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 8)}px`;
    tip.style.top = `${event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16}px`;
  }
  function hush() {
    tip.hidden = true;
  }

  async function begin() {
    state.overview = await deepprof.draw("timeline-overview");
    state.detail = await deepprof.draw("timeline-detail");
    const most = Math.min(900, Math.floor(width(state.overview)));
    state.overview.data("bands", bands(data.gpus.map((_, gpu) => columns(gpu, first, last, most)), 8, 92));
    await state.overview.runAsync();
    state.overview.addSignalListener("brush", (_, value) => {
      const range = value.t;
      range ? show(range[0], range[1]) : show(first, last);
    });
    state.detail.addEventListener("mousemove", point);
    state.detail.addEventListener("mouseout", hush);
    document.querySelectorAll("[data-move]").forEach((button) => {
      button.addEventListener("click", () => move(button.dataset.move));
    });
    document.getElementById("timeline").addEventListener("keydown", (event) => {
      const action = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", 0: "all" }[event.key];
      if (!action || event.target.closest("input") || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      move(action);
    });
    document.querySelectorAll("[data-go]").forEach((link) => {
      link.addEventListener("click", () => {
        const [from, to] = link.dataset.go.split(" ").map(Number);
        const pad = Math.max((to - from) * 0.5, data.bin_ms * 4);
        brush(from - pad, to + pad);
        document.getElementById("timeline").scrollIntoView();
      });
    });
    await show(first, last);
  }
  deepprof.timeline = { state, show, move, marks };
  deepprof.timelineDrawn = begin();
}
