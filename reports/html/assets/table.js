"use strict";
// The table of instances: filters, order, pages. Names and texts come from outside
// and only ever become text nodes.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const many = data.systems.length > 1;
const matrix = data.systems.length > data.wordy;
const pageSize = 100;
const state = { sort: "id", down: false, page: 0, shown: [] };
const indexOf = new Map(data.rows.map((row, n) => [row.i, n]));

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

const shownId = (row) => row.d || row.i;
const linkTo = (row) => "#instance=" + encodeURIComponent(row.i);

function outcome(cell, words) {
  if (!cell) return el("span", { class: "soft" }, "–");
  const o = data.outcomes[cell.o];
  const span = el("span", { class: "outcome " + o.kind }, o.mark);
  if (words) {
    span.append(" " + o.name);
  } else {
    span.title = o.name;
    span.append(el("span", { class: "unseen" }, " " + o.name));
  }
  return span;
}

function duration(seconds) {
  if (!(seconds > 0)) return "–";
  if (seconds < 99.95) return seconds.toFixed(1) + " s";
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes + " m " + String(Math.floor(seconds % 60)).padStart(2, "0") + " s";
  return Math.floor(minutes / 60) + " h " + String(minutes % 60).padStart(2, "0") + " m";
}

const share = (n, of) => (of === undefined ? "–" : (n || 0) + "/" + of);
const resolvedBy = (row) => row.c.filter((c) => c && data.outcomes[c.o].name === "resolved").length;

function rowOf(row) {
  const line = el("tr", {}, el("th", { scope: "row" }, el("a", { href: linkTo(row) }, el("bdi", {}, shownId(row)))), el("td", {}, row.r || "–"));
  if (many) {
    for (const cell of row.c) {
      const td = el("td", { class: "cell" }, outcome(cell, !matrix));
      if (cell && cell.g) td.append(flag());
      line.append(td);
    }
    line.append(el("td", { class: "number" }, resolvedBy(row) + " of " + row.c.length));
    return line;
  }
  const cell = row.c[0] || {};
  const why = el("td", { class: "text" }, cell.w || "");
  if (cell.g) why.prepend(flag(), " ");
  line.append(el("td", {}, outcome(row.c[0], true)), el("td", { class: "number" }, share(cell.f, cell.F)), el("td", { class: "number" }, share(cell.p, cell.P)),
    el("td", { class: "number" }, duration(cell.s)), why);
  return line;
}

const flag = () => el("span", { class: "flag", title: "to be looked at" }, " ⚑", el("span", { class: "unseen" }, " flagged"));

// orders give what a column is sorted by; undefined goes to the end.
const orders = {
  id: (row) => shownId(row), repo: (row) => row.r, outcome: (row) => rank(row.c[0]), reason: (row) => (row.c[0] || {}).w,
  f2p: (row) => part(row.c[0], "f", "F"), p2p: (row) => part(row.c[0], "p", "P"), time: (row) => (row.c[0] || {}).s, solved: resolvedBy,
};
const rank = (cell) => (cell ? cell.o : undefined);
const part = (cell, n, of) => (cell && cell[of] ? (cell[n] || 0) / cell[of] : undefined);
const collator = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  if (typeof a === "string" && typeof b === "string") return collator.compare(a, b);
  return a < b ? -1 : a > b ? 1 : 0;
}

function ordered(rows) {
  const system = /^s(\d+)$/.exec(state.sort);
  const key = system ? (row) => rank(row.c[Number(system[1])]) : orders[state.sort];
  const way = state.down ? -1 : 1;
  return rows.map((row, n) => ({ row, n, key: key(row) })).sort((a, b) => {
    const missing = (a.key === undefined) - (b.key === undefined);
    return missing || way * compare(a.key, b.key) || a.n - b.n;
  }).map((entry) => entry.row);
}

function wanted() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const value = (id) => (byId(id) ? byId(id).value : "");
  const checked = (id) => byId(id) !== null && byId(id).checked;
  const [kind, repo, system] = [value("outcome"), value("repo"), value("system")];
  const [flagged, differing] = [checked("flagged"), checked("differing")];
  return (row) => {
    const cells = system === "" ? row.c : [row.c[Number(system)]];
    if (repo !== "" && row.r !== repo) return false;
    if (kind !== "" && !cells.some((c) => c && data.outcomes[c.o].name === kind)) return false;
    if (flagged && !cells.some((c) => c && c.g)) return false;
    const n = resolvedBy(row);
    if (differing && (n === 0 || n === row.c.length)) return false;
    const text = (shownId(row) + " " + (row.r || "") + " " + row.c.map((c) => (c && c.w) || "").join(" ")).toLowerCase();
    return words.every((word) => text.includes(word));
  };
}

function draw() {
  const pages = Math.max(1, Math.ceil(state.shown.length / pageSize));
  state.page = Math.min(Math.max(state.page, 0), pages - 1);
  const from = state.page * pageSize;
  byId("body").replaceChildren(...state.shown.slice(from, from + pageSize).map(rowOf));
  byId("status").textContent = state.shown.length + " of " + data.rows.length + " instances" + (pages > 1 ? ", page " + (state.page + 1) + " of " + pages : "");
  byId("back").disabled = state.page === 0;
  byId("next").disabled = state.page === pages - 1;
  byId("pages").hidden = pages === 1;
}

function refresh() {
  state.shown = ordered(data.rows.filter(wanted()));
  state.page = 0;
  draw();
}

function sortBy(name) {
  state.down = state.sort === name ? !state.down : false;
  state.sort = name;
  for (const button of document.querySelectorAll("button[data-sort]")) {
    const order = button.dataset.sort === name ? (state.down ? "descending" : "ascending") : "none";
    button.closest("th").setAttribute("aria-sort", order);
  }
  refresh();
}

function startTable() {
  for (const button of document.querySelectorAll("button[data-sort]")) button.addEventListener("click", () => sortBy(button.dataset.sort));
  byId("filters").addEventListener("input", refresh);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(refresh));
  const turn = (by) => () => { state.page += by; draw(); byId("rows").scrollIntoView(); };
  byId("back").addEventListener("click", turn(-1));
  byId("next").addEventListener("click", turn(1));
  refresh();
}
