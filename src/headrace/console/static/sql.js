// The SQL page: posts the statement to /sql and shows the answer as a table. Values become text nodes, never HTML.
"use strict";

(() => {
  const form = document.getElementById("sql-form");
  const statement = document.getElementById("statement");
  const run = document.getElementById("run");
  const status = document.getElementById("sql-status");
  const failure = document.getElementById("sql-error");
  const panel = document.getElementById("sql-panel");
  const summary = document.getElementById("sql-summary");
  const result = document.getElementById("sql-result");
  const SHOWN_ROWS = 1000;

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  const isNumber = (type) => /^(u?(tiny|small|big|huge)?int(eger)?|float|double|real|decimal)/i.test(type);

  const cell = (value, numeric) => {
    if (value === null) return element("td", "null", numeric ? "number quiet" : "quiet");
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    return element("td", text, numeric ? "number" : "");
  };

  const table = ({ columns, types, rows }) => {
    const numeric = types.map(isNumber);
    const head = element("tr");
    columns.forEach((name, index) => {
      const title = element("th", name, numeric[index] ? "number" : "");
      title.scope = "col";
      title.title = types[index];
      head.append(title);
    });
    const body = element("tbody");
    for (const row of rows.slice(0, SHOWN_ROWS)) {
      const line = element("tr");
      row.forEach((value, index) => line.append(cell(value, numeric[index])));
      body.append(line);
    }
    const made = element("table", undefined, "table table--result");
    const header = element("thead");
    header.append(head);
    made.append(header, body);
    return made;
  };

  const showFailure = ({ message, remedy }) => {
    const notice = element("div", undefined, "notice notice--error");
    notice.setAttribute("role", "alert");
    notice.append(element("strong", message));
    if (remedy) notice.append(" ", element("span", remedy));
    failure.replaceChildren(notice);
    failure.hidden = false;
    panel.hidden = true;
  };

  const showResult = (answer, milliseconds) => {
    const shown = answer.rows.length > SHOWN_ROWS ? `, the first ${SHOWN_ROWS.toLocaleString("en")} shown` : "";
    const rows = answer.rows.length === 1 ? "1 row" : `${answer.rows.length.toLocaleString("en")} rows`;
    summary.textContent = `${rows}${shown} in ${Math.round(milliseconds)} ms`;
    result.replaceChildren(table(answer));
    failure.hidden = true;
    panel.hidden = false;
  };

  const ask = async () => {
    const started = performance.now();
    run.disabled = true;
    status.textContent = "running …";
    try {
      const response = await fetch("/sql", {
        method: "POST",
        headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify({ query: statement.value }),
      });
      const answer = await response.json();
      if (response.ok) showResult(answer, performance.now() - started);
      else showFailure({ message: answer.message ?? answer.detail ?? response.statusText, remedy: answer.remedy });
    } catch (error) {
      showFailure({ message: `The gateway did not answer: ${error.message}.`, remedy: "Check `headrace status`, then try again." });
    } finally {
      run.disabled = false;
      status.textContent = "";
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  statement.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  for (const example of document.querySelectorAll("[data-example]")) {
    example.addEventListener("click", () => {
      statement.value = example.dataset.example;
      form.requestSubmit();
    });
  }
})();
