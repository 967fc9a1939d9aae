// The overview's charts, and the water in the channels, which moves while events do.
"use strict";

(() => {
  const WINDOW_SECONDS = 300;
  // One column per figure, as in the points from views.py: time, accepted per second, Avro per second, p50, p99.
  let columns = [[], [], [], [], []];
  let charts = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const perSecond = (value) => (value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 }) + " /s");
  const duration = (value) => {
    if (value == null) return "–";
    if (value >= 1000) return (value / 1000).toLocaleString("en", { maximumFractionDigits: 2 }) + " s";
    return value.toLocaleString("en", { maximumFractionDigits: 1 }) + " ms";
  };

  const series = (label, stroke, show, fill) => ({
    label,
    stroke: colour(stroke),
    fill: fill ? colour(fill) : undefined,
    width: 1.75,
    points: { show: false },
    value: (_, value) => show(value),
  });

  const axis = (extra) => ({
    stroke: colour("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    ...extra,
  });

  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

  const showNewest = (plot) => {
    const newest = plot.data[0].length - 1;
    if (newest >= 0) plot.setLegend({ idx: newest }, false);
  };

  const makeChart = (element, lines, format, columnsOf) => {
    element.replaceChildren();
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: 200,
        padding: [12, 8, 0, 0],
        cursor: { y: false, points: { size: 6 } },
        scales: {
          x: { range: (_, low, high) => [Math.min(low, high - 60), high] },
          y: { range: (_, low, high) => [0, Math.max(10, (high ?? 0) * 1.15)] },
        },
        axes: [
          axis({ values: (_, ticks) => ticks.map(clock), space: 90, size: 30 }),
          axis({ values: (_, ticks) => ticks.map(format), size: 58 }),
        ],
        series: [{ label: "UTC", value: (_, value) => (value == null ? "–" : clock(value)) }, ...lines],
        legend: { live: true },
        // With no pointer on the chart, the legend shows the newest figures.
        hooks: { setCursor: [(u) => u.cursor.idx == null && showNewest(u)] },
      },
      columnsOf(),
      element,
    );
    return { element, plot, columnsOf };
  };

  const draw = () => {
    for (const chart of charts) chart.plot.destroy();
    charts = [
      makeChart(
        document.getElementById("throughput-chart"),
        [series("accepted", "--chart-1", perSecond, "--chart-1-soft"), series("in Avro", "--chart-2", perSecond)],
        (value) => value.toLocaleString("en"),
        () => [columns[0], columns[1], columns[2]],
      ),
      makeChart(
        document.getElementById("latency-chart"),
        [series("p50", "--chart-1", duration, "--chart-1-soft"), series("p99", "--chart-3", duration)],
        duration,
        () => [columns[0], columns[3], columns[4]],
      ),
    ];
  };

  const update = () => {
    for (const { plot, columnsOf } of charts) {
      plot.setData(columnsOf());
      if (plot.cursor.idx == null) showNewest(plot);
    }
  };

  const add = ({ reset, points }) => {
    if (reset) columns = columns.map(() => []);
    for (const point of points) point.forEach((value, index) => columns[index].push(value));
    const newest = columns[0][columns[0].length - 1];
    const first = columns[0].findIndex((at) => at >= newest - WINDOW_SECONDS);
    if (first > 0) columns = columns.map((column) => column.slice(first));
    update();
  };

  const move = (rates) => {
    for (const [name, rate] of Object.entries(rates)) {
      for (const id of ["channel-" + name, "fork-" + name]) {
        const line = document.getElementById(id);
        if (line) line.dataset.moving = String(rate > 0);
      }
    }
  };

  document.getElementById("chart-data").addEventListener("htmx:sseBeforeMessage", (event) => {
    event.preventDefault(); // the message is data, not part of the page
    const message = JSON.parse(event.detail.data);
    add(message);
    move(message.moving);
  });

  new ResizeObserver(() => {
    for (const { element, plot } of charts) plot.setSize({ width: element.clientWidth, height: 200 });
  }).observe(document.getElementById("throughput-chart"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  draw();
})();
