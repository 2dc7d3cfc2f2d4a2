"use strict";
(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const COLORS = { // dots have a contrast of at least 3 to 1; after Okabe and Ito, and the same hues, lighter, on dark paper
    light: ["#0072B2", "#C84E00", "#00805D", "#B8508A", "#946200", "#2F86B8", "#6A3D9A", "#8C564B", "#6B6B6B", "#6E6E00"],
    dark: ["#4FA8DD", "#F08A3C", "#2CC79A", "#DE9BC2", "#F0B429", "#9AD4F5", "#B295DC", "#C08D80", "#ABABAB", "#CFC933"],
  };
  const SHAPES = ["circle", "triangle-up", "square", "diamond", "triangle-down", "cross", "wedge"];
  const LABELED = 40; // classes with their name at their middle
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const numbers = (text) => (text === null ? null : new Int16Array(bytes(text)));
  const points = new Float32Array(bytes(data.points));
  const targets = numbers(data.targets), impostors = numbers(data.impostors), counts = numbers(data.counts);
  const invading = data.invading === null ? null : new Uint8Array(bytes(data.invading));
  const n = data.rows.length, frames = data.frames.length, TARGETS = targets ? targets.length / n : 0;
  const IMPOSTORS = impostors ? impostors.length / n / frames : 0;
  const place = new Map(data.rows.map((row, i) => [row, i]));
  const quiet = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const views = {};
  let chosen = null, current = 0, moving = 0, lit = null, kept = null, shown = new Float32Array(points.subarray(0, 2 * n));

  const short = (value) => (value === null ? "none" : Number(value).toPrecision(8).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""));
  const name = (i) => (data.names ? data.names[i] : `example ${data.rows[i]}`);
  const classOf = (i) => (data.classes.length ? ` (class ${data.classes[data.index[i]]})` : "");
  const list = (items) => (items.length ? items.map((i) => name(i) + classOf(i)).join(", ") : "none");
  const add = (parent, tag, text) => { const node = document.createElement(tag); if (text !== undefined) node.textContent = text; parent.append(node); return node; };
  const theme = () => document.documentElement.dataset.theme;
  const css = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  const color = (c) => COLORS[theme()][c % 10];
  const shape = (c) => SHAPES[c % SHAPES.length];
  const invades = (i, f) => (invading !== null) && ((invading[(f * n + i) >> 3] >> (7 - ((f * n + i) & 7))) & 1) === 1;
  const targetsOf = (i) => (targets ? Array.from(targets.subarray(i * TARGETS, (i + 1) * TARGETS)).filter((j) => j >= 0) : []);
  const impostorsOf = (i, f) => (impostors ? Array.from(impostors.subarray((f * n + i) * IMPOSTORS, (f * n + i + 1) * IMPOSTORS)).filter((j) => j >= 0) : []);

  function table(node, columns, rows) {
    const line = add(add(node, "thead"), "tr"), body = add(node, "tbody");
    for (const column of columns) add(line, "th", column).scope = "col";
    for (const row of rows) { const own = add(body, "tr"); for (const value of row) add(own, "td", typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(6) : value === null ? "" : String(value)); }
  }
  const TABLES = {
    embedding: () => [["example", "class", "target neighbors", "impostors before", "impostors after", "x", "y"], data.rows.map((row, i) => [name(i), data.classes[data.index[i]] ?? "", targetsOf(i).map(name).join(", "), counts ? counts[i] : "", counts ? counts[(frames - 1) * n + i] : "", shown[2 * i], shown[2 * i + 1]])],
    interval: () => [["iteration", "objective", "lower bound"], data.trace.rows.map((row) => [row.iteration, short(row.objective), short(row.lower_bound)])],
    weights: () => [["feature", "length of one unit", "cancels with"], data.weights.map((row) => [row.name, row.weight, row.cancels])],
    spectrum: () => [["number", "eigenvalue"], data.spectrum.map((value, i) => [i + 1, value])],
  };
  for (const details of document.querySelectorAll("details.numbers")) details.addEventListener("toggle", () => {
    for (const old of details.querySelectorAll(".scroll")) old.remove();
    if (!details.open) return;
    const place = add(details, "div");
    place.className = "scroll";
    table(add(place, "table"), ...TABLES[details.dataset.of]());
  });

  function words() {
    document.title = data.title;
    byId("title").textContent = data.title;
    byId("verdict").textContent = data.verdict;
    byId("vote").hidden = data.scores === null;
    for (const tile of data.tiles) { const item = add(byId("tiles"), "li"); add(item, "span", tile.label); add(item, "strong", tile.value); add(item, "span", tile.note); }
    byId("statement").textContent = data.statement;
    const pairs = [["status", data.status.replaceAll("_", " ")], ["solver", `${data.solver}, ${data.seconds.toFixed(2)} s`], ["objective", data.objective === null ? "none" : data.ends[1]], ["lower bound", data.lower_bound === null ? "none" : data.ends[0]], ["relative gap", data.relative_gap === null ? "none" : data.gap], ["problem's fingerprint", data.fingerprint]];
    for (const [key, value] of pairs) { add(byId("numbers"), "dt", key); add(byId("numbers"), "dd", value).dataset.key = key; }
    for (const sentence of data.words) add(byId("words"), "li", sentence);
    for (const way of data.checks) { add(byId("checks"), "p", way.what); add(add(byId("checks"), "pre"), "code", way.code); }
    const notes = ["Two leading principal components of each embedding, turned to match the one before, at one size. An impostor is an example of another class that is no further away, in all dimensions, than the furthest target neighbor of somebody; the margin is left out. Impostors have a ring."];
    if (n < data.total) notes.push(`${n.toLocaleString("en")} of ${data.total.toLocaleString("en")} examples are drawn; neighbors and impostors are those among them.`);
    if (frames < 3) notes.push("This solution has no points from along the solve: it was loaded from a file, or solved in one step.");
    byId("note").textContent = notes.join(" ");
    const cancel = data.weights.filter((row) => row.cancels !== null), picture = data.trace.picture;
    byId("weights-note").textContent = "How long one unit of a feature alone becomes: the root of the metric's diagonal." + (cancel.length ? ` Hollow bars cancel with a correlated feature, ${cancel[0].name} with ${cancel[0].cancels} for example: neither length says what its feature is worth.` : "");
    byId("interval-note").textContent = { curve: data.kind === "regret" ? "The cumulative loss, and a number that no fixed metric's loss is below." : "The optimum lies in the shaded interval. The numbers are the best so far; the last ones are those of the certificate.", bar: "The optimum lies between the two.", none: "Problems of this kind have no lower bound: this is the objective alone." }[picture];
    confused();
    if (!data.support) { byId("support-section").remove(); return; }
    byId("support-sentence").textContent = `Share of all multipliers that belongs to the example's constraints. ${data.support.sentence}.`;
    const classes = data.support.rows.some((row) => row.class !== null);
    table(byId("support"), ["example", ...(classes ? ["class"] : []), "share"], data.support.rows.map((row) => [row.example, ...(classes ? [row.class] : []), `${(100 * row.share).toFixed(1)} %`]));
  }

  function confused() {
    const scores = data.scores;
    if (!scores) { byId("confused-section").remove(); return; }
    const whose = scores.held_out ? "held-out examples" : "examples that the metric was learned from, each left out of its own neighbors";
    const wrong = scores.n - scores.correct[1];
    byId("confused-note").textContent = `${wrong.toLocaleString("en")} of ${scores.n.toLocaleString("en")} ${whose} are classified wrongly with the metric.` + (scores.table.length ? " Rows are labels, columns predictions." : wrong ? " The most frequent confusions:" : "");
    if (!scores.table.length) { if (wrong) table(byId("confused"), ["label", "predicted", "times"], scores.confused); return; }
    byId("confused").className = "matrix" + (scores.classes.some((label) => label.length > 3) ? " long" : "");
    table(byId("confused"), ["label", ...scores.classes], scores.table.map((row, a) => [scores.classes[a], ...row]));
    byId("confused").querySelectorAll("tbody tr").forEach((row, a) => row.querySelectorAll("td").forEach((cell, b) => { if (b && cell.textContent !== "0") cell.className = b === a + 1 ? "right" : "wrong"; }));
  }

  function legend() {
    byId("legend").replaceChildren();
    data.classes.forEach((label, c) => {
      const item = add(add(byId("legend"), "li"), "button");
      item.type = "button";
      item.setAttribute("aria-pressed", kept === c);
      item.innerHTML = '<svg viewBox="-6 -6 12 12" aria-hidden="true"><path/></svg>';
      const path = item.querySelector("path");
      path.setAttribute("d", { circle: "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", "triangle-up": "M0,-5L5,4L-5,4Z", square: "M-4,-4H4V4H-4Z", diamond: "M0,-5.5L5,0L0,5.5L-5,0Z", cross: "M-2,-5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z", "triangle-down": "M0,5L5,-4L-5,-4Z", wedge: "M0,-5L2.5,4L-2.5,4Z" }[shape(c)]);
      path.setAttribute("fill", color(c));
      item.append(label);
      const light = (value) => { lit = value; views.embedding.signal("lit", lit === null ? -1 : lit).run(); };
      item.addEventListener("mouseenter", () => light(c));
      item.addEventListener("focus", () => light(c));
      for (const leave of ["mouseleave", "blur"]) item.addEventListener(leave, () => light(kept));
      item.addEventListener("click", () => { kept = kept === c ? null : c; byId("legend").querySelectorAll("button").forEach((other, k) => other.setAttribute("aria-pressed", kept === k)); light(kept); });
    });
  }

  const config = () => ({ background: null, axis: { labelColor: css("--ink"), titleColor: css("--ink"), domainColor: css("--faint"), tickColor: css("--faint"), gridColor: css("--line"), labelFontSize: 14, titleFontSize: 14, titleFontWeight: "normal" }, legend: { labelColor: css("--ink"), labelFontSize: 14 } });
  let paper = false; // charts drawn as wide as they are printed keep their letters
  const widthOf = (id) => (paper ? (id === "embedding" ? 440 : 310) : Math.max(byId(id).clientWidth, 240));
  function show(id, spec) {
    if (views[id]) views[id].finalize();
    byId(id).replaceChildren();
    views[id] = new vega.View(vega.parse({ $schema: "https://vega.github.io/schema/vega/v6.json", width: widthOf(id), autosize: { type: "fit", contains: "padding" }, padding: 4, ...spec }, config()), { renderer: "canvas", container: byId(id), hover: true });
    return views[id];
  }

  const rowsOf = (xy) => data.rows.map((row, i) => ({ i, x: xy[2 * i], y: xy[2 * i + 1], c: data.index[i] }));
  const links = () => {
    if (chosen === null) return [];
    const f = current, to = (kind) => (j) => ({ kind, x: shown[2 * chosen], y: shown[2 * chosen + 1], x2: shown[2 * j], y2: shown[2 * j + 1] });
    return [...targetsOf(chosen).map(to("target neighbor")), ...impostorsOf(chosen, f).map(to("impostor"))];
  };

  const ring = () => (chosen === null ? [] : [{ x: shown[2 * chosen], y: shown[2 * chosen + 1] }]);
  const fill = (view, name, values) => view.change(name, vega.changeset().remove(vega.truthy).insert(values));

  const rings = () => data.rows.map((row, i) => i).filter((i) => invades(i, current)).map((i) => ({ x: shown[2 * i], y: shown[2 * i + 1], c: data.index[i] }));
  const centers = () => {
    if (data.classes.length < 2 || data.classes.length > LABELED) return [];
    const sums = data.classes.map((label) => ({ label, x: 0, y: 0, count: 0 }));
    data.index.forEach((c, i) => { sums[c].x += shown[2 * i]; sums[c].y += shown[2 * i + 1]; sums[c].count += 1; });
    return sums.filter((one) => one.count).map((one, c) => ({ label: one.label, x: one.x / one.count, y: one.y / one.count, c }));
  };

  function embedding() {
    const low = [Infinity, Infinity], high = [-Infinity, -Infinity];
    points.forEach((value, k) => { low[k % 2] = Math.min(low[k % 2], value); high[k % 2] = Math.max(high[k % 2], value); });
    const spans = [0, 1].map((k) => 1.08 * (high[k] - low[k]) || 1), middle = [0, 1].map((k) => (low[k] + high[k]) / 2);
    const width = widthOf("embedding"), height = Math.round(Math.min(Math.max((width * spans[1]) / spans[0], 280), 620));
    const unit = Math.max(spans[0] / width, spans[1] / height) / 2; // one scale for both
    const classes = Math.max(data.classes.length, 1), range = [...Array(classes).keys()];
    const size = Math.min(Math.max(20000 / n, 16), 70), faint = Math.min(1, Math.sqrt(600 / n));
    const at = (field, scale) => ({ scale, field }), place = { x: at("x", "x"), y: at("y", "y") };
    const alone = (opacity) => ({ signal: `lit < 0 || datum.c === lit ? ${opacity} : 0.07` });
    const label = (extra) => ({ type: "text", from: { data: "centers" }, interactive: false, encode: { update: { ...place, text: { field: "label" }, align: { value: "center" }, baseline: { value: "middle" }, fontSize: { value: 14 }, fontWeight: { value: "bold" }, opacity: alone(1), ...extra } } });
    return show("embedding", {
      height,
      signals: [{ name: "lit", value: lit === null ? -1 : lit }],
      data: [{ name: "points", values: rowsOf(shown) }, { name: "links", values: links() }, { name: "chosen", values: ring() }, { name: "rings", values: rings() }, { name: "centers", values: centers() }],
      scales: [
        { name: "x", domain: [middle[0] - unit * width, middle[0] + unit * width], range: "width" },
        { name: "y", domain: [middle[1] - unit * height, middle[1] + unit * height], range: "height" },
        { name: "color", type: "ordinal", domain: range, range: range.map(color) },
        { name: "shape", type: "ordinal", domain: range, range: range.map(shape) },
      ],
      marks: [
        { type: "symbol", name: "dots", from: { data: "points" }, encode: { update: { ...place, size: { value: size }, fill: at("c", "color"), shape: at("c", "shape"), opacity: alone(0.9) } } },
        { type: "symbol", from: { data: "rings" }, interactive: false, encode: { update: { ...place, size: { value: 2.8 * size }, stroke: { value: css("--ink") }, strokeWidth: { value: 1 }, opacity: alone(faint) } } },
        label({ stroke: { value: css("--card") }, strokeWidth: { value: 4 } }), label({ fill: { value: css("--ink") } }),
        { type: "rule", from: { data: "links" }, interactive: false, encode: { update: { ...place, x2: at("x2", "x"), y2: at("y2", "y"), stroke: { value: css("--ink") }, strokeWidth: { value: 1.5 }, strokeDash: { signal: "datum.kind === 'impostor' ? [3, 4] : [1, 0]" } } } },
        { type: "symbol", from: { data: "chosen" }, interactive: false, encode: { update: { ...place, size: { value: 150 }, stroke: { value: css("--second") }, strokeWidth: { value: 3 } } } },
      ],
    }).addEventListener("mouseover", (event, item) => { if (item && item.datum && item.mark.name === "dots") choose(item.datum.i, false); })
      .addEventListener("click", (event, item) => { if (item && item.datum && item.mark.name === "dots") choose(item.datum.i, true); })
      .run();
  }

  const mark = () => fill(fill(views.embedding, "links", links()), "chosen", ring());
  const redraw = () => { fill(fill(fill(mark(), "points", rowsOf(shown)), "rings", rings()), "centers", centers()).run(); };

  function choose(i, type) {
    chosen = i;
    if (type && i !== null) byId("example").value = data.rows[i];
    tell();
    mark().run();
  }

  function tell() {
    const count = invading ? [...Array(n).keys()].filter((i) => invades(i, current)).length : null;
    byId("caption").textContent = data.frames[current].caption + (count === null ? "" : `; ${count.toLocaleString("en")} of ${n.toLocaleString("en")} examples are impostors`);
    if (chosen === null) { byId("info").textContent = "Point at an example, or type its row number, to see its target neighbors and impostors."; return; }
    const text = [name(chosen) + classOf(chosen)];
    if (targets) text.push(`target neighbors (solid lines): ${list(targetsOf(chosen))}`);
    if (impostors) { const count = counts[current * n + chosen], few = impostorsOf(chosen, current); text.push(`impostors (dotted lines): ${count > few.length ? `${count}, the nearest ` : ""}${list(few)}`); }
    byId("info").textContent = text.join("; ") + ".";
  }

  function move(to, smooth) {
    current = to;
    const end = points.subarray(2 * n * to, 2 * n * (to + 1)), start = Float32Array.from(shown), begin = performance.now(), turn = ++moving;
    byId("frame").value = to;
    byId("frame").setAttribute("aria-valuetext", data.frames[to].caption);
    tell();
    const step = (now) => {
      if (turn !== moving) return;
      const t = !smooth || quiet.matches ? 1 : Math.min((now - begin) / 350, 1), s = t * t * (3 - 2 * t);
      for (let k = 0; k < 2 * n; k++) shown[k] = t === 1 ? end[k] : (1 - s) * start[k] + s * end[k];
      redraw();
      if (t < 1) requestAnimationFrame(step);
    };
    step(begin);
  }

  function bar() {
    const [low, high] = [data.lower_bound, data.objective], wide = Math.max(high - low, 1e-9 * Math.max(Math.abs(high), 1e-300));
    const ends = [{ at: low, text: `lower bound ${data.ends[0]}`, y: 30 }, { at: high, text: `objective ${data.ends[1]}`, y: 90 }];
    const end = { x: { scale: "x", field: "at" } };
    return show("interval", {
      height: 110,
      data: [{ name: "values", values: [{ objective: high, lower_bound: low }] }, { name: "ends", values: ends }],
      scales: [{ name: "x", domain: [low - 0.2 * wide, low + 1.2 * wide], range: "width", zero: false }],
      marks: [
        { type: "rect", from: { data: "values" }, encode: { update: { x: { scale: "x", field: "lower_bound" }, x2: { scale: "x", field: "objective" }, y: { value: 50 }, height: { value: 20 }, fill: { value: css("--accent") }, fillOpacity: { value: 0.3 } } } },
        { type: "rule", from: { data: "ends" }, encode: { update: { ...end, y: { value: 44 }, y2: { value: 76 }, stroke: { value: css("--accent") }, strokeWidth: { value: 3 } } } },
        { type: "text", from: { data: "ends" }, encode: { update: { x: { signal: "width / 2" }, y: { field: "y" }, text: { field: "text" }, align: { value: "center" }, baseline: { value: "middle" }, fontSize: { value: 14 }, fill: { value: css("--ink") } } } },
      ],
    }).run();
  }

  function interval() {
    if (data.trace.picture === "bar") return bar();
    const rows = data.trace.rows.filter((row) => row.objective !== null), first = Math.max(rows[0] ? rows[0].iteration : 1, 1);
    const values = rows.map((row) => ({ ...row, iteration: Math.max(row.iteration, first) }));
    const bounded = values.filter((row) => row.lower_bound !== null), what = data.kind === "regret" ? "cumulative loss" : "objective";
    const numbers = values.map((row) => row.objective).sort((a, b) => a - b), last = values.length ? values[values.length - 1] : { iteration: 2 };
    const top = data.kind === "regret" || !numbers.length ? undefined : Math.min(numbers[numbers.length - 1], 3 * Math.max(Math.abs(last.objective), 1e-12));
    const line = (from, field, stroke, dash) => ({ type: "line", clip: true, from: { data: from }, encode: { update: { x: { scale: "x", field: "iteration" }, y: { scale: "y", field }, stroke: { value: css(stroke) }, strokeWidth: { value: 2 }, strokeDash: { value: dash }, interpolate: { value: "step-after" } } } });
    return show("interval", {
      height: 240,
      data: [{ name: "values", values }, { name: "bounded", values: bounded }],
      scales: [
        { name: "x", type: "log", domain: [first, Math.max(last.iteration, first * 1.01)], range: "width" },
        { name: "y", domain: { fields: [{ data: "values", field: "objective" }, { data: "bounded", field: "lower_bound" }] }, domainMax: top, nice: true, zero: false, range: "height" },
        { name: "what", type: "ordinal", domain: [what, "lower bound"], range: [css("--accent"), css("--second")] },
      ],
      axes: [{ orient: "bottom", scale: "x", title: "iteration", tickCount: 5, labelOverlap: true, format: ",d" }, { orient: "left", scale: "y", grid: true, tickCount: 5 }],
      legends: [{ stroke: "what", symbolType: "stroke", orient: "top", direction: "horizontal" }],
      marks: [
        { type: "area", clip: true, from: { data: "bounded" }, encode: { update: { x: { scale: "x", field: "iteration" }, y: { scale: "y", field: "objective" }, y2: { scale: "y", field: "lower_bound" }, fill: { value: css("--accent") }, fillOpacity: { value: 0.15 }, interpolate: { value: "step-after" } } } },
        line("values", "objective", "--accent", [1, 0]), line("bounded", "lower_bound", "--second", [6, 3]),
      ],
    }).run();
  }

  const bars = (id, values, spec) => show(id, { data: [{ name: "values", values }], ...spec }).run();
  const weights = () => bars("weights", data.weights, {
    height: 20 * data.weights.length + 40,
    scales: [{ name: "x", domain: { data: "values", field: "weight" }, zero: true, nice: true, range: "width" }, { name: "y", type: "band", domain: { data: "values", field: "name" }, range: "height", padding: 0.2 }],
    axes: [{ orient: "bottom", scale: "x", grid: true, tickCount: 4 }, { orient: "left", scale: "y", labelLimit: 140 }],
    marks: [{ type: "rect", from: { data: "values" }, encode: { update: { x: { scale: "x", value: 0 }, x2: { scale: "x", field: "weight" }, y: { scale: "y", field: "name" }, height: { scale: "y", band: 1 }, fill: { value: css("--accent") }, stroke: { value: css("--accent") }, fillOpacity: { signal: "datum.cancels === null ? 1 : 0.15" }, tooltip: { signal: "datum.name + ': ' + datum.weight + (datum.cancels === null ? '' : ', cancels with ' + datum.cancels)" } } } }],
  });
  const spectrum = () => bars("spectrum", data.spectrum.map((value, i) => ({ number: i + 1, value })), {
    height: 240,
    scales: [{ name: "x", type: "band", domain: { data: "values", field: "number" }, range: "width", padding: 0.15 }, { name: "y", domain: { data: "values", field: "value" }, zero: true, nice: true, range: "height" }],
    axes: [{ orient: "bottom", scale: "x", labelOverlap: true, labelAngle: 0, title: "number" }, { orient: "left", scale: "y", grid: true, tickCount: 5 }],
    marks: [{ type: "rect", from: { data: "values" }, encode: { update: { x: { scale: "x", field: "number" }, width: { scale: "x", band: 1 }, y: { scale: "y", field: "value" }, y2: { scale: "y", value: 0 }, fill: { value: css("--accent") }, tooltip: { signal: "'eigenvalue ' + datum.number + ': ' + datum.value" } } } }],
  });

  const draw = () => { legend(); embedding(); interval(); weights(); spectrum(); };
  const setTheme = (value) => { document.documentElement.dataset.theme = value; };

  setTheme(dark.matches ? "dark" : "light");
  words();
  const packed = new Blob([bytes(byId("vega").textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  add(document.head, "script", await new Response(packed).text());
  draw();
  byId("frame").max = frames - 1;
  move(quiet.matches ? frames - 1 : 0, false);
  byId("frame").addEventListener("input", (event) => move(Number(event.target.value), true));
  byId("example").max = data.total - 1;
  byId("example").addEventListener("input", (event) => { const i = place.get(Number(event.target.value)); choose(event.target.value === "" || i === undefined ? null : i, false); });
  byId("embedding").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") choose(null, false);
    else if (step) { event.preventDefault(); choose(chosen === null ? 0 : (chosen + step + n) % n, true); }
  });
  byId("clear").addEventListener("click", () => { byId("example").value = ""; choose(null, false); });
  byId("theme").addEventListener("click", () => { setTheme(theme() === "dark" ? "light" : "dark"); draw(); });
  dark.addEventListener("change", (event) => { setTheme(event.matches ? "dark" : "light"); draw(); });
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details:not(.numbers)")) part.open = true; setTheme("light"); paper = true; draw(); });
  addEventListener("afterprint", () => { paper = false; setTheme(dark.matches ? "dark" : "light"); draw(); });
  let playing = 0;
  const play = () => {
    clearInterval(playing);
    const go = (f) => move(f, true);
    if (byId("play").textContent === "Stop") { byId("play").textContent = "Play"; return; }
    byId("play").textContent = "Stop";
    let f = current === frames - 1 ? 0 : current;
    go(f);
    playing = setInterval(() => { f += 1; if (f >= frames) { clearInterval(playing); byId("play").textContent = "Play"; } else go(f); }, 700);
  };
  byId("play").addEventListener("click", play);
  if (!quiet.matches) play(); // once
  let resizing = 0, last = document.documentElement.clientWidth;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { if (document.documentElement.clientWidth !== last) { last = document.documentElement.clientWidth; draw(); } }, 150); });
  window.report = { data, views, frame: () => current, position: (i) => [shown[2 * i], shown[2 * i + 1]], chosen: () => chosen };
})();
