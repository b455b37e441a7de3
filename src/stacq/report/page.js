(() => {
  "use strict";
  const source = document.getElementById("rollouts");
  const player = document.getElementById("player");
  if (!source || !player) return;

  const data = JSON.parse(source.textContent);
  const button = player.querySelector(".play");
  const slider = player.querySelector("input[type=range]");
  const clock = player.querySelector(".scrub span");
  const speed = player.querySelector("select");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const SECONDS = 8; // of a whole pass at usual speed
  const RADIUS = 0.14; // of a dot, in cells
  const SMALLEST = 3; // of a dot, in pixels

  const decode = (numbers) => {
    const path = [];
    let x = 0;
    let y = 0;
    for (let i = 0; i < numbers.length; i += 2) {
      x += numbers[i];
      y += numbers[i + 1];
      path.push([x / data.precision, y / data.precision]);
    }
    return path;
  };

  const panels = data.methods.map((method, index) => {
    const figure = player.querySelector(`figure[data-method="${index}"]`);
    return {
      figure,
      canvas: figure.querySelector("canvas"),
      count: figure.querySelector("output"),
      box: player.querySelector(`input[data-method="${index}"]`),
      paths: method.paths.map(decode),
      arrives: method.arrives,
    };
  });
  const last = Math.max(1, ...panels.flatMap((panel) => panel.paths.map((path) => path.length - 1)));

  let time = last;
  let playing = false;
  let before = 0;

  const at = (path, t) => {
    const i = Math.min(Math.floor(t), path.length - 1);
    const next = path[Math.min(i + 1, path.length - 1)];
    const part = Math.min(t, path.length - 1) - i;
    return [path[i][0] + part * (next[0] - path[i][0]), path[i][1] + part * (next[1] - path[i][1])];
  };

  const drawPath = (pen, path, arrives, t, ink, paper, radius) => {
    const [x, y] = at(path, t);
    const ended = t >= path.length - 1;
    pen.globalAlpha = 0.34;
    pen.lineWidth = 0.055;
    pen.beginPath();
    pen.moveTo(path[0][0], path[0][1]);
    for (let i = 1; i <= Math.min(t, path.length - 1); i += 1) pen.lineTo(path[i][0], path[i][1]);
    pen.lineTo(x, y);
    pen.stroke();
    pen.globalAlpha = 1;
    if (ended && !arrives) {
      const r = radius * 0.9;
      for (const [colour, width] of [[paper, 0.16], [ink, 0.07]]) {
        pen.strokeStyle = colour;
        pen.lineWidth = width;
        pen.beginPath();
        pen.moveTo(x - r, y - r);
        pen.lineTo(x + r, y + r);
        pen.moveTo(x + r, y - r);
        pen.lineTo(x - r, y + r);
        pen.stroke();
      }
      return;
    }
    if (ended) return; // at the goal: the star stays visible
    pen.lineWidth = 0.035;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fill();
    pen.strokeStyle = paper;
    pen.stroke();
  };

  const drawPanel = (panel, t) => {
    const { canvas } = panel;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (!width || !height) return;
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const style = getComputedStyle(canvas);
    const ink = style.getPropertyValue("--ink");
    const paper = style.getPropertyValue("--floor");
    const pen = canvas.getContext("2d");
    const edge = 2 / 40; // the drawing's margin, in cells
    const scale = width / (data.width + 2 * edge);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(scale, 0, 0, scale, edge * scale, edge * scale);
    pen.lineCap = "round";
    pen.lineJoin = "round";
    panel.paths.forEach((path, i) => {
      if (!path.length) return;
      pen.strokeStyle = style.color;
      pen.fillStyle = style.color;
      drawPath(pen, path, panel.arrives[i], t, ink, paper, Math.max(RADIUS, (SMALLEST * ratio) / scale));
    });
  };

  const render = () => {
    const step = Math.round(time * data.stride);
    slider.value = String(Math.round(time));
    slider.setAttribute("aria-valuetext", `step ${step} of ${last * data.stride}`);
    clock.textContent = `step ${step}`;
    for (const panel of panels) {
      if (panel.figure.hidden) continue;
      const there = panel.paths.filter((path, i) => panel.arrives[i] && time >= path.length - 1).length;
      panel.count.textContent = `${there} of ${panel.paths.length} at the goal`;
      drawPanel(panel, time);
    }
  };

  const press = (on) => {
    playing = on;
    button.setAttribute("aria-pressed", String(on));
    button.querySelector("span").textContent = on ? "Pause" : "Play";
  };

  const tick = (now) => {
    if (!playing) return;
    const pace = (last / Math.min(SECONDS, Math.max(2, last / 6))) * Number(speed.value);
    const wait = calm.matches ? 400 : 0; // few still pictures instead of motion
    if (now - before >= wait) {
      time = Math.min(last, time + (pace * Math.min(now - before, Math.max(wait, 100))) / 1000);
      before = now;
      render();
    }
    if (time >= last) press(false);
    else requestAnimationFrame(tick);
  };

  button.addEventListener("click", () => {
    press(!playing);
    if (!playing) return;
    if (time >= last) time = 0;
    before = performance.now();
    requestAnimationFrame(tick);
  });
  slider.addEventListener("input", () => {
    press(false);
    time = Number(slider.value);
    render();
  });
  for (const panel of panels) {
    panel.box.addEventListener("change", () => {
      panel.figure.hidden = !panel.box.checked;
      render();
    });
  }
  dark.addEventListener("change", render);
  new ResizeObserver(render).observe(player);

  slider.max = String(last);
  player.hidden = false;
  render();
})();
