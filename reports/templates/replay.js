"use strict";
(() => {
  const replay = JSON.parse(document.getElementById("charts").textContent).replay;
  if (!replay) return;
  const { steps, stations, lanes, states } = replay;
  const BEAT = 700; // ms a step is shown while it plays
  const at = (id) => document.getElementById(id);
  const table = at("replay-table");
  const slider = at("replay-slider");
  const play = at("replay-play");
  let now = -1;
  let row = Math.max(0, stations.findIndex((s) => s[3]));
  let timer = 0;

  const make = (tag, text, name) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (name) e.className = name;
    return e;
  };
  function figure(value) {
    if (value === null) return "";
    if (value === 0) return "0";
    const size = Math.abs(value);
    return size >= 1e4 || size < 1e-2 ? value.toExponential(0).replace("e+", "e") : value.toPrecision(2).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  }

  // --- the table, made once ----------------------------------------------------------------------------------------
  const cells = [];
  const rows = [];
  const whole = make("table");
  const head = whole.createTHead().insertRow();
  for (const name of [say("station"), ...lanes]) {
    const th = make("th", name);
    th.scope = "col";
    head.append(th);
  }
  const body = whole.createTBody();
  stations.forEach(([label, className, depth, suspect], i) => {
    const tr = body.insertRow();
    const name = make("th", label);
    name.scope = "row";
    name.style.setProperty("--depth", Math.min(depth, 6));
    if (className) name.title = className;
    tr.append(name);
    if (suspect) tr.classList.add("suspect");
    cells.push(lanes.map(() => tr.insertCell()));
    rows.push(tr);
    tr.addEventListener("click", () => choose(i));
  });
  table.append(whole);

  // --- a strip over the slider: how many stations are not as usual, step by step ------------------------------------
  const strip = at("replay-strip");
  const counts = replay.cells.map((list) => new Set(list.filter((c) => states[c[2]][2]).map((c) => c[1])).size);
  const bars = counts.map((count, i) => {
    const high = count ? Math.max(0.12, count / stations.length) : 0.04;
    return `<rect x="${i + 0.1}" width="0.8" y="${1 - high}" height="${high}" class="${count ? "odd" : ""}"/>`;
  });
  strip.setAttribute("viewBox", `0 0 ${steps.length} 1`);
  strip.setAttribute("preserveAspectRatio", "none");
  strip.innerHTML = bars.join(""); // numbers only

  // --- one step ----------------------------------------------------------------------------------------------------
  function show(index) {
    const before = now >= 0 && index === now + 1 ? cells.map((line) => line.map((c) => c.dataset.state)) : null;
    now = index;
    for (const line of cells) {
      for (const c of line) {
        c.textContent = "";
        delete c.dataset.state;
        c.className = "none";
        c.removeAttribute("style");
      }
    }
    replay.cells[now].forEach(([lane, station, state, rms], order) => {
      const c = cells[station][lane];
      const [key, words, odd] = states[state];
      c.dataset.state = key;
      c.className = odd ? "odd" : "";
      c.textContent = key === "nonfinite" ? "✕" : key === "missing" ? "none" : figure(rms);
      c.title = words;
      if (before && odd && before[station][lane] !== key) {
        c.classList.add("fresh"); // it spreads in the order in which it was captured
        c.style.animationDelay = `${Math.round((order / replay.cells[now].length) * BEAT * 0.8)}ms`;
      }
    });
    slider.value = now;
    slider.setAttribute("aria-valuetext", `step ${steps[now]}`);
    at("replay-said").textContent = replay.said[now];
    strip.querySelectorAll("rect").forEach((r, i) => r.classList.toggle("now", i === now));
    tell();
  }

  function tell() {
    const parts = [];
    for (const [lane, station, state, rms, ratio, zeros, lost, low, high] of [...replay.cells[now]].sort((a, b) => a[0] - b[0])) {
      if (station !== row) continue;
      const words = [states[state][1]];
      if (rms !== null) words.push(say("rms {value}", { value: rms }));
      if (low !== null && high !== null) words.push(say("{low} to {high}", { low, high }));
      if (ratio !== null) words.push(say("{ratio} × its usual", { ratio }));
      if (zeros) words.push(say("{percent} % zeros", { percent: (100 * zeros).toPrecision(3) }));
      if (lost) words.push(say("{percent} % NaN or Inf", { percent: (100 * lost).toPrecision(3) }));
      parts.push(`${lanes[lane]} ${words.join(", ")}`);
    }
    const [label, className] = stations[row];
    const owner = className && className !== label ? ` (${className})` : "";
    at("replay-cell").textContent = say("{place}, step {step}: {state}", { place: label + owner, step: steps[now], state: parts.join("; ") || say("not recorded in this step") });
    rows.forEach((r, i) => r.classList.toggle("chosen", i === row));
  }

  function choose(i) {
    row = Math.min(stations.length - 1, Math.max(0, i));
    tell();
  }
  function go(by) {
    const next = now + by;
    if (next < 0 || next >= steps.length) return false;
    show(next);
    return true;
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = say("Play");
    play.setAttribute("aria-pressed", "false");
  }
  function start() {
    if (now === steps.length - 1) show(0);
    timer = setInterval(() => { if (!go(1)) stop(); }, BEAT);
    play.textContent = say("Pause");
    play.setAttribute("aria-pressed", "true");
  }
  play.addEventListener("click", () => (timer ? stop() : start()));
  at("replay-back").addEventListener("click", () => { stop(); go(-1); });
  at("replay-on").addEventListener("click", () => { stop(); go(1); });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  const mark = at("replay-mark");
  if (mark) mark.addEventListener("click", () => { stop(); show(steps.indexOf(replay.marked)); });
  table.addEventListener("keydown", (event) => {
    const moves = {
      ArrowLeft: () => { stop(); go(-1); },
      ArrowRight: () => { stop(); go(1); },
      ArrowUp: () => choose(row - 1),
      ArrowDown: () => choose(row + 1),
      Home: () => { stop(); show(0); },
      End: () => { stop(); show(steps.length - 1); },
      " ": () => (timer ? stop() : start()),
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[event.key]();
    rows[row].scrollIntoView({ block: "nearest" });
  });
  const marked = steps.indexOf(replay.marked);
  show(marked >= 0 ? marked : steps.length - 1);
})();
