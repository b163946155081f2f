// Functions with which all parts of the page draw.

const latest = 250; // milliseconds; a hidden page gets no frames to draw in

// drawing returns a function that calls draw once, before the next frame, however often it is
// called meanwhile.
export function drawing(draw) {
	let timer = 0, frame = 0;
	const run = () => {
		clearTimeout(timer);
		cancelAnimationFrame(frame);
		timer = 0;
		draw();
	};
	return () => {
		if (timer) return;
		timer = setTimeout(run, latest);
		frame = requestAnimationFrame(run);
	};
}

// element makes an element with a class and a text.
export function element(tag, className = "", text = "") {
	const e = document.createElement(tag);
	if (className) e.className = className;
	if (text) e.textContent = text;
	return e;
}

// say sets the text of a live region if it has changed: the same text would be read out once more.
export function say(e, text) {
	if (e.textContent !== text) e.textContent = text;
}

// avatar is the first letter of a name, on a colour that is the same for everybody.
export function avatar(name) {
	const e = element("span", "avatar", initial(name));
	e.setAttribute("aria-hidden", "true");
	paint(e, name);
	return e;
}

const segmenter = new Intl.Segmenter();

function initial(name) {
	const [first] = segmenter.segment(name);
	return first ? first.segment.toUpperCase() : "";
}

// paint gives e the hue of a name, from which the style sheet makes readable colours.
export function paint(e, name) {
	let hash = 2166136261; // FNV-1a
	for (const c of name) hash = Math.imul(hash ^ c.codePointAt(0), 16777619);
	e.style.setProperty("--hue", (hash >>> 8) % 360);
}
