(() => {
  const { runs, limits } = JSON.parse(document.getElementById("facts").textContent);
  const find = id => document.getElementById(id);
  const form = find("ask"), boxes = [find("one"), find("two")], button = form.querySelector("button");
  const past = [], MOST = 50;
  let asking = null, highest = 1;

  function make(name, text, style) {
    const made = document.createElement(name);
    made.textContent = text;
    if (style) made.className = style;
    return made;
  }

  // A text of somebody else: it turns the direction of writing for itself only.
  const isolated = text => make("bdi", text);
  const percent = share => (100 * share).toFixed(1) + "%";

  async function ask(path, content, signal) {
    let answer, status;
    try {
      const response = await fetch(path, {
        method: "POST", signal, body: JSON.stringify(content),
        headers: { "Content-Type": "application/json" },
      });
      status = response.status;
      answer = await response.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error(status ? `The service answered with status ${status}.` : "The service does not answer.");
    }
    if (status !== 200) throw new Error(answer.error.message);
    return answer;
  }

  function complain(message, box) {
    find("problem").textContent = message;
    find("problem").hidden = !message;
    for (const other of boxes) other.setAttribute("aria-invalid", String(other === box));
    if (box) box.focus();
  }

  function bar(name, value, high, style) {
    const track = make("div", "", style), fill = make("i", "");
    fill.style.width = 100 * Math.min(1, Math.abs(value) / high) + "%";
    track.append(fill);
    const label = make("span", "", style);
    label.append(isolated(name));
    return [label, track, make("span", value.toFixed(3))];
  }

  function inWords(answer) {
    if ("score" in answer) return ["Score ", answer.score.toFixed(4), ""];
    if (answer.label === null) return ["", "The matcher abstains", ""];
    return ["", answer.label, ` ${percent(answer.probabilities[answer.label])}`];
  }

  function show(answer) {
    const [before, what, after] = inWords(answer), strong = make("b", "");
    strong.append(isolated(what));
    find("said").replaceChildren(before, strong, after);
    const shares = Object.entries(answer.probabilities || {});
    highest = Math.max(highest, Math.abs(answer.score || 0));
    find("shares").replaceChildren(...shares.length
      ? shares.flatMap(([name, share]) => bar(name, share, 1, name === answer.label ? "chosen" : ""))
      : bar("score", answer.score, highest, answer.score < 0 ? "least chosen" : "chosen"));
    find("answer").hidden = false;
  }

  function remember(asked, answer) {
    past.unshift({ asked, answer });
    past.length = Math.min(past.length, MOST);
    list();
  }

  function list() {
    find("past").hidden = !past.length;
    find("history").replaceChildren(...past.map(({ asked, answer }) => {
      const item = make("li", ""), again = make("button", "", "again");
      again.type = "button";
      const [before, what, after] = inWords(answer), strong = make("b", "");
      strong.append(isolated(what));
      again.append(before, strong, after);
      if (runs.length > 1) again.append(" · ", isolated(asked.run));
      again.append(make("br", ""), isolated(asked.sentence1), " / ", isolated(asked.sentence2));
      again.addEventListener("click", () => {
        find("run").value = asked.run;
        boxes[0].value = asked.sentence1;
        boxes[1].value = asked.sentence2;
        compare();
        boxes[0].focus();
      });
      item.append(again);
      return item;
    }));
  }

  async function compare() {
    const [sentence1, sentence2] = boxes.map(box => box.value.trim());
    const asked = { sentence1, sentence2, run: find("run").value };
    if (asking) asking.abort();
    const empty = boxes.find(box => !box.value.trim());
    if (empty) return complain(`${empty === boxes[0] ? "Sentence 1" : "Sentence 2"} is empty.`, empty);
    complain("");
    const mine = asking = new AbortController(), explanation = find("explanation");
    const explains = find("why").checked && runs.find(run => run.name === asked.run).explains;
    button.setAttribute("aria-busy", "true");
    try {
      const answer = await ask("predict", asked, mine.signal);
      show(answer);
      remember(asked, answer);
      explanation.replaceChildren(...explains ? [make("p", "Explaining …", "note")] : []);
      explanation.setAttribute("aria-busy", String(Boolean(explains)));
      if (explains) {
        const found = await ask("explain", { ...asked, html: true }, mine.signal);
        explanation.innerHTML = found.html;  // escaped by the service; the policy runs no script in it
      } else if (find("why").checked) {
        explanation.append(make("p", "This run cannot explain answers: it is served without Keras.", "note"));
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      if (explanation.getAttribute("aria-busy") === "true") explanation.replaceChildren();
      complain(error.message);
    }
    if (asking === mine) {
      button.removeAttribute("aria-busy");
      explanation.setAttribute("aria-busy", "false");
    }
  }

  form.addEventListener("submit", event => { event.preventDefault(); compare(); });
  for (const box of boxes) {
    box.addEventListener("keydown", event => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      compare();
    });
    box.addEventListener("input", () => {
      const most = limits.characters, count = [...box.value].length;
      complain(count > most ? `A sentence may have ${most} characters; this one has ${count}.` : "");
    });
  }
  const example = find("example");
  if (example) example.addEventListener("change", () => {
    const { one, two } = example.selectedOptions[0].dataset;
    if (one === undefined) return;
    [boxes[0].value, boxes[1].value] = [one, two];
    compare();
  });
  find("forget").addEventListener("click", () => { past.length = 0; list(); boxes[0].focus(); });
})();
