"use strict";
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const fill = (words, ...numbers) => words.replace(/#/g, () => numbers.shift().toLocaleString("en"));

  // one choice of axis holds for the whole page
  for (const set of all(".switch")) {
    set.addEventListener("change", (event) => {
      for (const other of all(".switch")) {
        if (other.dataset.switch === set.dataset.switch) all("input", other)[event.target.value].checked = true;
      }
    });
  }

  // a link or the printer opens what is folded
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.querySelector(":scope > details");
    if (folded) folded.open = true;
  };
  addEventListener("hashchange", unfold);
  addEventListener("beforeprint", () => all(".part > details").forEach((folded) => (folded.open = true)));
  unfold();

  // the contents: closed on a phone, and marking where the reader is
  const contents = document.querySelector(".toc details");
  if (matchMedia("(max-width: 1000px)").matches) contents.open = false;
  const links = new Map(all(".toc a").map((link) => [link.getAttribute("href").slice(1), link]));
  const parts = all(".part");
  const mark = () => {
    const line = innerHeight / 3;
    const here = parts.findLast((part) => part.getBoundingClientRect().top < line) || parts[0];
    for (const [anchor, link] of links) {
      if (anchor === here.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  let waiting = false;
  addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(() => ((waiting = false), mark()));
    waiting = true;
  }, { passive: true });
  if (parts.length) mark();

  for (const root of all(".browser")) browse(root);

  function browse(root) {
    const data = JSON.parse(root.querySelector("script").textContent);
    const { words } = data;
    const part = (name) => root.querySelector(`[data-${name}]`);
    const sides = all("[data-side]", root);
    const [filter, find] = [part("filter"), part("find")];
    const [RIGHT, WRONG, UNKNOWN] = [0, 1, 2];
    const names = ["right", "wrong", "not-counted"];
    const signs = ["✓", "✗", "?"];
    const relations = [
      (a, b) => a === RIGHT && b === WRONG,
      (a, b) => a === WRONG && b === RIGHT,
      (a, b) => a === RIGHT && b === RIGHT,
      (a, b) => a === WRONG && b === WRONG,
      (a, b) => a === UNKNOWN || b === UNKNOWN,
    ];
    const texts = data.cases.map((c) => [c.id, c.question, ...c.samples.map((s) => (s ? s[4] : ""))].map((t) => t.toLowerCase()));
    let shown = [];
    let at = 0;

    const judgement = (c, side) => {
      const sample = c.samples[sides[side].value];
      return sample ? sample[0] : UNKNOWN;
    };
    const fits = (c, choice) => {
      if (choice === "all") return true;
      const number = Number(choice.slice(1));
      return choice[0] === "k" ? c.kind === number : relations[number](judgement(c, 0), judgement(c, 1));
    };
    const option = (value, text) => {
      const element = make("option", "", text);
      element.value = value;
      return element;
    };

    sides.forEach((select, side) => {
      select.append(...data.models.map((name, i) => option(i, name)));
      select.value = data.shown[side];
    });

    function offer() {
      const before = filter.value || "all";
      const counted = (value, text) => option(value, `${text} (${data.cases.filter((c) => fits(c, value)).length})`);
      const group = (label, options) => {
        const element = make("optgroup");
        element.label = label;
        element.append(...options);
        return element;
      };
      filter.replaceChildren(
        counted("all", words.all),
        group(words.relation, words.relations.map((text, i) => counted(`r${i}`, text))),
        group(words.kind, data.kinds.map((text, i) => counted(`k${i}`, text))),
      );
      filter.value = before;
    }

    // text of models only ever becomes text nodes
    function write(element, text, wanted) {
      element.replaceChildren();
      const low = text.toLowerCase();
      let from = 0;
      for (let to; wanted && low.length === text.length && (to = low.indexOf(wanted, from)) >= 0; from = to + wanted.length) {
        element.append(text.slice(from, to), make("mark", "", text.slice(to, to + wanted.length)));
      }
      element.append(text.slice(from));
    }

    function list() {
      const wanted = find.value.trim().toLowerCase();
      const columns = [0, 1, ...sides.map((select) => Number(select.value) + 2)];
      shown = data.cases.flatMap((c, i) =>
        fits(c, filter.value) && (!wanted || columns.some((k) => texts[i][k].includes(wanted))) ? [c] : []);
      part("found").textContent = fill(words.found, shown.length, data.cases.length);
      part("list").replaceChildren(...shown.map((c, i) => {
        const button = make("button");
        button.type = "button";
        button.append(make("bdi", "id", c.id));
        for (const side of [0, 1]) {
          const found = judgement(c, side);
          button.append(make("span", `dot ${names[found]}`, signs[found]));
        }
        button.addEventListener("click", () => turn(i));
        const item = make("li");
        item.append(button);
        return item;
      }));
      turn(0);
    }

    function turn(to) {
      at = Math.max(0, Math.min(to, shown.length - 1));
      const c = shown[at];
      part("case").classList.toggle("empty", !c);
      part("place").textContent = c ? `${at + 1} / ${shown.length}` : "0 / 0";
      all("[data-turn]", root).forEach((button) => {
        const next = at + Number(button.dataset.turn);
        button.disabled = next < 0 || next >= shown.length;
      });
      all("button", part("list")).forEach((button, i) => {
        if (i === at) {
          button.setAttribute("aria-current", "true");
          part("list").scrollTop = Math.max(0, button.offsetTop - part("list").offsetTop - 120);
        } else button.removeAttribute("aria-current");
      });
      const wanted = find.value.trim().toLowerCase();
      part("problem").textContent = c ? c.id : "";
      part("kind").textContent = c ? data.kinds[c.kind] : words.none;
      write(part("question"), c ? more(c.question, c.left) : "", wanted);
      part("gold").replaceChildren(...(c && c.gold ? [`${words.gold} `, bold(c.gold)] : []));
      all("[data-answer]", root).forEach((box, side) => answer(box, c, side, wanted));
    }

    const more = (text, left) => (left ? `${text} … ${fill(words.more, left)}` : text);

    function bold(text) {
      const [outer, inner] = [make("bdi"), make("b", "", text)];
      outer.append(inner);
      return outer;
    }

    function answer(box, c, side, wanted) {
      box.replaceChildren();
      box.className = "answer";
      box.hidden = !c;
      if (!c) return;
      const head = make("h5");
      head.append(make("span", "", data.models[sides[side].value]));
      box.append(head);
      const sample = c.samples[sides[side].value];
      if (!sample) return box.append(make("p", "meta", words.missing));
      const [judged, tokens, truncated, read, text, left] = sample;
      box.classList.add(names[judged]);
      head.append(make("span", "mark", `${signs[judged]} ${words.marks[judged]}`));
      const meta = make("p", "meta");
      meta.append(...(read ? [`${words.read} `, bold(read)] : [words.unread]));
      meta.append(` · ${fill(words.tokens, tokens)}`);
      if (truncated) meta.append(` · ${words.cut}`);
      const body = make("pre");
      body.dir = "auto";
      body.tabIndex = 0;
      write(body, more(text, left), wanted);
      box.append(meta, body);
    }

    sides.forEach((select) => select.addEventListener("change", () => { offer(); list(); }));
    filter.addEventListener("change", list);
    find.addEventListener("input", list);
    all("[data-turn]", root).forEach((button) => button.addEventListener("click", () => turn(at + Number(button.dataset.turn))));
    part("case").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step && event.target.tagName === "BUTTON") turn(at + step);
    });
    offer();
    list();
    root.hidden = false;
  }
})();
