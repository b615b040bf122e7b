// One instance: what each system did there. Its details are compressed, and read
// when they are asked for.
const chunks = new Map();
const waiting = new Map();

// Files beside the page call this.
window.evalrunDetails = (n, text) => waiting.get(n)(text);

function chunkText(n) {
  if (data.files === "") return Promise.resolve(byId("details-" + n).textContent);
  return new Promise((resolve, reject) => {
    const name = data.files + "/" + String(n).padStart(5, "0") + ".js";
    waiting.set(n, resolve);
    const script = el("script", { src: name.split("/").map(encodeURIComponent).join("/") });
    script.addEventListener("error", () => reject(new Error(name + " cannot be read; it belongs beside this page")));
    document.head.append(script);
  });
}

async function unpack(n) {
  const bytes = Uint8Array.from(atob((await chunkText(n)).trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function detailsOf(n) {
  const at = Math.floor(n / data.chunk);
  if (!chunks.has(at)) {
    const loading = unpack(at);
    loading.catch(() => chunks.delete(at)); // and try again the next time
    chunks.set(at, loading);
  }
  return chunks.get(at).then((all) => all[n % data.chunk]);
}

function code(label, lines) {
  return el("div", { class: "code", tabindex: "0", role: "region", "aria-label": label }, el("pre", {}, ...lines));
}

function list(pairs) {
  return el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, el("bdi", {}, value))]));
}

// lazily fills a <details> when it is opened for the first time.
function lazily(summary, open, fill) {
  const node = el("details", { open }, el("summary", {}, summary));
  const once = () => { if (node.open && node.childElementCount === 1) node.append(fill()); };
  node.addEventListener("toggle", once);
  once();
  return node;
}

