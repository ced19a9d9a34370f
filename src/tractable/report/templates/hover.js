// Values under the pointer (or the arrow keys); without this script the charts are still whole.
for (const plot of document.querySelectorAll(".plot")) {
  const svg = plot.querySelector("svg"), tip = plot.querySelector(".tip");
  const cursor = svg.querySelector(".cursor"), data = plot.querySelector("script");
  if (!data) continue;
  const lines = JSON.parse(data.textContent).filter((line) => line.points.length);
  const stops = new Map();
  for (const line of lines) for (const p of line.points) stops.set(p[0], p[2]);
  const order = [...stops].sort((a, b) => a[1] - b[1]);
  if (!order.length) continue;
  let at = -1;
  const text = (v) => (Math.abs(v) >= 1e4 && Math.abs(v) < 1e6 ? v.toFixed(0) : String(+v.toPrecision(4))).replace("-", "\u2212");
  function show(index) {
    at = Math.max(0, Math.min(order.length - 1, index));
    const [value, place] = order[at];
    const near = lines.map((line) => {
      const p = line.points.reduce((a, b) => (Math.abs(b[2] - place) < Math.abs(a[2] - place) ? b : a));
      return [line.name, p];
    }).filter(([, p]) => Math.abs(p[2] - place) < 4).sort((a, b) => a[1][3] - b[1][3]);
    tip.replaceChildren();
    const head = document.createElement("b");
    head.textContent = plot.dataset.x + " " + text(value);
    tip.append(head);
    for (const [name, p] of near) {
      const row = document.createElement("div");
      row.textContent = name + ": " + text(p[1]);
      tip.append(row);
    }
    cursor.setAttribute("x1", place); cursor.setAttribute("x2", place);
    cursor.style.visibility = "visible";
    const share = place / svg.viewBox.baseVal.width;
    tip.style.display = "block";
    tip.style.left = share < 0.5 ? 100 * share + 3 + "%" : "auto";
    tip.style.right = share < 0.5 ? "auto" : 100 * (1 - share) + 3 + "%";
  }
  function hide() { tip.style.display = "none"; cursor.style.visibility = "hidden"; }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    let best = 0;
    order.forEach(([, place], i) => { if (Math.abs(place - x) < Math.abs(order[best][1] - x)) best = i; });
    show(best);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { event.preventDefault(); show(at + step); }
    if (event.key === "Escape") hide();
  });
}
