// Draws the charts of a page with uPlot: a pointer reads values, a drag shows a part of the time.
// Without it the drawing of the server stays.
"use strict";
(() => {
  const drawn = new Set();
  const two = (value) => String(value).padStart(2, "0");

  const instant = (seconds) => {
    const at = new Date(seconds * 1000);
    return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} `
      + `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  };

  // As tidemark/settings/times.py words durations, and tidemark/board/pages/wording.py numbers.
  const duration = (ms) => {
    const seconds = ms / 1000;
    if (seconds < 1) return ms === 0 ? "0 s" : `${Math.round(ms)} ms`;
    if (seconds < 60) return `${Number(seconds.toFixed(1))} s`;
    const whole = Math.round(seconds);
    for (const [size, name, small, low] of [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]]) {
      const rest = Math.floor((whole % size) / small);
      if (whole >= size) return `${Math.floor(whole / size)} ${name}${rest ? ` ${rest} ${low}` : ""}`;
    }
    return "";
  };
  const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 1000 ? 1 : 0 });
  const share = (value) => `${Math.round(value * 100)}%`;
  const sizes = ["B", "KiB", "MiB", "GiB", "TiB"];
  const size = (value) => {
    let place = 0;
    while (Math.abs(value) >= 1024 && place < sizes.length - 1) { value /= 1024; place += 1; }
    return `${Number(value.toFixed(1))} ${sizes[place]}`;
  };
  const texts = { ms: duration, number, bytes: size, share, rate: (value) => `${number(value)}/s` };

  const isolated = (u, series) => {
    const values = u.data[series];
    return values.flatMap((value, i) => (value !== null && values[i - 1] == null && values[i + 1] == null ? [i] : []));
  };

  const draw = (figure) => {
    const chart = JSON.parse(figure.dataset.chart);
    // A canvas does not know light-dark(): the colour of an element is what it came to.
    const probe = figure.querySelector(".when");
    const colour = (name) => {
      probe.style.color = `var(--${name})`;
      const found = getComputedStyle(probe).color;
      probe.style.color = "";
      return found;
    };
    const text = texts[figure.dataset.unit];
    const room = figure.querySelector(".plot");
    const width = figure.clientWidth;
    const labels = figure.querySelectorAll(".legend b:not(.range)");
    const range = figure.querySelector(".legend .range");
    const usually = range && range.textContent;
    const newest = [...labels].map((each) => each.textContent);
    const when = figure.querySelector(".when");
    const font = "11px system-ui, sans-serif";
    const low = chart.kinds.indexOf("low") + 1;
    // As tidemark/board/pages/charts.py divides a line: between two values a line is whole, next to a bound dashed.
    const bounded = chart.bounds.flatMap((marks, i) => (marks ? [i] : []));
    const isBound = (i, place) => Boolean((chart.bounds[i] || [])[place]);
    const exact = chart.values.map((values, i) => values.map((value, place) => (isBound(i, place) ? null : value)));
    const dashed = bounded.map((i) => chart.values[i].map((value, place) =>
      ([place - 1, place, place + 1].some((near) => isBound(i, near)) ? value : null)));
    const every = width < 600 ? 2 : 1;
    const axis = { font, stroke: colour("dim"), grid: { stroke: colour("edge"), width: 1 }, ticks: { show: false } };

    const marks = (u) => {
      const ctx = u.ctx;
      ctx.save();
      for (const [at, kind] of chart.marks) {
        const x = Math.round(u.valToPos(at, "x", true));
        ctx.strokeStyle = ctx.fillStyle = colour({ fired: "bad", done: "ok", health: "b", note: "ink" }[kind] || "dim");
        ctx.setLineDash([3, 3]);
        ctx.beginPath(); ctx.moveTo(x, u.bbox.top); ctx.lineTo(x, u.bbox.top + u.bbox.height); ctx.stroke();
        ctx.beginPath(); ctx.arc(x, u.bbox.top, 4 * devicePixelRatio, 0, 7); ctx.fill();
      }
      ctx.restore();
    };
    // Behind the grid and the lines, as the server draws it.
    const usual = (u) => {
      const { ctx, bbox } = u;
      const top = u.scales.y.max;
      ctx.save();
      ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
      ctx.fillStyle = colour("usual");
      for (const [from, to, low, high] of chart.usual) {
        if (low > top) continue;
        const [left, right] = [from, to].map((at) => u.valToPos(at, "x", true));
        const [above, below] = [Math.min(high, top), low].map((value) => u.valToPos(value, "y", true));
        const height = Math.max(devicePixelRatio, below - above);
        ctx.fillRect(left, below - height, right - left, height);
      }
      ctx.restore();
    };
    const read = (u) => {
      const place = u.cursor.idx;
      const off = u.cursor.left < 0 || place == null;
      const at = off ? null : u.posToVal(u.cursor.left, "x");
      const near = off ? [] : chart.marks.filter(([mark]) => Math.abs(u.valToPos(mark, "x") - u.cursor.left) < 6);
      when.textContent = off ? "" : [instant(chart.at[place]), ...near.map(([, , title]) => title)].join(" · ");
      labels.forEach((label, i) => {
        const value = off ? null : chart.values[i][place];
        const mark = off ? "" : (chart.bounds[i] || [])[place];
        label.textContent = off ? newest[i] : value == null ? "–" : `${mark ? `${mark} ` : ""}${text(value)}`;
      });
      if (range) {
        const hour = off ? null : chart.usual.find(([from, to]) => from <= chart.at[place] && chart.at[place] < to);
        range.textContent = off ? usually : hour ? hour[4] : "–";
      }
      return at;
    };
    const show = (u) => {
      if (u.select.width < 12) return;
      const address = new URL(location.href);
      const [from, to] = [u.select.left, u.select.left + u.select.width].map((x) => u.posToVal(x, "x"));
      address.searchParams.delete("range");
      address.searchParams.set("from", new Date(Math.floor(from) * 1000).toISOString().replace(".000", ""));
      address.searchParams.set("to", new Date(Math.ceil(to) * 1000).toISOString().replace(".000", ""));
      location.assign(address);
    };
    const plot = new uPlot({
      width,
      height: 200,
      padding: [10, 8, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "page" }, y: false, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, range: [chart.from, chart.to] }, y: { range: [0, chart.rows[chart.rows.length - 1][0]] } },
      axes: [
        { ...axis, grid: { show: false }, size: 26, splits: () => chart.columns.filter((_, i) => i % every === 0).map(([at]) => at),
          values: (u, splits) => splits.map((at) => chart.columns.find(([mark]) => mark === at)[1]) },
        { ...axis, size: 66, splits: () => chart.rows.map(([value]) => value), values: () => chart.rows.map(([, label]) => label) },
      ],
      series: [{}, ...[...chart.kinds, ...bounded.map((i) => chart.kinds[i])].map((kind, i) => {
        const line = kind === "low" || kind === "high" ? "band" : kind;
        return {
          dash: i < chart.kinds.length ? undefined : [5, 4],
          stroke: line === "band" ? "transparent" : colour(line),
          width: line === "band" ? 0 : 1.8,
          points: { show: line !== "band", filter: isolated, size: 4, fill: colour(line) },
        };
      })],
      bands: low ? [{ series: [low + 1, low], fill: colour("band") }] : [],
      hooks: { drawClear: [usual], draw: [marks], setCursor: [read], setSelect: [show] },
    }, [chart.at, ...exact, ...dashed], room);
    figure.classList.add("drawn");
    drawn.add({ figure, plot });
  };

  const drawAll = () => {
    for (const each of drawn) {
      if (!each.figure.isConnected) { each.plot.destroy(); drawn.delete(each); }
    }
    document.querySelectorAll("figure[data-chart]:not(.drawn)").forEach(draw);
  };
  const again = () => {
    for (const { figure, plot } of drawn) { plot.destroy(); figure.classList.remove("drawn"); }
    drawn.clear();
    drawAll();
  };
  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(again, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  document.body.addEventListener("htmx:afterSettle", drawAll);
  drawAll();
})();