function testRows(rows) {
  return el("div", { class: "wide" }, el("table", { class: "tests" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Test"), el("th", { scope: "col" }, "Result"))),
    el("tbody", {}, ...rows.map(([name, ok]) => el("tr", {}, el("td", {}, el("bdi", {}, name)),
      el("td", {}, el("span", { class: "outcome " + (ok ? "good" : "bad") }, ok ? "✓ passed" : "✗ not passed")))))));
}

function tests(title, names, results) {
  if (results === undefined || names.length === 0) return null;
  const of = (mark) => names.filter((_, n) => results[n] === mark).map((name) => [name, mark === "p"]);
  const [good, bad] = [of("p"), of("f")];
  const box = el("section", {}, el("h4", {}, title + ": " + good.length + " of " + (good.length + bad.length) + " passed"));
  if (bad.length > 0) box.append(lazily(bad.length + " not passed", true, () => testRows(bad)));
  if (good.length > 0) box.append(lazily(good.length + " passed", bad.length === 0 && good.length <= 20, () => testRows(good)));
  return box;
}

function diffLine(line) {
  if (/^(diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename |copy |Binary |GIT binary)/.test(line)) return el("span", { class: "meta" }, line);
  if (line.startsWith("@@")) return el("span", { class: "hunk" }, line);
  if (line.startsWith("+")) return el("ins", {}, line);
  if (line.startsWith("-")) return el("del", {}, line);
  return el("span", {}, line);
}

function patch(p) {
  if (!p) return null;
  const parts = p.text.replace(/\n$/, "").split(/\n(?=diff --git )/);
  const box = el("section", {}, el("h4", {}, "Patch, " + p.bytes + " bytes"));
  for (const part of parts) {
    const lines = part.split("\n");
    const count = (sign) => lines.filter((l) => l.startsWith(sign) && !l.startsWith(sign.repeat(3) + " ")).length;
    const name = (/^diff --git a\/.* b\/(.*)$/.exec(lines[0]) || /^\+\+\+ b\/(.*)$/m.exec(part) || [])[1] || "patch";
    box.append(lazily(name + " (+" + count("+") + " −" + count("-") + ")", parts.length <= 10, () => code("Patch of " + name, lines.map(diffLine))));
  }
  if (p.cut) box.append(el("p", { class: "soft" }, "The rest is left out; all of it is in patch.diff."));
  return box;
}

function log(l) {
  if (!l) return null;
  const marks = new Set(l.marks);
  const lines = [];
  let at = 1;
  const gap = (to) => { if (to > at) lines.push(el("span", { class: "gap" }, (to - at) + " lines left out")); };
  for (const part of l.parts) {
    gap(part.from);
    at = part.from;
    for (const text of part.text.split("\n")) {
      lines.push(el(marks.has(at) ? "mark" : "span", {}, el("span", { class: "n", "aria-hidden": "true" }, String(at)), text));
      at++;
    }
  }
  gap(l.lines + 1);
  const region = code("Log", lines);
  const box = el("section", {}, el("h4", {}, "Log (" + l.name + "), " + l.lines + " lines"));
  if (marks.size > 0) {
    let next = 0;
    const said = el("span", { role: "status" }, marks.size + " lines decide");
    const jump = el("button", { type: "button" }, "Next deciding line");
    jump.addEventListener("click", () => {
      const found = region.querySelectorAll("mark");
      const line = found[next++ % found.length];
      region.scrollTop = line.offsetTop - region.offsetTop - 60;
      said.textContent = line.textContent;
    });
    box.append(el("div", { class: "turn" }, jump, said));
    setTimeout(() => { const first = region.querySelector("mark"); if (first) region.scrollTop = first.offsetTop - region.offsetTop - 60; });
  }
  box.append(region);
  return box;
}

function timings(phases) {
  if (!phases) return null;
  const longest = Math.max(...phases.map((p) => p.seconds), 0.001);
  return el("section", {}, el("h4", {}, "Timings"), el("div", { class: "wide" }, el("table", {},
    el("thead", {}, el("tr", {}, ...["Phase", "Time", "", "Exit code", "Output"].map((h) => (h ? el("th", { scope: "col" }, h) : el("td", {}))))),
    el("tbody", {}, ...phases.map((p) => {
      const bar = el("span", { class: "meter" });
      bar.style.width = (100 * p.seconds / longest) + "%";
      return el("tr", {}, el("th", { scope: "row" }, p.name), el("td", { class: "number" }, duration(p.seconds)), el("td", { class: "track" }, bar),
        el("td", { class: "number" }, String(p.exit)), el("td", {}, p.output));
    })))));
}

function side(system, cell, d, names) {
  const box = el("section", { class: "side" }, el("h3", {}, el("bdi", {}, data.systems[system].name)));
  if (!cell) {
    box.append(el("p", { class: "soft" }, "This instance is not among its own."));
    return box;
  }
  const o = data.outcomes[cell.o];
  box.append(el("p", {}, el("span", { class: "badge outcome " + o.kind }, o.mark + " " + o.name), " " + duration(cell.s)));
  if (!d) {
    box.append(el("p", { class: "soft" }, "The files it was read from say no more."));
    return box;
  }
  if (d.reason) box.append(el("p", {}, el("bdi", {}, d.reason)));
  for (const text of d.flags || []) box.append(el("p", { class: "notice" }, "⚑ ", el("bdi", {}, text)));
  if (d.links) box.append(el("p", {}, "Files: ", ...d.links.flatMap(([name, href], n) => [n ? ", " : "", el("a", { href }, name)])));
  box.append(...[tests("FAIL_TO_PASS", names.f || [], d.f), tests("PASS_TO_PASS", names.p || [], d.p), patch(d.patch), log(d.log), timings(d.phases)].filter(Boolean));
  for (const group of d.facts || []) box.append(lazily(group.name, group.name === "Resources", () => list(group.pairs)));
  return box;
}

// chosen are the two systems side by side; at first two that differ.
function chosen(row) {
  const good = row.c.findIndex((c) => c && data.outcomes[c.o].name === "resolved");
  const bad = row.c.findIndex((c) => c && data.outcomes[c.o].name !== "resolved");
  if (good < 0 || bad < 0 || data.systems.length === 2) return [0, 1];
  return good < bad ? [good, bad] : [bad, good];
}

async function show(n) {
  const row = data.rows[n];
  const title = el("h2", { tabindex: "-1" }, el("bdi", {}, shownId(row)));
  const view = byId("instance");
  view.replaceChildren(neighbours(n), title, el("p", { class: "soft" }, row.r || ""));
  byId("all").hidden = byId("jump").hidden = true;
  view.hidden = false;
  document.title = shownId(row) + " – " + data.title;
  title.focus();
  window.scrollTo(0, 0);
  let details = { s: [] };
  if (data.chunk > 0) {
    const wait = el("p", { role: "status" }, "reading its details …");
    view.append(wait);
    try {
      details = await detailsOf(n);
    } catch (error) {
      view.append(el("p", { class: "notice", role: "alert" }, "Its details cannot be shown: " + error.message));
    }
    wait.remove();
  }
  if (current() !== n) return; // somebody was faster
  const sides = el("div", { class: "sides" });
  const fill = (systems) => {
    sides.classList.toggle("two", systems.length > 1);
    sides.replaceChildren(...systems.map((s) => side(s, row.c[s], details.s[s], details)));
  };
  if (many) view.append(overview(row, chosen(row), fill));
  fill(many ? chosen(row) : [0]);
  view.append(sides);
}

// overview says how all systems ended, and lets two of them be chosen.
function overview(row, pair, fill) {
  const pick = (label, n) => {
    const select = el("select", {}, ...data.systems.map((s, k) => el("option", { value: k, selected: k === pair[n] }, s.name + ": " + (row.c[k] ? data.outcomes[row.c[k].o].name : "–"))));
    select.addEventListener("change", () => { pair[n] = Number(select.value); fill(pair); });
    return el("label", {}, label + " ", select);
  };
  const names = (good) => data.systems.filter((_, n) => row.c[n] && (data.outcomes[row.c[n].o].name === "resolved") === good).map((s) => s.name).join(", ") || "none";
  const who = matrix ? list([["resolved by", names(true)], ["not by", names(false)]]) : null;
  return el("div", {}, el("p", {}, "Resolved by " + resolvedBy(row) + " of " + row.c.length + "."), who,
    el("div", { class: "turn" }, pick("Left", 0), pick("Right", 1)));
}

function neighbours(n) {
  const at = state.shown.indexOf(data.rows[n]);
  const step = (by, text) => {
    const row = at < 0 ? undefined : state.shown[at + by];
    return row ? el("a", { href: linkTo(row) }, text) : el("span", { class: "soft" }, text);
  };
  return el("nav", { class: "turn", "aria-label": "Instances" }, el("a", { href: "#instances" }, "← All instances"), step(-1, "Previous"), step(1, "Next"));
}

function current() {
  const match = /^#instance=(.*)$/.exec(location.hash);
  if (!match) return -1;
  try {
    return indexOf.get(decodeURIComponent(match[1])) ?? -1;
  } catch {
    return -1; // a broken escape
  }
}

let last = -1;
function follow() {
  const n = current();
  if (n >= 0) {
    last = n;
    show(n);
    return;
  }
  byId("instance").hidden = true;
  byId("instance").replaceChildren();
  byId("all").hidden = byId("jump").hidden = false;
  document.title = data.title;
  if (location.hash.length > 1 && byId(location.hash.slice(1)) && last < 0) byId(location.hash.slice(1)).scrollIntoView();
  if (last >= 0) {
    const link = byId("body").querySelector('a[href="' + CSS.escape(linkTo(data.rows[last])) + '"]');
    (link || byId("rows")).focus();
  }
  last = -1;
}

window.addEventListener("hashchange", follow);
startTable();
follow();
