// Tables that sort by their headers and narrow by a search; and the page's own data as files.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  for (const header of table.tHead.rows[0].cells) {
    if (header.dataset.plain !== undefined) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sort(table, header));
  }
}

// Exact values are in data-v; a cell without one sorts by its text, an empty value last.
function sort(table, header) {
  const index = header.cellIndex;
  const numeric = header.classList.contains("number");
  const descending = header.ariaSort === "descending" || (!header.ariaSort && !numeric) ? false : true;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.ariaSort = descending ? "descending" : "ascending";
  const key = (row) => {
    const cell = row.cells[index];
    const text = cell.dataset.v ?? cell.textContent.trim();
    return numeric ? (text === "" ? null : Number(text)) : text.toLowerCase();
  };
  const keyed = [...table.tBodies[0].rows].map((row) => [key(row), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1);
  });
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}

for (const input of document.querySelectorAll("input[data-filter]")) {
  const table = document.getElementById(input.dataset.filter);
  const said = document.getElementById(`${input.dataset.filter}-count`);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const whole = [...row.querySelectorAll("bdi[title]")].map((name) => name.title);
      const text = [row.textContent, ...whole].join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    said.textContent = `${shown.toLocaleString("en")} of ${table.tBodies[0].rows.length.toLocaleString("en")} shown`;
  });
}

// Integers above 2^53 are kept as text in the page and written out as the numbers that they are.
const block = document.getElementById("page-tables");
const tables = block ? JSON.parse(block.textContent) : {};
const asJson = ({ columns, integers, rows }) =>
  `[\n${rows
    .map((row) => `{${row.map((v, i) => `${JSON.stringify(columns[i])}:${v !== null && integers.includes(columns[i]) ? v : JSON.stringify(v)}`)}}`)
    .join(",\n")}\n]\n`;
const quote = (v) => {
  const text = v === null ? "" : typeof v === "object" ? JSON.stringify(v) : String(v);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const asCsv = ({ columns, rows }) => [columns, ...rows].map((row) => row.map(quote).join(",")).join("\n") + "\n";

for (const button of document.querySelectorAll("button[data-download]")) {
  button.addEventListener("click", () => {
    const [name, format] = button.dataset.download.split(".");
    const text = format === "csv" ? asCsv(tables[name]) : asJson(tables[name]);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: format === "csv" ? "text/csv" : "application/json" }));
    link.download = `${document.documentElement.dataset.run || "run"}.${button.dataset.download}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

// Everything is open on paper.
const closed = new Set();
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details.finding:not([open])")) {
    closed.add(details);
    details.open = true;
  }
});
addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
  closed.clear();
});

// The index tells which section is being read.
const links = new Map([...document.querySelectorAll(".index a")].map((a) => [a.hash.slice(1), a]));
const inView = new Set();
const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    const first = [...links.keys()].find((id) => inView.has(id));
    if (!first) return;
    for (const [id, link] of links) id === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  },
  { rootMargin: "0px 0px -75% 0px" },
);
for (const section of document.querySelectorAll("section[id]")) seen.observe(section);
