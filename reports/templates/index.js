(() => {
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  const words = new Map(rows.map((row) => [row, `${row.textContent} ${row.cells[2].title}`.toLowerCase()]));
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const order = ["anomalous", "unreadable", "inconclusive", "healthy"];
  const chosen = { verdict: null, cause: null };

  function key(row, column) {
    const cell = row.cells[column];
    if (column === 1) return order.indexOf(row.dataset.verdict);
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return text === "" || "lost" in cell.dataset ? null : text.toLowerCase();
  }

  function sort(column, descending) {
    const keys = new Map(rows.map((row) => [row, key(row, column)]));
    const text = new Intl.Collator(undefined, { numeric: true });
    rows.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === null || y === null) return (x === null) - (y === null); // what is not known stands last in either direction
      const way = typeof x === "number" && typeof y === "number" ? x - y : text.compare(String(x), String(y));
      return descending ? -way : way;
    });
    body.append(...rows);
    headers.forEach((h, i) => {
      if (i === column) h.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else h.removeAttribute("aria-sort");
    });
  }

  function show() {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits = (chosen.verdict === null || row.dataset.verdict === chosen.verdict)
        && (chosen.cause === null || row.dataset.causes.split(" ").includes(chosen.cause))
        && wanted.every((w) => words.get(row).includes(w));
      row.hidden = !fits;
      count += fits;
    }
    shown.textContent = count === rows.length ? say("{count} runs", { count }) : say("{count} of {all} runs", { count, all: rows.length });
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
        show();
      });
    }
  }
  filter.addEventListener("input", show);
  show();
})();
