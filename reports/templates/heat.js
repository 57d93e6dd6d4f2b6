"use strict";
(() => {
  const heat = JSON.parse(document.getElementById("charts").textContent).heat;
  if (!heat) return;
  const { modules, starts, width } = heat;
  const SHADES = 7;
  const ROW = 15;
  const NS = "http://www.w3.org/2000/svg";
  const target = document.getElementById("heat-map");
  const line = document.getElementById("heat-cell");
  const buttons = [...document.querySelectorAll("[data-heat]")];
  let measure = heat.measures[0];
  let scale = null;
  const LOST = -1; // as heat.py says it
  let shown = []; // numbers of the modules that have something to show of the chosen measure
  let cell = [0, 0];
  const number = (v) => (v !== 0 && (Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3) ? v.toExponential(1) : String(Number(v.toPrecision(3))));
  const steps = (i) => (width === 1 ? say("step {step}", { step: starts[i] }) : say("steps {first} to {last}", { first: starts[i], last: starts[i] + width - 1 }));

  /** Colour classes between the 2nd and the 98th percentile, so that one outlier does not bleach the rest. */
  function scaled({ values, log }) {
    if (!log) return { shade: (v) => Math.min(SHADES - 1, Math.floor(v * SHADES)), edges: [0, 1] };
    const all = values.flat().filter((v) => v !== null && v > 0).map(Math.log10).sort((a, b) => a - b);
    if (!all.length) return { shade: () => 0, edges: [0, 0] };
    const low = all[Math.floor(all.length * 0.02)];
    const high = Math.max(all[Math.ceil(all.length * 0.98) - 1], low + 0.5);
    const shade = (v) => (v <= 0 ? 0 : Math.min(SHADES - 1, Math.max(0, Math.floor(((Math.log10(v) - low) / (high - low)) * SHADES))));
    return { shade, edges: [10 ** low, 10 ** high] };
  }

  function node(tag, attributes, text) {
    const e = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (text !== undefined) e.textContent = text;
    return e;
  }

  function draw() {
    scale = scaled(measure);
    const room = target.clientWidth || document.querySelector("main").clientWidth - 48;
    const held = shown[cell[0]] ?? Math.max(0, modules.indexOf(heat.module));
    shown = modules.map((_, i) => i).filter((i) => measure.values[i].some((v) => v !== null));
    cell[0] = Math.max(0, shown.indexOf(held));
    const most = room < 560 ? 17 : 42;
    const names = shown.map((i) => modules[i]).map((m) => (m.length > most ? `…${m.slice(1 - most)}` : m));
    const left = Math.min(room * 0.42, Math.max(...names.map((n) => n.length)) * 6.4 + 14);
    const wide = Math.min(24, (room - left - 6) / starts.length);
    const high = shown.length * ROW;
    const svg = node("svg", { width: room, height: high + 30, "aria-hidden": "true" });
    names.forEach((name, i) => {
      const text = node("text", { x: left - 7, y: i * ROW + ROW * 0.74, "text-anchor": "end", class: modules[shown[i]] === heat.module ? "suspect" : "" }, name);
      text.append(node("title", {}, modules[shown[i]]));
      svg.append(text);
    });
    shown.forEach((module, i) => {
      measure.values[module].forEach((value, j) => {
        if (value === null) return;
        const lost = measure.key === "lost" ? value > 0 : value === LOST;
        const shade = lost ? "lost" : String(measure.key === "lost" ? 0 : scale.shade(value));
        svg.append(node("rect", { x: left + j * wide, y: i * ROW + 0.5, width: Math.max(0.8, wide - (wide > 5 ? 1 : 0)), height: ROW - 1, "data-shade": shade }));
      });
    });
    const gap = Math.max(1, Math.ceil(64 / wide));
    for (let j = 0; j < starts.length; j += gap) {
      svg.append(node("text", { x: left + j * wide + wide / 2, y: high + 14, "text-anchor": j ? "middle" : "start" }, starts[j]));
    }
    if (heat.step !== null) {
      const at = left + ((heat.step - starts[0]) / width) * wide;
      svg.append(node("line", { x1: at, x2: at, y1: 0, y2: high, class: "marked" }));
    }
    svg.append(node("rect", { id: "heat-chosen", width: wide, height: ROW, class: "chosen" }));
    target.replaceChildren(svg);
    Object.assign(target.dataset, { left, wide });
    document.getElementById("heat-words").textContent = measure.words;
    const [low, top] = scale.edges.map(number);
    document.getElementById("heat-low").textContent = low;
    document.getElementById("heat-high").textContent = top;
    document.getElementById("heat-legend").hidden = measure.key === "lost";
    tell();
  }

  function tell() {
    const [i, j] = cell;
    const value = measure.values[shown[i]][j];
    const said = value === null ? say("not measured") : value === LOST ? say("NaN or infinite in it") : number(value);
    line.textContent = `${modules[shown[i]]}, ${steps(j)}: ${measure.label.toLowerCase()} ${said}`;
    const chosen = document.getElementById("heat-chosen");
    chosen.setAttribute("x", Number(target.dataset.left) + j * Number(target.dataset.wide));
    chosen.setAttribute("y", i * ROW);
  }

  target.addEventListener("pointermove", (event) => {
    const box = target.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top) / ROW);
    const j = Math.floor((event.clientX - box.left - Number(target.dataset.left)) / Number(target.dataset.wide));
    if (i < 0 || i >= shown.length || j < 0 || j >= starts.length) return;
    cell = [i, j];
    tell();
  });
  target.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    cell = [Math.min(shown.length - 1, Math.max(0, cell[0] + move[0])), Math.min(starts.length - 1, Math.max(0, cell[1] + move[1]))];
    tell();
  });
  for (const b of buttons) {
    b.addEventListener("click", () => {
      measure = heat.measures.find((m) => m.key === b.dataset.heat);
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === b));
      draw();
    });
  }
  if (heat.step !== null) cell[1] = Math.min(starts.length - 1, Math.max(0, Math.floor((heat.step - starts[0]) / width)));
  let last = 0;
  let waiting = 0;
  new ResizeObserver(() => {
    if (target.clientWidth === last) return;
    last = target.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 100);
  }).observe(target);
  draw();
  last = target.clientWidth;
})();
