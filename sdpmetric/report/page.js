"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const COLOURS = { // Okabe and Ito; the same hues, lighter, on dark paper
    light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9"],
    dark: ["#4FA8DD", "#F08A3C", "#2CC79A", "#DE9BC2", "#F0B429", "#9AD4F5"],
  };
  const SHAPES = ["circle", "triangle-up", "square", "diamond", "cross", "triangle-down", "stroke", "wedge"];
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const numbers = (text) => (text === null ? null : new Int16Array(bytes(text)));
  const points = new Float32Array(bytes(data.points));
  const targets = numbers(data.targets), impostors = numbers(data.impostors), counts = numbers(data.counts);
  const n = data.rows.length, frames = data.frames.length, TARGETS = targets ? targets.length / n : 0;
  const IMPOSTORS = impostors ? impostors.length / n / frames : 0;
  const place = new Map(data.rows.map((row, i) => [row, i]));
  const quiet = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const views = {};
  let chosen = null, current = 0, moving = 0, shown = new Float32Array(points.subarray(0, 2 * n));

  const short = (value) => (value === null ? "none" : Number(value).toPrecision(8).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""));
  const name = (i) => (data.names ? data.names[i] : `example ${data.rows[i]}`);
  const classOf = (i) => (data.classes.length ? ` (class ${data.classes[data.index[i]]})` : "");
  const list = (items) => (items.length ? items.map((i) => name(i) + classOf(i)).join(", ") : "none");
  const add = (parent, tag, text) => { const node = document.createElement(tag); if (text !== undefined) node.textContent = text; parent.append(node); return node; };
  const theme = () => document.documentElement.dataset.theme;
  const css = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  const colour = (c) => COLOURS[theme()][c % 6];
  const shape = (c) => SHAPES[Math.floor(c / 6) % SHAPES.length];
  const targetsOf = (i) => (targets ? Array.from(targets.subarray(i * TARGETS, (i + 1) * TARGETS)).filter((j) => j >= 0) : []);
  const impostorsOf = (i, f) => (impostors ? Array.from(impostors.subarray((f * n + i) * IMPOSTORS, (f * n + i + 1) * IMPOSTORS)).filter((j) => j >= 0) : []);

  function words() {
    document.title = data.title;
    byId("title").textContent = data.title;
    byId("statement").textContent = data.statement;
    const pairs = [["status", data.status.replaceAll("_", " ")], ["solver", `${data.solver}, ${data.seconds.toFixed(2)} s`], ["objective", short(data.objective)], ["lower bound", short(data.lower_bound)], ["relative gap", data.relative_gap === null ? "none" : data.relative_gap.toExponential(2)], ["problem's fingerprint", data.fingerprint]];
    for (const [key, value] of pairs) { add(byId("numbers"), "dt", key); add(byId("numbers"), "dd", value).dataset.key = key; }
    for (const sentence of data.words) add(byId("words"), "li", sentence);
    for (const way of data.checks) { add(byId("checks"), "p", way.what); add(add(byId("checks"), "pre"), "code", way.code); }
    const notes = ["Two leading principal components of each embedding, turned to match the one before, at one size. An impostor is an example of another class that is no further away, in all dimensions, than the furthest target neighbor; the margin is left out."];
    if (n < data.total) notes.push(`${n.toLocaleString("en")} of ${data.total.toLocaleString("en")} examples are drawn; neighbors and impostors are those among them.`);
    if (frames < 3) notes.push("This solution has no points from along the solve: it was loaded from a file, or solved in one step.");
    byId("note").textContent = notes.join(" ");
    if (!data.support) { byId("support-section").remove(); return; }
    byId("support-sentence").textContent = `${data.support.sentence}. The largest multipliers:`;
    const table = byId("support"), columns = Object.keys(data.support.rows[0] || {});
    const head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
    for (const column of columns) add(head, "th", column).scope = "col";
    for (const row of data.support.rows) { const line = add(body, "tr"); for (const column of columns) add(line, "td", typeof row[column] === "number" ? row[column].toPrecision(4) : typeof row[column] === "boolean" ? (row[column] ? "yes" : "no") : row[column]); }
  }

  function legend() {
    byId("legend").replaceChildren();
    if (data.classes.length > 24) return;
    data.classes.forEach((label, c) => {
      const item = add(byId("legend"), "li");
      item.innerHTML = '<svg viewBox="-6 -6 12 12" aria-hidden="true"><path/></svg>';
      const path = item.querySelector("path");
      path.setAttribute("d", { circle: "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", "triangle-up": "M0,-5L5,4L-5,4Z", square: "M-4,-4H4V4H-4Z", diamond: "M0,-5.5L5,0L0,5.5L-5,0Z", cross: "M-2,-5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z", "triangle-down": "M0,5L5,-4L-5,-4Z", stroke: "M-5,-1.5H5V1.5H-5Z", wedge: "M0,-5L2.5,4L-2.5,4Z" }[shape(c)]);
      path.setAttribute("fill", colour(c));
      item.append(label);
    });
  }

  const config = () => ({ background: null, axis: { labelColor: css("--ink"), titleColor: css("--ink"), domainColor: css("--faint"), tickColor: css("--faint"), gridColor: css("--line"), labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" }, legend: { labelColor: css("--ink"), labelFontSize: 12 } });
  const widthOf = (id) => Math.max(byId(id).clientWidth, 240);
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

  function embedding() {
    let right = 0, top = 0;
    for (let k = 0; k < points.length; k += 2) { right = Math.max(right, Math.abs(points[k])); top = Math.max(top, Math.abs(points[k + 1])); }
    const width = widthOf("embedding"), height = Math.round(Math.min(Math.max(0.6 * width, 300), 560));
    const unit = 1.06 * Math.max(right / width, top / height) || 1, wide = unit * width, high = unit * height; // one scale for both
    const classes = Math.max(data.classes.length, 1), range = [...Array(classes).keys()];
    const size = Math.min(Math.max(16000 / n, 14), 60);
    const at = (field, scale) => ({ scale, field });
    return show("embedding", {
      height,
      data: [{ name: "points", values: rowsOf(shown) }, { name: "links", values: links() }, { name: "chosen", values: ring() }],
      scales: [
        { name: "x", domain: [-wide, wide], range: "width" },
        { name: "y", domain: [-high, high], range: "height" },
        { name: "colour", type: "ordinal", domain: range, range: range.map(colour) },
        { name: "shape", type: "ordinal", domain: range, range: range.map(shape) },
      ],
      marks: [
        { type: "symbol", name: "dots", from: { data: "points" }, encode: { update: { x: at("x", "x"), y: at("y", "y"), size: { value: size }, fill: at("c", "colour"), shape: at("c", "shape"), opacity: { value: 0.8 } }, hover: { opacity: { value: 1 } } } },
        { type: "rule", from: { data: "links" }, interactive: false, encode: { update: { x: at("x", "x"), y: at("y", "y"), x2: at("x2", "x"), y2: at("y2", "y"), stroke: { value: css("--ink") }, strokeWidth: { value: 1.5 }, strokeDash: { signal: "datum.kind === 'impostor' ? [3, 4] : [1, 0]" } } } },
        { type: "symbol", from: { data: "chosen" }, interactive: false, encode: { update: { x: at("x", "x"), y: at("y", "y"), size: { value: 110 }, stroke: { value: css("--ink") }, strokeWidth: { value: 2 } } } },
      ],
    }).addEventListener("mouseover", (event, item) => { if (item && item.datum && item.mark.name === "dots") choose(item.datum.i, false); })
      .addEventListener("click", (event, item) => { if (item && item.datum && item.mark.name === "dots") choose(item.datum.i, true); })
      .run();
  }

  const mark = () => fill(fill(views.embedding, "links", links()), "chosen", ring());
  const redraw = () => { fill(mark(), "points", rowsOf(shown)).run(); };

  function choose(i, type) {
    chosen = i;
    if (type && i !== null) byId("example").value = data.rows[i];
    tell();
    mark().run();
  }

  function tell() {
    if (chosen === null) { byId("info").textContent = "Point at an example, or type its row number, to see its target neighbors and impostors."; return; }
    const text = [name(chosen) + classOf(chosen)];
    if (targets) text.push(`target neighbors (solid lines): ${list(targetsOf(chosen))}`);
    if (impostors) { const count = counts[current * n + chosen], few = impostorsOf(chosen, current); text.push(`impostors (dotted lines): ${count > few.length ? `${count}, the nearest ` : ""}${list(few)}`); }
    byId("info").textContent = text.join("; ") + ".";
  }

  function move(to, smooth) {
    current = to;
    const end = points.subarray(2 * n * to, 2 * n * (to + 1)), start = Float32Array.from(shown), begin = performance.now(), turn = ++moving;
    byId("caption").textContent = data.frames[to].caption;
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

  function interval() {
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
    marks: [{ type: "rect", from: { data: "values" }, encode: { update: { x: { scale: "x", value: 0 }, x2: { scale: "x", field: "weight" }, y: { scale: "y", field: "name" }, height: { scale: "y", band: 1 }, fill: { value: css("--accent") }, tooltip: { signal: "datum.name + ': ' + datum.weight" } } } }],
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
  draw();
  byId("frame").max = frames - 1;
  move(0, false);
  byId("frame").addEventListener("input", (event) => move(Number(event.target.value), true));
  byId("example").max = data.total - 1;
  byId("example").addEventListener("input", (event) => { const i = place.get(Number(event.target.value)); choose(event.target.value === "" || i === undefined ? null : i, false); });
  byId("clear").addEventListener("click", () => { byId("example").value = ""; choose(null, false); });
  byId("theme").addEventListener("click", () => { setTheme(theme() === "dark" ? "light" : "dark"); draw(); });
  dark.addEventListener("change", (event) => { setTheme(event.matches ? "dark" : "light"); draw(); });
  let playing = 0;
  byId("play").addEventListener("click", () => {
    clearInterval(playing);
    const go = (f) => { byId("frame").value = f; move(f, true); };
    if (byId("play").textContent === "Stop") { byId("play").textContent = "Play"; return; }
    byId("play").textContent = "Stop";
    let f = current === frames - 1 ? 0 : current;
    go(f);
    playing = setInterval(() => { f += 1; if (f >= frames) { clearInterval(playing); byId("play").textContent = "Play"; } else go(f); }, 700);
  });
  let resizing = 0, last = document.documentElement.clientWidth;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { if (document.documentElement.clientWidth !== last) { last = document.documentElement.clientWidth; draw(); } }, 150); });
  window.report = { data, views, frame: () => current, position: (i) => [shown[2 * i], shown[2 * i + 1]], chosen: () => chosen };
})();
