"use strict";
const $ = (id) => document.getElementById(id), main = document.querySelector("main");
const hasNone = "\u2013"; // for what is not known

// Texts of numbers.
const num = (n, d = 0) =>
  n.toLocaleString("en", {maximumFractionDigits: d, minimumFractionDigits: d});
const rate = (n) => num(n, n === 0 || n >= 9.95 ? 0 : n >= 0.095 ? 1 : 2);
const percent = (n) => (n > 0 && n < 1e-4 ? "< 0.01" :
  num(n * 100, n === 0 || n >= 0.0995 ? 0 : n < 0.00095 ? 2 : 1)) + "\u00a0%";
const scaled = (n, base, units) => {
  let i = 0;
  for (; n >= base * 0.9995 && i < units.length - 1; i++) n /= base;
  return [num(n, i && n < 9.95 ? 1 : 0), units[i]];
};
const bytes = (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]).join(" ");
const seconds = (s) => s < 60 ? scaled(s * 1e6, 1000, ["µs", "ms", "s"]) : [num(s / 60, 1), "min"];
const time = (s) => s === 0 ? "0" : seconds(s).join(" ");
const duration = (s) => {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const i = Math.max(units.findIndex(([n]) => s >= n), 0), two = units.slice(i, i + 2);
  if (s < 60) return Math.round(s) + " s";
  return two.map(([n, unit], j) => [Math.floor((j ? s % two[0][0] : s) / n), unit])
    .filter(([n]) => n).map((part) => part.join(" ")).join(" ");
};
const at = (t) => {
  const d = new Date(t);
  return d.toLocaleDateString("en-CA") + "\u00a0" + d.toLocaleTimeString("en-GB").slice(0, 5);
};
const count = (n, one, many = one + "s") => num(n) + " " + (n === 1 ? one : many);

