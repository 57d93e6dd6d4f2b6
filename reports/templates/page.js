"use strict";
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const AXIS = 46 + 14; // room that charts.py gives to the labels of the y axis, and a margin
  const NEAR = 25; // steps shown on either side by "Round step"
  const MIN_CELL = 13;
  const MAX_CELL = 30;

  // --- charts ------------------------------------------------------------------------------------------------------
  const options = { actions: false, renderer: "svg", mode: "vega-lite", tooltip: { theme: "custom" } };
  const views = {};
  const shown = { range: null, health: Object.keys(charts.health)[0] };

  async function draw(id, spec) {
    const target = document.getElementById(id);
    if (!target || !spec) return;
    if (views[id]) views[id].finalize();
    views[id] = await window.vegaEmbed(target, spec, options);
    const name = { "curves-chart": "curves", "health-chart": "health" }[id];
    if (name) root.dataset[name] = "drawn";
  }

  function drawCurves() {
    const target = document.getElementById("curves-chart");
    if (!target) return undefined;
    const spec = structuredClone(charts.curves);
    for (const panel of spec.vconcat) {
      panel.width = Math.max(220, target.clientWidth - AXIS);
      if (!shown.range) continue;
      // The steps round the anomaly are all here: draw them strongly, and no median over them.
      Object.assign(panel.layer[0].mark, { opacity: 1, strokeWidth: 1.6 });
      panel.layer = panel.layer.filter((layer, i) => i === 0 || layer.mark.type !== "line");
      for (const { encoding: { x } } of panel.layer) x.scale = { ...x.scale, domain: shown.range };
    }
    return draw("curves-chart", spec);
  }

  function drawHealth() {
    const target = document.getElementById("health-chart");
    if (!target) return undefined;
    const { first, last, marked, longest } = charts.health[shown.health];
    const spec = structuredClone(charts.health[shown.health].spec);
    const limit = target.clientWidth < 560 ? 120 : 300;
    const names = Math.min(limit, longest * 6.6 + 12);
    const room = target.clientWidth - names - 24;
    const fitting = Math.max(4, Math.floor(room / MIN_CELL));
    const until = marked === null ? last : Math.min(last, marked + Math.max(1, Math.floor(fitting / 4)));
    const from = Math.max(first, until - fitting + 1); // a narrow screen shows fewer steps, the marked one among them
    const steps = until - from + 1;
    spec.width = Math.floor(Math.min(MAX_CELL, room / steps) * steps);
    for (const layer of spec.layer) {
      layer.encoding.y.axis = { ...layer.encoding.y.axis, labelLimit: limit };
      layer.transform = [{ filter: `datum.step >= ${from} && datum.step <= ${until}` }, ...(layer.transform || [])];
    }
    const legendColumns = Math.max(2, Math.floor(target.clientWidth / 150));
    spec.layer[0].encoding.color.legend.columns = legendColumns;
    return draw("health-chart", spec);
  }

  function press(group, chosen) {
    for (const b of group) b.setAttribute("aria-pressed", String(b === chosen));
  }
  const ranges = [...document.querySelectorAll("[data-range]")];
  for (const b of ranges) {
    b.addEventListener("click", () => {
      const step = Number(b.dataset.step);
      shown.range = b.dataset.range === "near" ? [Math.max(0, step - NEAR), step + NEAR] : null;
      press(ranges, b);
      drawCurves();
    });
  }
  const kinds = [...document.querySelectorAll("[data-health]")];
  for (const b of kinds) {
    b.addEventListener("click", () => {
      shown.health = b.dataset.health;
      press(kinds, b);
      drawHealth();
    });
  }

  // Panels are folded: they are drawn when the page has time, so that opening one or printing all finds them there.
  // A page that is never idle, such as one behind another, has them after a second all the same.
  const whenIdle = (f) => (window.requestIdleCallback ? requestIdleCallback(f, { timeout: 1000 }) : setTimeout(f, 50));
  async function drawPanels() {
    const room = document.querySelector("main").clientWidth - 2 * parseFloat(getComputedStyle(document.querySelector("main")).paddingLeft);
    for (const [key, given] of Object.entries(charts.panels || {})) {
      const target = document.querySelector(`[data-panel="${key}"]`);
      if (!target) continue;
      const spec = structuredClone(given);
      for (const panel of spec.vconcat || [spec]) panel.width = Math.max(220, room - AXIS);
      target.id = `panel-chart-${key}`;
      await draw(target.id, spec);
      await new Promise((done) => { whenIdle(done); });
    }
    root.dataset.panels = "drawn";
  }

  let width = 0;
  let waiting = 0;
  function redraw() {
    const now = document.querySelector("main").clientWidth;
    if (now === width) return;
    width = now;
    drawCurves();
    drawHealth();
    whenIdle(drawPanels);
  }
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 150); });
  redraw();

  // --- copy, print -------------------------------------------------------------------------------------------------
  function copyBySelection(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }
  for (const b of document.querySelectorAll("[data-copy]")) {
    b.addEventListener("click", async () => {
      const code = b.parentElement.querySelector("code");
      let done = false;
      try {
        await navigator.clipboard.writeText(code.textContent);
        done = true;
      } catch {
        done = copyBySelection(code); // no clipboard interface for files in this browser
      }
      b.textContent = done ? say("Copied") : say("Press Ctrl + C");
      setTimeout(() => { b.textContent = say("Copy"); }, 2000);
    });
  }
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const d of folded) d.open = true;
  });
  window.addEventListener("afterprint", () => { for (const d of folded) d.open = false; });
})();
