// What the pages do beyond links and forms. Every page also works without it, but for curves and heat maps.
(function () {
	"use strict";
	const $ = (selector, from) => (from || document).querySelector(selector);
	const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));

	// The flow: the server sends the picture again whenever it changes.
	const flow = $("#flow[data-events]");
	if (flow) {
		const source = new EventSource(flow.dataset.events);
		source.onmessage = (event) => {
			if (flow.contains(document.activeElement)) return; // nobody's focus is taken away
			flow.innerHTML = event.data; // the server's own template, escaped there; the policy allows no script in it
		};
		addEventListener("pagehide", () => source.close());
	}

	const again = $("[data-reload]");
	if (again) setTimeout(() => location.reload(), 1000 * Number(again.dataset.reload));

	const select = $("[data-goto-select]");
	if (select) select.addEventListener("change", () => { location.href = select.value; });

	// Curves.
	const curves = $("#curves");
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const colours = () => (dark.matches ? ["#8fb2ff", "#f0bd73", "#6ed6a8", "#ff9b93", "#c9a5ff", "#7fd4e6", "#f2a3d3", "#d3d27a"] : ["#1d4ed8", "#b45309", "#12704f", "#b3261e", "#6d28d9", "#0e7490", "#9d2671", "#62651a"]);
	function short(v) {
		const a = Math.abs(v);
		if (a >= 1e6) return (v / 1e6).toLocaleString("en") + " M";
		if (a >= 1e4) return (v / 1e3).toLocaleString("en") + " k";
		if (a !== 0 && a < 1e-3) return Number(v.toPrecision(3)).toExponential();
		return v.toLocaleString("en", { maximumFractionDigits: 4 });
	}
	// The labels of the vertical axis get the room of the widest.
	const room = (_, labels) => Math.max(40, 16 + 7 * Math.max(0, ...(labels || []).map((l) => l.length)));
	function draw(figure, curve) {
		const box = $(".plot", figure);
		box.textContent = "";
		const style = getComputedStyle(document.body);
		const axis = { stroke: style.getPropertyValue("--quiet"), grid: { stroke: style.getPropertyValue("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
		const value = (_, v) => (v === null || v === undefined ? "–" : short(v));
		new uPlot({
			width: box.clientWidth, height: 190,
			scales: { x: { time: false } },
			legend: { live: true },
			cursor: { y: false, points: { size: 6 } },
			axes: [Object.assign({ values: (_, list) => list.map(short) }, axis), Object.assign({ size: room, values: (_, list) => list.map(short) }, axis)],
			series: [{ label: "step", value }].concat(curve.runs.map((run, i) => ({ label: run, stroke: colours()[i % 8], width: 1.5, spanGaps: true, points: { show: curve.x.length < 40 }, value })))
		}, [curve.x].concat(curve.y), box);
	}
	if (curves) {
		fetch(curves.dataset.curves, { headers: { Accept: "application/json" } }).then((answer) => answer.json()).then((list) => {
			const paint = () => list.forEach((curve) => {
				const figure = all(".curve", curves).find((f) => f.dataset.name === curve.name);
				if (figure) draw(figure, curve);
			});
			paint();
			dark.addEventListener("change", paint);
			let width = innerWidth;
			addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; paint(); } });
			curves.dataset.drawn = "true";
		}).catch(() => { curves.dataset.drawn = "failed"; });
	}

	// Heat maps of mini-batches.
	all("canvas[data-matrix]").forEach((canvas) => {
		const data = JSON.parse($('script[data-of="' + canvas.dataset.matrix + '"]').textContent);
		const n = data.n, size = Math.max(4, Math.floor(1120 / n));
		canvas.width = canvas.height = n * size;
		let at = null;
		const paint = () => {
			const style = getComputedStyle(document.body);
			const heat = style.getPropertyValue("--heat");
			const c = canvas.getContext("2d");
			c.clearRect(0, 0, canvas.width, canvas.height);
			for (let i = 0; i < n; i++) {
				for (let j = 0; j < n; j++) {
					const share = (data.cells[i * n + j] - data.low) / Math.max(1, data.high - data.low);
					c.fillStyle = "rgba(" + heat + "," + (0.03 + 0.97 * share * share).toFixed(3) + ")";
					c.fillRect(j * size, i * size, size, size);
				}
			}
			c.lineWidth = Math.max(1.5, size / 8);
			c.strokeStyle = style.getPropertyValue("--bad");
			data.marks.forEach(([i, j]) => { c.beginPath(); c.arc((j + 0.5) * size, (i + 0.5) * size, size * 0.36, 0, 7); c.stroke(); });
			if (at) { c.strokeStyle = style.getPropertyValue("--ink"); c.strokeRect(at[1] * size, at[0] * size, size, size); }
		};
		const show = (i, j) => {
			at = [Math.max(0, Math.min(n - 1, i)), Math.max(0, Math.min(n - 1, j))];
			paint();
			const cell = $("#cell");
			cell.textContent = "";
			const image = document.createElement("img");
			image.src = "/thumbs/" + data.ids[at[0]] + "?s=s";
			image.alt = "";
			const words = document.createElement("bdi");
			words.textContent = "“" + data.texts[at[1]] + "”";
			const marked = data.marks.some(([a, b]) => a === at[0] && b === at[1]);
			cell.append(image, "image " + (at[0] + 1) + ", text " + (at[1] + 1) + ": " + (data.cells[at[0] * n + at[1]] / 1000).toFixed(2) + (at[0] === at[1] ? ", a pair" : marked ? ", a false negative" : "") + " ", words);
		};
		canvas.addEventListener("click", (event) => {
			const box = canvas.getBoundingClientRect();
			show(Math.floor((event.clientY - box.top) / box.height * n), Math.floor((event.clientX - box.left) / box.width * n));
		});
		canvas.addEventListener("keydown", (event) => {
			const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
			if (!step) return;
			event.preventDefault();
			at ? show(at[0] + step[0], at[1] + step[1]) : show(0, 0);
		});
		paint();
		dark.addEventListener("change", paint);
	});

	// Judgements: the page stays where it is.
	const score = $("#score");
	all("form.judge").forEach((form) => form.addEventListener("submit", (event) => {
		event.preventDefault();
		const pressed = event.submitter;
		const was = pressed.getAttribute("aria-pressed") === "true";
		const body = new URLSearchParams(new FormData(form));
		body.set("verdict", was ? "none" : pressed.value);
		fetch(form.action, { method: "POST", body, headers: { Accept: "text/plain" } }).then((answer) => {
			if (!answer.ok) throw new Error("The judgement was not written (" + answer.status + ").");
			return answer.text();
		}).then((text) => {
			score.textContent = text;
			all("button", form).forEach((b) => b.setAttribute("aria-pressed", String(b === pressed && !was)));
			const card = form.closest(".connection");
			card.classList.toggle("said-yes", !was && pressed.value === "match");
			card.classList.toggle("said-no", !was && pressed.value !== "match");
		}).catch((err) => { score.textContent = err.message; });
	}));
	addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
		const number = { y: 0, n: 1 }[event.key];
		const cards = all(".connection");
		if (number === undefined || !cards.length) return;
		const here = Math.max(0, cards.indexOf(event.target.closest(".connection")));
		all("button", cards[here])[number].click();
		const next = cards[here + 1];
		if (next) { $("a", next).focus(); next.scrollIntoView({ block: "nearest" }); }
	});
})();