// Elements. A long name may break behind a punctuation mark, others nowhere unless they must.
function el(tag, content, cls) {
  const e = document.createElement(tag);
  if (content !== undefined) e.append(content);
  if (cls) e.className = cls;
  return e;
}
function name(text) {
  const e = document.createDocumentFragment();
  const parts = text.length > 24 ? text.split(/(?<=.[/.:_\-,=?&@])(?=[^/])/) : [text];
  for (const part of parts) {
    if (e.firstChild) e.append(document.createElement("wbr"));
    e.append(part);
  }
  return e;
}
// place is a site and a route; a request that nobody answers has neither.
function place(r) {
  const e = el("span", name(r.site || "no site"), "dim");
  const both = document.createDocumentFragment();
  both.append(e, r.route?.length < 4 ? "\u00a0" : " ", name(r.route || "(no route)"));
  return both;
}
function section(title, note, ...content) {
  const s = el("section"), h = el("h2", title);
  h.id = "about-" + title.toLowerCase().replaceAll(/[^a-z]+/g, "-");
  s.setAttribute("aria-labelledby", h.id);
  s.append(h);
  if (note) s.append(el("p", note, "note"));
  s.append(...content);
  main.append(s);
}
// table makes one. The heading of a column of numbers begins with #. A cell is a text, an element,
// or [either, class]; the first cell of a row names it.
function table(heads, rows) {
  const t = el("table"), head = t.createTHead().insertRow(), body = t.createTBody();
  t.setAttribute("role", "table"); // which CSS takes away on narrow screens, with those of rows
  for (const h of heads) {
    const cell = el("th", h.replace(/^#/, ""), h[0] === "#" ? "n" : "");
    cell.scope = "col";
    head.append(cell);
  }
  for (const row of rows) {
    const r = body.insertRow();
    r.setAttribute("role", "row");
    row.forEach((c, i) => {
      const [content, cls] = Array.isArray(c) ? c : [c, ""];
      const cell = el("td", content);
      cell.setAttribute("role", "cell");
      cell.className = [heads[i][0] === "#" ? "n" : "", i ? "" : "name", cls].join(" ").trim();
      cell.dataset.head = heads[i].replace(/^#/, "");
      r.append(cell);
    });
  }
  return t;
}
// list makes a list of figures: [text, what it is, class].
function list(items) {
  const l = el("dl");
  for (const [text, what, cls] of items) {
    const d = el("div");
    d.append(el("dt", what), el("dd", text, cls));
    l.append(d);
  }
  return l;
}
const zero = (n, cls = "") => [num(n), n ? cls : "zero"];

// Charts.
const svg = (tag, attributes, parent) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  parent?.append(e);
  return e;
};
const samples = 60, height = 56;
// figure makes a large figure with its chart; show draws them.
function figure(title, text) {
  const f = el("div", undefined, "figure"), value = el("p", hasNone, "value");
  const beside = el("p", "", "beside");
  const chart = svg("svg", {viewBox: `0 0 ${samples - 1} ${height}`, preserveAspectRatio: "none",
    role: "img"});
  const said = svg("title", {}, chart), area = svg("path", {class: "area"}, chart);
  const curve = svg("path", {class: "curve"}, chart), cursor = svg("path", {class: "cursor"}, chart);
  const axis = el("p", undefined, "axis"), left = el("span"), right = el("span", "now");
  let values = [], interval = 5, label = "", at = -1;
  axis.append(left, right);
  f.append(el("h2", title), value, beside, chart, axis);
  $("figures").append(f);
  // point shows the sample under the pointer, or else the scale.
  const point = () => {
    const i = at - (samples - values.length);
    if (at < 0 || !(values[i] >= 0)) {
      cursor.setAttribute("d", "");
      left.textContent = label;
      right.textContent = values.length ? duration(values.length * interval) : "";
      return;
    }
    cursor.setAttribute("d", `M${at} 0V${height}`);
    left.textContent = text(values[i]);
    right.textContent = duration((values.length - i) * interval) + " ago";
  };
  chart.addEventListener("pointermove", (e) => {
    const box = chart.getBoundingClientRect();
    at = Math.round((e.clientX - box.left) / box.width * (samples - 1));
    point();
  });
  chart.addEventListener("pointerleave", () => { at = -1; point(); });
  return (big, unit, small, bad, points, each) => {
    values = points || [];
    interval = each || 5;
    value.replaceChildren(big, ...(unit ? [" ", el("small", unit)] : []));
    value.classList.toggle("bad", bad);
    beside.textContent = small;
    const known = values.filter((v) => v >= 0), most = Math.max(...known, 0);
    // Runs of known samples; between two runs the curve has a gap.
    let line = "", fill = "", run = [];
    const y = (v) => (height - 1 - (most > 0 ? v / most * (height - 4) : 0)).toFixed(1);
    [...values, -1].forEach((v, i) => {
      const x = i + samples - values.length;
      if (v >= 0) return void run.push(`${x} ${y(v)}`);
      if (run.length) {
        const from = run[0].split(" ")[0], to = x - 1;
        line += "M" + run.join("L") + (run.length === 1 ? "h.01" : "");
        fill += `M${from} ${height}L` + run.join("L") + `L${to} ${height}Z`;
      }
      run = [];
    });
    curve.setAttribute("d", line);
    area.setAttribute("d", fill);
    label = !known.length ? "" : most > 0 ? `highest ${text(most)}` : "none";
    said.textContent = !known.length ? `${title}: no history yet` :
      `${title} in the last ${duration(values.length * interval)}: from ` +
      `${text(Math.min(...known))} to ${text(most)}, at last ${text(known.at(-1))}`;
    point();
  };
}
const figures = {
  requests: figure("Requests per second", rate), errors: figure("Errors per second", rate),
  p99: figure("99 % answered within", time), connections: figure("Connections", (n) => num(n)),
};

const sum = (a) => a.reduce((x, y) => x + y, 0);
const key = (r) => [r.site, r.route, r.address, r.kind, r.of].join("\0");
const bound = (i) => 64e-6 * 2 ** i; // of handler_times
// quantile estimates how long the given share of the counted times takes at most: within a bucket,
// times are taken to be spread evenly.
function quantile(times, share) {
  let rank = share * sum(times);
  for (let i = 0; i < times.length; i++) {
    if (times[i] && rank <= times[i]) {
      const least = i ? bound(i - 1) : 0;
      return i === times.length - 1 ? Infinity : least + (bound(i) - least) * rank / times[i];
    }
    rank -= times[i];
  }
}
const within = (q) => q === undefined ? "" : q === Infinity ? "> 17 s" : time(q);

// since returns what has been counted since before, of a counter, of a list or of an object.
function since(now, before) {
  if (typeof now === "number") return Math.max(now - (before || 0), 0);
  if (Array.isArray(now)) return now.map((n, i) => since(n, before?.[i]));
  return Object.fromEntries(Object.entries(now || {}).map(([k, n]) => [k, since(n, before?.[k])]));
}

const shown = 50; // rows of a table
const more = (all, what) => all.length > shown ? [el("p", `and ${num(all.length - shown)} more ${what}`,
  "note")] : [];

// withCodes is a cell with the answers of a class, and below it some words and the statuses.
function withCodes(r, cls, words, style = "") {
  const codes = Object.entries(r.codes).filter(([code, n]) => n && code.startsWith(cls));
  if (!r.status[cls]) return ["0", "zero"];
  codes.sort(([, a], [, b]) => b - a);
  words.push(...codes.length === 1 ? [codes[0][0]] :
    codes.slice(0, 3).map(([code, n]) => `${code}:\u00a0${num(n)}`));
  const cell = document.createDocumentFragment();
  cell.append(num(r.status[cls]), el("small", words.join(", ")));
  return [cell, style];
}
function showRoutes(now, before, span) {
  const old = new Map(before.routes.map((r) => [key(r), r]));
  const all = now.routes.map((r) => {
    const b = old.get(key(r)) || {};
    return {...r, status: since(r.status, b.status), codes: since(r.codes, b.codes), times: since(r.handler_times || [], b.handler_times),
      spent: since(r.handler_seconds, b.handler_seconds), sent: since(r.sent_bytes, b.sent_bytes)};
  });
  const active = all.filter((r) => sum(r.status)), rest = all.length - active.length;
  active.sort((a, b) => b.status[5] - a.status[5] || sum(b.status) - sum(a.status));
  if (!active.length) return;
  section("Routes", "Those with errors first, then the busiest. Left: the client did not wait " +
    "for the answer." + (rest ? ` ${count(rest, "other")} had no request.` : ""),
    table(["route", "#requests/s", "#errors (5xx)", "#4xx", "#left", "#mean", "#99 % within",
      "#sent/s"], active.slice(0, shown).map((r) => {
      const calls = sum(r.times), n = sum(r.status);
      return [place(r), rate(n / span),
        withCodes(r, 5, [percent(r.status[5] / n)], "bad"), withCodes(r, 4, []), zero(r.status[0]), calls ? time(r.spent / calls) : "",
        within(quantile(r.times, .99)), bytes(r.sent / span)];
    })), ...more(active, "routes"));
}

const states = {drain: "drained", down: "disabled"};
const stateOf = (u) => states[u.state] || (u.up ? "up" : "failed");
const marks = {up: ["●", "good"], failed: ["▲", "bad"], drained: ["■", "warn"],
  disabled: ["■", "warn"]};
// An upstream is shown once, however many routes use it, unless they find it in different states.
function upstreamsOf(now, before) {
  const old = new Map(before.upstreams.map((u) => [u.address, u])), by = new Map();
  for (const u of now.upstreams) {
    const state = stateOf(u), id = u.address + "\0" + state, b = old.get(u.address) || {};
    if (!by.has(id)) {
      by.set(id, {...u, shown: state, places: [], requests: since(u.requests, b.requests),
        failures: since(u.failures, b.failures), times: since(u.first_byte_times || [], b.first_byte_times)});
    }
    by.get(id).places.push(u);
  }
  const order = ["failed", "disabled", "drained", "up"];
  return [...by.values()].sort((a, b) => order.indexOf(a.shown) - order.indexOf(b.shown) ||
    (a.address < b.address ? -1 : 1));
}
function showUpstreams(upstreams, span) {
  if (!upstreams.length) return;
  section("Upstreams", "Within: from the request's turn to the first byte of the answer.", table(["address", "state", "used by", "#requests/s", "#failed",
    "#99 % within", "#active", "#idle", "#waiting"], upstreams.slice(0, shown).map((u) => {
    const [mark, cls] = marks[u.shown], f = u.failures, failed = f.connect + f.silent + f.status;
    const users = document.createDocumentFragment();
    u.places.slice(0, 3).forEach((p, i) => users.append(...(i ? [", "] : []), place(p)));
    if (u.places.length > 3) users.append(` and ${num(u.places.length - 3)} more`);
    const address = document.createDocumentFragment();
    address.append(name(u.address), u.backup ? " (backup)" : "");
    return [address, [`${mark}\u00a0${u.shown}`, cls + " state"], [users, "text"], rate(u.requests / span),
      zero(failed, "bad"), within(quantile(u.times, .99)), zero(u.active), zero(u.idle),
      zero(u.waiting, "warn")];
  })), ...more(upstreams, "upstreams"));
}

function showCache(now, before, span) {
  const k = now.cache;
  if (!k) return;
  const d = since(k, before.cache), old = new Map(before.routes.map((r) => [key(r), r]));
  const routes = now.routes.filter((r) => r.cache)
    .map((r) => ({...r, cache: since(r.cache, old.get(key(r))?.cache || {})}))
    .filter((r) => sum(Object.values(r.cache)));
  const uses = ["hit", "stale", "collapsed", "miss", "expired", "revalidated", "bypass"]
    .filter((use) => routes.some((r) => r.cache[use]));
  const kept = (r) => (r.cache.hit || 0) + (r.cache.stale || 0) + (r.cache.collapsed || 0);
  const content = [list([
    [count(k.memory_objects, "answer"), `in memory, ${bytes(k.memory_bytes)}`],
    [count(k.disk_objects, "answer"), `on disk, ${bytes(k.disk_bytes)}`],
    [rate(d.fills / span) + "/s", "kept anew"], [num(k.filling), "on their way"],
    ...[["dropped", "not kept"], ["evicted", "evicted"], ["purged", "purged"],
      ["damaged", "damaged files", "bad"], ["failed", "failed reads and writes", "bad"]]
      .filter(([n]) => d[n]).map(([n, what, cls]) => [num(d[n]), what, cls])])];
  if (routes.length) {
    const n = (r) => sum(Object.values(r.cache));
    routes.sort((a, b) => n(b) - n(a));
    content.push(table(["route", "#requests/s", "#cached", ...uses.map((u) => "#" + u)],
      routes.slice(0, shown).map((r) => [place(r), rate(n(r) / span), percent(kept(r) / n(r)),
        ...uses.map((u) => zero(r.cache[u] || 0))])), ...more(routes, "routes"));
  }
  section("Cache", "", ...content);
}

// refusals are what the server does not serve, by the names of the JSON.
const refusals = {max_connections: "refused: max_connections", idle_closed: "idle ones closed for others",
  max_connections_per_address: "refused: max_connections_per_address",
  untrusted_peer: "refused: no trusted proxy", proxy_header: "refused: PROXY header",
  slow: "too slow clients", spool: "503: max_spool", http2_held: "503: descriptors, HTTP/2"};
function showServer(now, before, span) {
  const c = now.connections, d = since(c, before.connections), q = since(now.requests, before.requests);
  const p = now.process, lost = since(now.logs, before.logs);
  const refused = Object.entries(since(now.refusals, before.refusals));
  section("Server", "", list([
    [num(c.idle), "idle connections"], [num(c.busy), "busy with a request"],
    ...[[c.hijacked, "taken over (WebSockets)"], [c.lingering, "being closed"],
      [c.refusing, "being refused", "bad"], [c.http2, "connections of HTTP/2"],
      [c.http2_streams, "streams of HTTP/2"], [d.http2_resets, "streams reset by clients"],
      [d.failed_handshakes, "failed TLS handshakes"], [now.handshakes.waiting, "handshakes waiting", "warn"],
      [now.passwords.waiting, "passwords waiting", "warn"], [q.panics, "panics", "bad"]]
      .filter(([n]) => n).map(([n, what, cls]) => [num(n), what, cls]),
    [rate(d.accepted / span) + "/s", "accepted"],
    [bytes(q.sent_bytes / span) + "/s", "sent"], [bytes(q.received_bytes / span) + "/s", "received"],
    ...refused.filter(([, n]) => n).map(([k, n]) => [num(n), refusals[k] || k, "warn"]),
    [percent(since(p.cpu_seconds, before.process.cpu_seconds) / span), "of a CPU"],
    [bytes(p.resident_bytes), "memory"], [bytes(now.heap_bytes), "of it heap"],
    [num(p.open_files), `open files of ${num(p.max_files)}`],
    ...(now.spool_bytes ? [[bytes(now.spool_bytes), "temporary files"]] : []),
    [num(now.goroutines), "goroutines"],
    ...[[lost.access_lines_lost, "lost lines of access logs"], [lost.error_lines_lost, "lost lines of the log"]]
      .filter(([n]) => n).map(([n, what]) => [num(n), what, "bad"]),
    [at(now.reload.configured), "configuration read"],
    ...(now.reload.error ? [[at(now.reload.last), "reload refused", "bad"]] : []),
    [at(p.started), "started"],
  ]));
  if (!now.draining?.length) return;
  section("Replaced processes", "Processes that an upgrade has replaced, and that still serve connections.",
    table(["process", "#connections", "since", "until at most"], now.draining.map((o) =>
      [String(o.pid), num(o.connections), [at(o.since), "text"], [at(o.until), "text"]])));
}

function showOthers(now, before, span) {
  const old = new Map([...before.streams, ...before.handlers].map((s) => [key(s), s]));
  if (now.streams.length) {
    section("Streams", "", table(["address", "#open", "#accepted/s", "#refused", "#failed",
      "#received/s", "#sent/s"], now.streams.slice(0, shown).map((s) => {
      const d = since({...s, address: 0}, old.get(key(s)));
      return [name(s.address), num(s.open), rate(d.accepted / span), zero(d.refused, "bad"),
        zero(d.failed, "bad"), bytes(d.received_bytes / span), bytes(d.sent_bytes / span)];
    })), ...more(now.streams, "streams"));
  }
  for (const kind of new Set(now.handlers.map((h) => h.kind))) {
    const all = now.handlers.filter((h) => h.kind === kind);
    section(kind[0].toUpperCase() + kind.slice(1), "",
      table(["route", ...all[0].counts.map((c) => "#" + c.name.replaceAll("_", " "))],
        all.slice(0, shown).map((h) => {
          const of = place(h), b = old.get(key(h))?.counts;
          if (h.of) of.append(" → ", name(h.of));
          return [of, ...h.counts.map((c, i) => zero(c.gauge ? c.value : since(c.value, b?.[i]?.value)))];
        })), ...more(all, "routes"));
  }
  if (now.certificates?.length) {
    const all = now.certificates.toSorted((a, b) => (a.not_after || "") < (b.not_after || "") ? -1 : 1);
    section("Certificates", "Those that expire first are above.", table(["names", "until", "#days left"],
      all.slice(0, shown).map((c) => {
        const left = daysLeft(c, now);
        return [name(c.names.join(", ")), ...(left === undefined ? [["to be obtained", "warn text"], ""] :
          [new Date(c.not_after).toLocaleDateString("en-CA"), [num(left), new Date(c.warn_from) < new Date(now.time) ? "bad" : ""]])];
      })), ...more(all, "certificates"));
  }
  const t = now.topics;
  if (t.count) {
    section("Topics", `${count(t.count, "topic")} with ${count(t.subscribers, "subscription")} and ` +
      `${bytes(t.bytes)}; the largest:`, table(["topic", "#subscriptions", "#messages", "#bytes"],
      t.largest.map((x) => [name(x.name), num(x.subscribers), num(x.messages), bytes(x.bytes)])));
  }
}
const daysLeft = (c, now) => c.not_after ?
  Math.floor((new Date(c.not_after) - new Date(now.time)) / 864e5) : undefined;

function showLoops(now, before) {
  section("Loops", "A loop serves its share of the connections, so a handler must not block it. Busy is the " +
    "share of time in which it worked: near 100 % it can do no more. Wake-ups are returns from sleep; " +
    "each connection is a thread; coroutines are requests under way + those kept for the next ones; workers run what would block a " +
    "loop. A stall is a handler that held the loop up.",
    table(["loop", "#busy", "", "#wake-ups/s", "#threads", "#coroutines", "#timers",
      "#workers", "#stalls"], now.loops.map((l) => {
      const id = `loop ${l.loop}`, b = before.loops[l.loop], stalls = zero(since(l.stalls, b?.stalls), "warn");
      if (!l.answered) return [id, ["held up", "bad"], "", "", "", "", "", "", stalls];
      const span = l.age_seconds - (b?.age_seconds || 0);
      const ok = b?.answered && span > 0, m = el("meter");
      const busy = ok ? Math.min(since(l.busy_seconds, b.busy_seconds) / span, 1) : 0;
      m.value = busy;
      m.setAttribute("aria-label", "busy");
      return [id, ok ? percent(busy) : hasNone, ok ? m : "",
        ok ? rate(since(l.wakeups, b.wakeups) / span) : hasNone, num(l.threads),
        `${num(l.coroutines)} + ${num(l.parked_coroutines)}`, num(l.timers),
        num(l.workers) + (l.workers_queued ? `, ${num(l.workers_queued)} wait` : ""), stalls];
    })));
  if (!now.stalls.length) return;
  section("Stalls", "The latest handlers that held a loop up; what else the loop serves waited.",
    table(["place", "since", "#loop", "#held"], now.stalls.toReversed().map((s) =>
      [name(s.place), new Date(s.since).toLocaleTimeString("en-GB"), String(s.loop),
        time(s.held_seconds)])));
}

function show(now) {
  // Without an older look there are no rates, since averages over a server's life are none.
  const before = now.minute_ago || now, span = now.uptime_seconds - before.uptime_seconds;
  const ok = span > 0, c = now.connections, h = now.recent || {}, each = h.interval_seconds;
  const q = since(now.requests, before.requests), old = new Map(before.routes.map((r) => [key(r), r]));
  let times = [];
  for (const r of now.routes) {
    const t = since(r.handler_times || [], old.get(key(r))?.handler_times);
    times = t.map((n, i) => n + (times[i] || 0));
  }
  const warnings = now.warnings;
  $("server").textContent = `${now.version} · process ${now.pid} · up ${duration(now.uptime_seconds)} · ` +
    (ok ? `rates and counts of the last ${span > 55 ? "minute" : duration(span)}` : "no rates yet");
  document.title = (warnings.length ? `(${warnings.length}) ` : "") + "lwango " + location.host;
  const texts = warnings.slice(0, 8);
  if (warnings.length > 8) texts.push(`And ${num(warnings.length - 8)} more.`);
  if ([...$("warnings").children].map((e) => e.textContent).join() !== texts.map((w) => "▲ " + w).join()) {
    $("warnings").replaceChildren(...texts.map((w) => {
      const e = el("li", el("span", "▲", "bad"));
      for (const word of w.split(" ")) e.append(" ", name(word));
      return e;
    }));
  }
  figures.requests(ok ? rate(q.total / span) : hasNone, "", `${num(now.requests.running)} running`,
    false, h.requests_per_second, each);
  figures.errors(ok ? rate(q.errors / span) : hasNone, "", !ok || !q.total ? "answers of 5xx" :
    q.errors ? `${percent(q.errors / q.total)} of requests` : "no answer of 5xx", q.errors > 0,
    h.errors_per_second, each);
  const p99 = quantile(times, .99), [value, unit] = p99 === undefined ? [hasNone, ""] :
    p99 === Infinity ? ["> 17", "s"] : seconds(p99);
  figures.p99(value, unit, p99 === undefined ? "no handler has ended" :
    `half within ${within(quantile(times, .5))}`, false, h.p99_seconds, each);
  figures.connections(num(c.open), "", `${num(c.idle)} idle, ${num(c.busy)} busy`, c.refusing > 0,
    h.connections, each);
  const selection = getSelection();
  if (!selection.isCollapsed && main.contains(selection.anchorNode)) return; // somebody copies it
  main.replaceChildren();
  if (ok) {
    showRoutes(now, before, span);
    showUpstreams(upstreamsOf(now, before), span);
    showCache(now, before, span);
    showServer(now, before, span);
    showOthers(now, before, span);
  }
  showLoops(now, before);
}

let answered; // when the server has answered last
async function look() {
  try {
    const r = await fetch("json", {cache: "no-store", signal: AbortSignal.timeout(5000)});
    if (!r.ok) throw new Error(r.status + " " + r.statusText);
    show(await r.json());
    answered = new Date();
    $("error").textContent = "";
  } catch (e) {
    $("error").textContent = `No answer: ${e.message}.` + (answered ? " What is below is of " +
      answered.toLocaleTimeString("en-GB") + "." : "");
  }
  setTimeout(look, document.hidden ? 10000 : 2000);
}
look();
