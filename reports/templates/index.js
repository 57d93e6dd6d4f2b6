(() => {
  const AT_ONCE = 200; // rows that are drawn at a time: a browser lays ten thousand out for seconds
  const CURVE = 7; // the column that has no words
  const SVG = "http://www.w3.org/2000/svg";
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const headers = [...table.tHead.rows[0].cells];
  const kinds = headers.map((h) => (h.classList.contains("num") ? "num" : ""));
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const more = document.getElementById("more");
  const order = ["anomalous", "unreadable", "inconclusive", "healthy"];
  const chosen = { verdict: null, cause: null };
  const runs = [...body.rows].map(ofRow);
  let limit = AT_ONCE;
  let verdicts = {};
  let digits = "";

  /** What a row of the page is found and sorted by. */
  function ofRow(row) {
    const keys = [...row.cells].map((cell, column) => {
      if (column === 1) return order.indexOf(row.dataset.verdict);
      if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
      const text = cell.textContent.trim();
      return text === "" || "lost" in cell.dataset ? null : text.toLowerCase();
    });
    const words = `${row.textContent} ${row.cells[2].title}`.toLowerCase();
    return { row, keys, words, verdict: row.dataset.verdict, causes: row.dataset.causes.split(" ") };
  }

  /** The same of a packed row, which is drawn when it is to be seen. */
  function ofPacked(packed) {
    const [name, , verdict, causes, fault, , note, words, values, lost] = packed;
    const cells = words.map((text, i) => values[i] ?? (text === "" || lost.includes(i) ? null : text.toLowerCase()));
    const keys = [name.toLowerCase(), order.indexOf(verdict), fault === "" ? null : fault.toLowerCase(), ...cells];
    keys.splice(CURVE, 0, null);
    return { row: null, packed, keys, words: [name, verdicts[verdict], fault, note, ...words].join(" ").toLowerCase(), verdict, causes };
  }

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function draw(packed) {
    const [name, href, verdict, , fault, light, note, words, values, lost, curve] = packed;
    const row = element("tr");
    const named = row.appendChild(element("td", "name"));
    if (href === null) named.textContent = name;
    else named.appendChild(element("a", "", name)).setAttribute("href", href);
    row.appendChild(element("td")).appendChild(element("span", `said ${verdict}`, verdicts[verdict]));
    const first = row.appendChild(element("td", light ? "fault light" : "fault", fault));
    first.title = note;
    if (verdict === "unreadable" || href === null) first.appendChild(element("span", "where", note));
    words.forEach((text, i) => {
      const column = row.cells.length;
      if (column === CURVE) row.appendChild(element("td", "curve")).append(...drawn(curve));
      const cell = row.appendChild(element("td", i === words.length - 1 ? "when" : kinds[row.cells.length], text));
      if (values[i] !== null) cell.dataset.v = values[i];
      if (lost.includes(i)) cell.dataset.lost = "";
    });
    return row;
  }

  /** The small loss curve, as the page draws it. */
  function drawn(curve) {
    if (curve === "") return [];
    const svg = document.createElementNS(SVG, "svg");
    for (const [k, v] of [["viewBox", "0 0 96 22"], ["width", 96], ["height", 22], ["role", "img"]]) svg.setAttribute(k, v);
    svg.setAttribute("aria-label", say("loss over the run"));
    const path = (d, lost) => {
      const made = svg.appendChild(document.createElementNS(SVG, "path"));
      made.setAttribute("d", d);
      if (lost) made.setAttribute("class", "lost");
    };
    const x = (i) => ((i * 96) / Math.max(1, curve.length - 1)).toFixed(1);
    let points = [];
    const end = () => {
      if (points.length > 1) path(`M${points.join("L")}`, false);
      points = [];
    };
    [...curve].forEach((digit, i) => {
      const height = digits.indexOf(digit);
      if (height < 0) end();
      else points.push(`${x(i)} ${(21 - (height / (digits.length - 1)) * 20).toFixed(1)}`);
    });
    end();
    [...curve].forEach((digit, i) => { if (!digits.includes(digit)) path(`M${x(i)} 0V22`, true); });
    return [svg];
  }

  function sort(column, descending) {
    const text = new Intl.Collator(undefined, { numeric: true });
    runs.sort((a, b) => {
      const [x, y] = [a.keys[column], b.keys[column]];
      if (x === null || y === null) return (x === null) - (y === null); // what is not known stands last in either direction
      const way = typeof x === "number" && typeof y === "number" ? x - y : text.compare(String(x), String(y));
      return descending ? -way : way;
    });
    headers.forEach((h, i) => {
      if (i === column) h.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else h.removeAttribute("aria-sort");
    });
    show();
  }

  function show() {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fit = runs.filter((run) => (chosen.verdict === null || run.verdict === chosen.verdict)
      && (chosen.cause === null || run.causes.includes(chosen.cause))
      && wanted.every((w) => run.words.includes(w)));
    const seen = fit.slice(0, limit);
    for (const run of seen) run.row ??= draw(run.packed);
    body.replaceChildren(...seen.map((run) => run.row));
    shown.textContent = fit.length === runs.length
      ? say("{count} runs", { count: fit.length }) : say("{count} of {all} runs", { count: fit.length, all: runs.length });
    more.hidden = fit.length <= limit;
    more.textContent = say("Show {count} more", { count: Math.min(AT_ONCE, fit.length - limit) });
  }

  /** The packed rows: gzip behind base64, which a browser unfolds by itself. */
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const said = JSON.parse(await new Response(stream).text());
    ({ verdicts, digits } = said);
    for (const row of said.rows) runs.push(ofPacked(row));
  }

  headers.forEach((header, column) => {
    const button = header.querySelector("button");
    if (button) button.addEventListener("click", () => sort(column, header.getAttribute("aria-sort") === "ascending"));
  });
  for (const name of ["verdict", "cause"]) {
    const buttons = [...document.querySelectorAll(`button[data-${name}]`)];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        const value = button.dataset[name];
        chosen[name] = chosen[name] === value ? null : value;
        for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset[name] === chosen[name]));
        limit = AT_ONCE;
        show();
      });
    }
  }
  filter.addEventListener("input", () => {
    limit = AT_ONCE;
    show();
  });
  more.addEventListener("click", () => {
    limit += AT_ONCE;
    show();
  });
  const packed = document.getElementById("packed");
  if (packed === null) {
    show();
    document.documentElement.dataset.rows = "all";
  } else {
    unpack(packed.textContent).then(() => {
      show();
      document.documentElement.dataset.rows = "all";
    }, () => {
      show();
      shown.textContent += say("; this browser cannot unfold the others, index.json has them all");
    });
  }
})();
